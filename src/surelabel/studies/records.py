"""What a finished run leaves for a study: one small JSON file, so that the tables need no run folder."""

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
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write

Record = dict[str, Any]
# What of a line of metrics.jsonl is kept, and of how many lines.
HISTORY = ("step", "accuracy", "ece", "nll", "purity", "acceptance", "pool_confidence")
LINES = 100
MACHINE = ("device", "precision", "compile")
PARTS_ASIDE = {"step", "images_per_second", "stepping", "steps"}


def record_of(
    folder: Path, finetune: float | None = None, base: Path | None = None, source: str | None = None
) -> Record:
    """The record of a finished run folder; of a fine-tuned one, `base` is the folder of the run that it began with.

    `source` is what made it, for a record without a commit.
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
    timings = {row["step"]: row for row in _lines(folder / "timings.jsonl")}  # a resumed run repeats some steps
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
        raise UserError(f"{folder} is no finished run with a test set: {error!r} is missing") from error


def _environment(folder: Path, source: str | None) -> Record:
    known: Record = _json(folder / "environment.json")
    return known | ({"source": source} if source and known.get("commit") is None else {})


@cache
def source_of(package: Path) -> str:
    """A hash of a package's Python files: what tells which code made a result where there is no git checkout."""
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
    """A line for each part, and for each evaluation of the history: hundreds of these files are read in diffs."""
    parts = {key: _compact(value) for key, value in record.items()}
    parts["history"] = "[\n  " + ",\n  ".join(map(_compact, record["history"])) + "\n ]"
    return "{\n " + ",\n ".join(f'"{key}": {part}' for key, part in parts.items()) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read_all(folder: Path) -> dict[str, Record]:
    """The records in a folder by key, which is computed anew: that is what decides whether a run is done."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        record = _json(path)
        if not isinstance(record, dict) or not isinstance(record.get("config"), dict) or "final" not in record:
            raise UserError(f"{path} is not the result of a run: move it out of {folder}")
        found[key_of(record["config"])] = record
    return found


def finished_folders(folders: Iterable[Path]) -> Iterator[Path]:
    """Those with a result; a folder that holds run folders stands for these."""
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder")
        inside = [folder] if (folder / "config.yaml").is_file() else sorted(folder.iterdir())
        yield from (path for path in inside if (path / "result.json").is_file() and (path / "config.yaml").is_file())


def _thinned(rows: list[Record]) -> list[Record]:
    """At most `LINES` of them, evenly spread, the last among them."""
    step = -(-len(rows) // LINES)
    return rows[::-1][::step][::-1] if rows else rows


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _seconds(row: Record) -> float:
    return float(sum(value for key, value in row.items() if key not in PARTS_ASIDE))


def _step_seconds(timings: list[Record]) -> float | None:
    """The median over evaluations of what a step took, the evaluation itself aside; the first lap warms up."""
    laps = [_lap(before, row) for before, row in pairwise(timings) if row["step"] > before["step"]]
    return _short(statistics.median(laps)) if laps else None


def _lap(before: Record, row: Record) -> float:
    if "stepping" in row:
        return float(row["stepping"] / row["steps"])
    # As older versions have it: right on a CPU, and where the run was not stopped within the lap.
    return float((_seconds(row) - row.get("evaluation", 0.0)) / (row["step"] - before["step"]))


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def _lines(path: Path) -> list[Record]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
