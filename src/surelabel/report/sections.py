"""Sections that a report page can have beside its own: what to label next, and calibration by held-out labels."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from surelabel.data.source import UNLABELLED
from surelabel.inference.trained_run import TrainedRun
from surelabel.report import Section
from surelabel.report.gallery import TopPrediction, gallery
from surelabel.report.page import TEMPLATES
from surelabel.utils.errors import UserError

if TYPE_CHECKING:
    from surelabel.inference.calibration import CalibrationReport

ESTIMATE = "estimate.json"


def sections(runs: Sequence[TrainedRun], held_out: str | None = None, coverage: float = 0.9) -> list[Section]:
    """What can be added to a page about these runs; by `held_out` labels, where given, their calibration too."""
    found = [estimated(run) for run in runs]
    for run in runs:
        try:
            found.append(to_label(run))
        except UserError:  # data that have gone, which the page itself tells of
            continue
    if held_out is not None:
        found += [calibrated(run, run.calibrate(held_out, coverage)[1]) for run in runs]
    return [section for section in found if section is not None]


def estimated(run: TrainedRun) -> Section | None:
    """What cross-validation said of the run, where it did."""
    try:
        words = json.loads((run.path / ESTIMATE).read_text(encoding="utf-8"))["words"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Section("How accurate?", "<p>{{ words }}.</p>", {"words": str(words)}, run.path)


def to_label(run: TrainedRun, number: int = 20) -> Section | None:
    """What to label next; None for a run whose data hold a class for every sample."""
    source = run.data.train
    if not (source.labels == UNLABELLED).any():
        return None
    found = run.suggest(number)
    index = np.array([one.index for one in found], dtype=np.int64)
    stds = [one.confidence_std for one in found if one.confidence_std is not None]
    best = TopPrediction(
        np.array([source.classes.index(one.predicted) for one in found]),
        np.array([one.confidence for one in found]),
        np.array(stds) if stds else None,
    )
    shown = gallery(source, index, best, -np.arange(len(found), dtype=np.float64))  # in the order of their ranks
    return Section(
        "What to label next",
        _template("to_label.html"),
        {"shown": shown, "classes": source.classes, "run": str(run.path)},
        run.path,
    )


def calibrated(run: TrainedRun, report: "CalibrationReport") -> Section:
    """What held-out labels say of the run's confidence, and what calibration makes of it."""
    return Section("Calibration by held-out labels", _template("calibrated.html"), asdict(report), run.path)


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
