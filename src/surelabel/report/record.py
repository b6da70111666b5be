"""Read a run folder for its report, however damaged: config, evaluations, results, times, versions."""

import math
from dataclasses import dataclass
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.config.run import RunConfig
from surelabel.training.run_folder import CROSSFIT, RunFolder
from surelabel.utils.bounded import MOST_SPLIT, Malformed, from_json, read_json, read_lines
from surelabel.utils.errors import UserError
from surelabel.utils.typed import typed

Metrics = dict[str, float]


@dataclass(frozen=True)
class Recorded:
    """The small files of a run folder. Missing or damaged ones are empty here, and named in `notes`."""

    folder: RunFolder
    config: RunConfig
    classes: tuple[str, ...]
    labelled: NDArray[np.int64]
    data_hash: str | None  # a fingerprint of the training data
    history: list[Metrics]  # one row per evaluation
    averaged: Metrics  # from result.json, like `raw`, `by_class` and `tested`
    raw: Metrics
    by_class: list[Metrics]
    tested: int | None  # number of test samples
    environment: dict[str, str]
    seconds: float | None  # in total
    images_per_second: float | None
    notes: tuple[str, ...]
    temperature: float | None = None  # by further runs that left its labels out in turn

    @property
    def last(self) -> Metrics:
        return self.history[-1] if self.history else {}

    @property
    def finished(self) -> bool:
        """Whether the run reached its last step; a result is written only then."""
        return bool(self.averaged) or self.last.get("step", 0) >= self.config.steps


def read_recorded(folder: RunFolder) -> Recorded:
    """Read a run folder. Only its config.yaml must be there."""
    config = folder.config
    notes: list[str] = []
    task = _content(folder.path / "task.json", notes)
    split = _content(folder.path / "split.json", notes)
    result = _content(folder.path / "result.json", notes, needed=False)
    evaluations = [row for row in _rows(folder.path / "metrics.jsonl", notes) if "step" in row]
    timings = _rows(folder.path / "timings.jsonl", notes)
    seconds = [row[part] for row in timings for part in ("views", "training", "evaluation") if part in row]
    speeds = [row["images_per_second"] for row in timings if "images_per_second" in row]
    indices = split.get("labelled")
    numbers = indices if isinstance(indices, list) else []
    labelled = [index for index in numbers if isinstance(index, int) and 0 <= index < 2**63]
    rows = result.get("classes")
    names = task.get("classes")
    return Recorded(
        folder=folder,
        config=config,
        classes=tuple(str(name) for name in names) if isinstance(names, list) else (),
        labelled=np.array(labelled, dtype=np.int64),
        data_hash=str(split["data"]) if "data" in split else None,
        history=sorted(evaluations, key=itemgetter("step")),
        averaged=_metrics(result.get("averaged")),
        raw=_metrics(result.get("raw")),
        by_class=[_metrics(row) for row in rows] if isinstance(rows, list) else [],
        tested=result["samples"] if isinstance(result.get("samples"), int) else None,
        environment={
            key: str(value)
            for key, value in _content(folder.path / "environment.json", notes).items()
            if value is not None
        },
        seconds=sum(seconds) if seconds else None,
        images_per_second=float(np.median(speeds)) if speeds else None,
        notes=tuple(notes),
        temperature=_metrics(_content(folder.path / CROSSFIT, notes, needed=False)).get("temperature"),
    )


def _content(path: Path, notes: list[str], needed: bool = True) -> dict[str, Any]:
    """The object in a JSON file; empty, with a note, if it cannot be read."""
    if not needed and not path.exists():
        return {}
    try:
        content: dict[str, Any] = typed(read_json(path, MOST_SPLIT), dict[str, Any])
    except FileNotFoundError:
        notes.append(f"{path.name} is missing from the run folder.")
    except (OSError, Malformed) as error:
        notes.append(f"{path.name} cannot be read: {error}")
    else:
        return content
    return {}


def _rows(path: Path, notes: list[str]) -> list[Metrics]:
    """The objects in a JSON lines file; a kill may leave the last line half written."""
    rows, damaged = [], 0
    try:
        lines = read_lines(path)
    except FileNotFoundError:
        return []
    except (OSError, Malformed) as error:
        notes.append(f"{path.name} cannot be read: {error}")
        return []
    for line in lines:
        try:
            rows.append(_metrics(from_json(line)))
        except Malformed:
            damaged += 1
    if damaged:
        notes.append(f"{path.name} has {damaged} damaged line{'s' if damaged > 1 else ''}, not shown here.")
    return [row for row in rows if row]


def _metrics(content: Any) -> Metrics:
    """The finite numbers in an object."""
    if not isinstance(content, dict):
        return {}
    return {str(key): float(value) for key, value in content.items() if _is_metric(value)}


def _is_metric(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def distinct_names(paths: list[Path]) -> list[str]:
    """The name of each folder, with as many parents as make them differ."""
    whole = [path.resolve() for path in paths]
    if len(set(whole)) < len(whole):
        twice = next(path for path in whole if whole.count(path) > 1)
        raise UserError(f"{twice} is given twice: give each run once")
    for depth in count(1):
        names = ["/".join(path.parts[-depth:]) for path in whole]
        if len(set(names)) == len(names):
            break
    return names
