"""Optional sections of a report: estimated accuracy, what to label next, and calibration."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import UNLABELLED
from surelabel.inference.trained_run import TrainedRun
from surelabel.report import Section
from surelabel.report.gallery import FIRST, Gallery, TopPrediction, gallery
from surelabel.report.page import TEMPLATES
from surelabel.training.evaluate import predict
from surelabel.utils.errors import UserError

ESTIMATE = "estimate.json"


def sections(runs: Sequence[TrainedRun], held_out: str | None = None, coverage: float = 0.9) -> list[Section]:
    """The sections for these runs; with `held_out` labels, also their calibration."""
    found = [estimated(run) for run in runs]
    for run in (run for run in runs if run.config.method == "sure"):
        with suppress(UserError):  # missing data, or no label that could be left out
            found.append(trusted(run))
    for run in runs:
        with suppress(UserError):  # missing data, which the page reports
            found.append(to_label(run))
    if held_out is not None:
        for run in runs:
            _, report = run.calibrate(held_out, coverage)
            template = _template("calibrated.html")
            found.append(Section("Calibration on held-out labels", template, asdict(report), run.path))
    return [section for section in found if section is not None]


def estimated(run: TrainedRun) -> Section | None:
    """The accuracy estimated by cross-validation, if that was done."""
    try:
        words = json.loads((run.path / ESTIMATE).read_text(encoding="utf-8"))["words"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Section("How accurate?", "<p>{{ words }}.</p>", {"words": str(words)}, run.path)


def trusted(run: TrainedRun) -> Section:
    """How far the confidence of a cross-fitted run can be trusted."""
    from surelabel.inference import trust
    from surelabel.inference.unnamed import describe_unnamed
    from surelabel.report.charts import trust_curve
    from surelabel.report.svg import inline

    found = run.trust
    source, known = run.data.train, found.known
    doubtful, curve = known.doubtful(), found.curve(100)
    best = TopPrediction(known.probs[doubtful].argmax(1), known.confidence[doubtful], None)
    names, unnamed = source.names(known.index), run.unnamed
    values = {
        "sentences": trust.describe(found, trust.PRECISION, names, source.classes, unnamed is None),
        "alarm": unnamed and describe_unnamed(unnamed),
        "unlike": [] if unnamed is None else _unlike(run, unnamed.index[:FIRST]),
        "curve": found.curve(),
        "chart": curve and inline(trust_curve(curve, len(found.confidence)), "trust-curve"),
        "recall": [
            (name, right, of)
            for name, (right, of) in zip(source.classes, known.recall(len(source.classes)), strict=True)
        ],
        "doubtful": gallery(source, known.index[doubtful], best, -np.arange(len(doubtful), dtype=np.float64)),
        "classes": source.classes,
    }
    return Section("How far to trust it", _template("trust.html"), values, run.path, leads=True)


def _unlike(run: TrainedRun, index: NDArray[np.int64]) -> Gallery:
    """Samples that are unlike any labelled one, the most typical first."""
    best = TopPrediction.of(predict(run.network, run.data.train, index, run.config.evaluation.batch))
    return gallery(run.data.train, index, best, -np.arange(len(index), dtype=np.float64))


def to_label(run: TrainedRun, number: int = 20) -> Section | None:
    """What to label next; None if the data have a class for every sample."""
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
    shown = gallery(source, index, best, -np.arange(len(found), dtype=np.float64))  # in order of rank
    values = {"shown": shown, "classes": source.classes, "run": str(run.path)}
    return Section("What to label next", _template("to_label.html"), values, run.path)


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
