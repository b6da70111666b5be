"""A hub of models on this machine: what huggingface_hub asks for, from a folder."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "c0ffee" * 6 + "beef"


@contextmanager
def serving(repository: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The address of a hub with one model, whose files are in `folder`, and what it was asked for."""
    asked: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            path = self.path.partition("?")[0]
            for revision in ("main", "v1", COMMIT):
                if path in (f"/api/models/{repository}/revision/{revision}", f"/api/models/{repository}"):
                    return self._answer(json.dumps(info(repository, folder)).encode())
                if path.startswith(start := f"/{repository}/resolve/{revision}/"):
                    return self._answer((folder / path.removeprefix(start)).read_bytes())
                if path.startswith(f"/api/models/{repository}/tree/{revision}"):
                    return self._answer(json.dumps(tree(folder)).encode())
            code = "RevisionNotFound" if path.startswith(f"/api/models/{repository}/") else "RepoNotFound"
            self.send_response(404)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None

        do_HEAD = do_GET

        def _answer(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{sha256(content).hexdigest()}"')
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def info(repository: str, folder: Path) -> dict[str, object]:
    siblings = [{"rfilename": name, "size": (folder / name).stat().st_size} for name in names(folder)]
    return {"id": repository, "sha": COMMIT, "siblings": siblings, "private": False, "tags": [], "downloads": 0}


def tree(folder: Path) -> list[dict[str, object]]:
    return [
        {"type": "file", "path": name, "size": (folder / name).stat().st_size, "oid": "0" * 40}
        for name in names(folder)
    ]


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
