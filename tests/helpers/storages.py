"""Storages for tests: an SQLite file, and a real PostgreSQL server on loopback."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

# A tiny network on the embedded crystals: a run takes a second or two.
TINY = {
    "steps": 40, "network.name": "wrn-10-1", "network.stem_stride": 8, "batch.labelled": 4, "batch.ratio": 1,
    "evaluation.every": 4, "evaluation.samples": 50, "evaluation.batch": 1500,
}  # fmt: skip


@pytest.fixture(scope="session")
def tiny_options():
    return [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]


@pytest.fixture(scope="session")
def postgresql():
    """The URL of a server for the tests."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL server in /usr/lib/postgresql: apt-get install postgresql")
    if os.getuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("PostgreSQL does not run as root, and there is no setpriv")
    # As root it has to be another user, who must be able to reach the folder: pytest's own are closed to others.
    user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.getuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="surelabel-postgresql-") as folder:
        Path(folder).chmod(0o755)
        data = Path(folder, "data")
        data.mkdir()
        if user:
            shutil.chown(data, "nobody", "nogroup")
        initdb = [found[-1], "-D", data, "-A", "trust", "-U", "surelabel", "--no-sync", "--locale=C", "-E", "UTF8"]
        subprocess.run([*user, *initdb], check=True, capture_output=True, cwd="/")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        command = [found[-1].with_name("postgres"), "-D", data, "-p", str(port)]
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        server = subprocess.Popen([*user, *command, *options], stderr=subprocess.DEVNULL, cwd="/")
        try:
            url = f"postgresql://surelabel@127.0.0.1:{port}/postgres"
            _wait_for(server, url)
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # at SIGTERM it would wait for every client to leave
            server.wait()


def _wait_for(server, url):
    import psycopg

    for _ in range(200):
        assert server.poll() is None, "the server ended at once"
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    pytest.fail("the server did not answer within 20 seconds")


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request, tmp_path):
    """The URL of an empty storage."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.sqlite3'}"
    import psycopg

    server = request.getfixturevalue("postgresql")
    name = f"test_{time.monotonic_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.removesuffix("postgres") + name
