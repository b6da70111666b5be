"""Records: one small JSON file per finished run, so that the tables need no run folders."""

import json
import statistics
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

from surelabel.config.run import OF_THE_MACHINE
from surelabel.config.settings import read_yaml
from surelabel.studies.plan import FINETUNED, key_of
from surelabel.utils.bounded import MOST_SPLIT, Malformed, read_json, read_json_lines
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write
from surelabel.utils.typed import typed

Record = dict[str, Any]
# What is kept of metrics.jsonl: these keys, and at most this many lines.
HISTORY = ("step", "accuracy", "ece", "nll", "purity", "acceptance", "effective_classes", "pool_confidence")
LINES = 100
MACHINE = ("device", "precision", "compile")
PARTS_ASIDE = {"step", "images_per_second", "stepping", "steps"}


def record_of(
    folder: Path, finetune: float | None = None, base: Path | None = None, source: str | None = None
) -> Record:
    """The record of a finished run folder.

    For a fine-tuned run, `base` is the folder of the run it started from. `source` is the hash of
    the code, for a run without a commit.
    """
    settings = {
        key: value for key, value in read_yaml((base or folder) / "config.yaml").items() if key not in OF_THE_MACHINE
    }
    machine = read_yaml(folder / "config.yaml")
    if finetune is not None:
        settings[FINETUNED] = finetune
    result = _json(folder / "result.json")
    history = _lines(folder / "metrics.jsonl")
    split = _json(folder / "split.json")
    # By step, because a resumed run repeats some.
    timings = {row["step"]: row for row in _lines(folder / "timings.jsonl")}
    try:
        return {
            "key": key_of(settings),
            "config": settings,
            "seed": settings["seed"],
            "final": result["averaged"],
            "raw": result["raw"],
            "groups": result.get("groups", {}),
            "summary": result["summary"],
            "history": [{key: _short(row.get(key)) for key in HISTORY} for row in _thinned(history)],
            "split": blake2b(json.dumps(split).encode(), digest_size=8).hexdigest(),
            "environment": _environment(folder, source),
            "machine": {key: machine[key] for key in MACHINE},
            "seconds": round(sum(_seconds(row) for row in timings.values()), 1),
            "seconds_a_step": _step_seconds(list(timings.values())),
        }
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder} is not a finished run with a test set: {error!r} is missing") from error


def _environment(folder: Path, source: str | None) -> Record:
    known: Record = _json(folder / "environment.json")
    return known | ({"source": source} if source and known.get("commit") is None else {})


@cache
def source_of(package: Path) -> str:
    """A hash of a package's Python files, to identify the code outside a git checkout."""
    found = blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        text = path.read_bytes()
        found.update(f"{path.relative_to(package).as_posix()} {len(text)}\n".encode() + text)
    return found.hexdigest()


def write(record: Record, folder: Path, name: str) -> Path:
    path = folder / f"{name}.json"
    with atomic_write(path) as file:
        file.write(_text(record))
    return path


def _text(record: Record) -> str:
    """JSON with one line per key, and per evaluation of the history, for readable diffs."""
    parts = {key: _compact(value) for key, value in record.items()}
    parts["history"] = "[\n  " + ",\n  ".join(map(_compact, record["history"])) + "\n ]"
    return "{\n " + ",\n ".join(f'"{key}": {part}' for key, part in parts.items()) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def precision_of(record: Record) -> str:
    """The precision that it was computed in; older records, which do not say it, are all of float32."""
    return str(record.get("machine", {"precision": "32"})["precision"])


def read_all(folder: Path) -> dict[str, Record]:
    """The records in a folder by key, which is computed anew from their settings."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        record = _json(path)
        if not isinstance(record, dict) or not isinstance(record.get("config"), dict) or "final" not in record:
            raise UserError(f"{path} is not the record of a run: move it out of {folder}")
        found[key_of(record["config"])] = record
    return found


def finished_folders(folders: Iterable[Path]) -> Iterator[Path]:
    """The finished run folders among these folders and directly inside them."""
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder")
        inside = [folder] if (folder / "config.yaml").is_file() else sorted(folder.iterdir())
        yield from (path for path in inside if (path / "result.json").is_file() and (path / "config.yaml").is_file())


def _thinned(rows: list[Record]) -> list[Record]:
    """At most `LINES` evenly spaced rows, the last one included."""
    step = -(-len(rows) // LINES)
    return rows[::-1][::step][::-1] if rows else rows


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _seconds(row: Record) -> float:
    return float(sum(value for key, value in row.items() if key not in PARTS_ASIDE))


def _step_seconds(timings: list[Record]) -> float | None:
    """The median seconds per step between evaluations; the first lap is warm-up."""
    laps = [_lap(before, row) for before, row in pairwise(timings) if row["step"] > before["step"]]
    return _short(statistics.median(laps)) if laps else None


def _lap(before: Record, row: Record) -> float:
    if "stepping" in row:
        return float(row["stepping"] / row["steps"])
    # Records of older versions: right on a CPU, if the run was not stopped within the lap.
    return float((_seconds(row) - row.get("evaluation", 0.0)) / (row["step"] - before["step"]))


def _json(path: Path) -> Any:
    try:
        return read_json(path, MOST_SPLIT)
    except (OSError, Malformed) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def _lines(path: Path) -> list[Record]:
    try:
        rows: list[Record] = typed(read_json_lines(path), list[dict[str, Any]])
        return rows
    except (OSError, Malformed) as error:
        raise UserError(f"cannot read {path}: {error}") from error
