"""What a command writes never takes the place of what it reads."""

import os
from collections.abc import Iterable
from pathlib import Path

from surelabel.data.open import NAMED
from surelabel.inference.trained_run import TrainedRun
from surelabel.utils.errors import UserError

WRITTEN = (".csv", ".html", ".onnx")  # whose earlier versions may be replaced beside data
READ = ("labels.csv", "classes.json")


def check_output(out: str | Path, runs: Iterable[TrainedRun], *given: str | None) -> None:
    """Raise where writing `out` would change a run, what it was trained on, or other data that are `given`.

    Links and other spellings of a path are seen through. In a folder of data, results may lie but nothing that would be
    taken for data.
    """
    out = Path(out)
    inputs = [Path(one) for one in given if one is not None and one not in NAMED]
    for run in runs:
        inputs += _inputs(run)
    target = Path(os.path.realpath(out))
    for path in inputs:
        if path.is_dir():
            inside = target.is_relative_to(path.resolve())
            if inside and (target.suffix.lower() not in WRITTEN or target.name.lower() in READ):
                raise UserError(
                    f"{out} lies in {path}, which is read: choose another folder, or a name that ends in "
                    f"{', '.join(WRITTEN)} and is none of {', '.join(READ)}"
                )
        elif _same(out, path):
            raise UserError(f"{out} is {path}, which is read: choose another name for what is written")


def _inputs(run: TrainedRun) -> list[Path]:
    """The files and folders that a run consists of and was trained on."""
    config = run.config
    found = [*map(Path, config.label_paths), *([] if run.folder is None else [run.path])]
    if config.data not in NAMED:
        found.append(Path(config.data_dir or ".", config.data))
    elif config.data_dir is not None:
        found.append(Path(config.data_dir))
    return found + [path.with_suffix(".labels.npy") for path in found if path.suffix == ".npy"]


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them does not exist
        return False
