"""Predict data that need not fit in memory: piece by piece, written as it goes, all of it or a part."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from surelabel.data.part import WHOLE, Part
from surelabel.data.pieces import open_pieces
from surelabel.data.source import FilesSkipped
from surelabel.inference.predictions import Predictions
from surelabel.inference.trained_run import TrainedRun
from surelabel.models.frozen_features import BATCH, TEXTS
from surelabel.utils.csv import write_csv
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write

if TYPE_CHECKING:
    from surelabel.inference.calibration import Calibration


@dataclass
class Written:
    """What was written: so many predictions, in `path`; remarks; and how many sets have 0, 1, ... classes [K + 1]."""

    path: Path
    count: int = 0
    notes: tuple[str, ...] = ()
    skipped: FilesSkipped = ()
    set_sizes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    def add(self, found: Predictions) -> None:
        self.count += len(found)
        self.notes = tuple(dict.fromkeys((*self.notes, *found.notes)))
        self.skipped = tuple(dict.fromkeys((*self.skipped, *found.skipped)))
        self.set_sizes = self.set_sizes + found.set_sizes


def predict_file(
    run: TrainedRun,
    data: str,
    out: Path,
    data_dir: str | None = None,
    part: Part = WHOLE,
    sets: float | None = None,
    calibration: "Calibration | None" = None,
    all_probabilities: bool = False,
) -> Written:
    """Write what `TrainedRun.predict` finds as CSV; of a part, to its own file. Parts joined are the same bytes."""
    written = Written(part.file(out))
    rows = _rows(_predicted(run, data, data_dir, part, sets), written, calibration, all_probabilities)
    first = next(rows, None)
    if first is None and part == WHOLE:
        raise UserError(f"{data} has no rows: there is nothing to predict")
    if first is None:  # more parts than samples
        with atomic_write(written.path):
            return written
    header, some = first
    write_csv(written.path, header, chain(some, chain.from_iterable(more for _, more in rows)))
    return written


def _predicted(
    run: TrainedRun, data: str, data_dir: str | None, part: Part, sets: float | None
) -> Iterator[Predictions]:
    run.check_sets(sets)
    # Whole batches, of the network and of an encoder: the rounding of float32 depends on what is computed together.
    unit = math.lcm(run.config.evaluation.batch, *(() if run.encoder is None else (BATCH, TEXTS)))
    for number, source in enumerate(open_pieces(data, run.form, unit, data_dir, part).sources):
        seen = run.as_trained_on(source)
        if not number:
            run.check_form(seen, data)
        yield run.predict_source(seen, sets)


def _rows(
    pieces: Iterable[Predictions], written: Written, calibration: "Calibration | None", all_probabilities: bool
) -> Iterator[tuple[list[str], Iterable[Sequence[str | int | float]]]]:
    for found in pieces:
        written.add(found)
        yield found.table(calibration, all_probabilities)
