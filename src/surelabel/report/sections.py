"""Optional sections of a report: what can be trusted, doubtful labels, what to label next, and calibration."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import UNLABELLED
from surelabel.equations import ece_of_bins
from surelabel.inference.trained_run import TrainedRun
from surelabel.report import Section
from surelabel.report.gallery import FIRST, Gallery, TopPrediction, gallery
from surelabel.report.page import TEMPLATES
from surelabel.training.evaluate import predict
from surelabel.utils.bounded import Malformed, read_json
from surelabel.utils.errors import UserError
from surelabel.utils.typed import typed

ESTIMATE = "estimate.json"


def sections(runs: Sequence[TrainedRun], held_out: str | None = None, coverage: float = 0.9) -> list[Section]:
    """The sections for these runs; with `held_out` labels, also their calibration."""
    found = [estimated(run) for run in runs]
    for number, run in enumerate(runs):
        with suppress(UserError):  # no labels were left out, or the data are missing
            found += [trusted(run, f"trust-{number}"), doubtful(run)]
    for run in runs:
        with suppress(UserError):  # missing data, which the page reports
            found.append(to_label(run))
    if held_out is not None:
        for run in runs:
            _, report = run.calibrate(held_out, coverage)
            template = _template("calibrated.html")
            found.append(Section("Calibration on held-out labels", template, asdict(report), run.path))
    return [section for section in found if section is not None]


def stored_estimate(run: TrainedRun) -> dict[str, Any]:
    """What `fit` stored of its estimate: an accuracy in words or, of a run that left labels out, what was asked for."""
    try:
        stored: dict[str, Any] = typed(read_json(run.path / ESTIMATE), dict[str, Any])
    except (OSError, Malformed):
        return {}
    return stored


def estimated(run: TrainedRun) -> Section | None:
    """The accuracy estimated by cross-validation, if that was done."""
    words = stored_estimate(run).get("words")
    if words is None:
        return None
    return Section("How accurate?", "<p>{{ words }}.</p>", {"words": str(words)}, run.path)


def trusted(run: TrainedRun, anchor: str = "trust") -> Section:
    """How far the confidence of a cross-fitted run can be trusted; `anchor` makes its ids unique on the page."""
    from surelabel.inference import trust, trust_words
    from surelabel.inference.unnamed import describe_unnamed
    from surelabel.report import charts
    from surelabel.report.palette import line_style
    from surelabel.report.run_view import bin_rows
    from surelabel.report.svg import inline

    found, stored, unnamed = run.trust, stored_estimate(run), run.unnamed
    precision = stored.get("accept") or trust.PRECISION
    known, wanted, curve = found.known, found.accept(precision), found.curve(100)
    of = "" if found.all_named else ", of the named classes only"
    values = {
        "answer": trust_words.answer(found, precision),
        "bound": trust_words.at_least(found, wanted) if wanted.count and found.all_named else "",
        "alarm": unnamed and describe_unnamed(unnamed),
        "unlike": [] if unnamed is None else _unlike(run, unnamed.index[:FIRST]),
        "classes": run.data.train.classes,
        "wanted": wanted,
        "pool": len(found.confidence),
        "known": known,
        "unjudged": trust_words.not_counted(unjudged) if (unjudged := known.unjudged(run.task.classes)) else "",
        "ece": known.bins and float(ece_of_bins(known.bins)),
        "sentences": trust_words.compared(known, found.joined) if found.joined else [],
        "sets": stored.get("sets"),
        "curve": found.curve(),
        "lines": [(*line_style(number), name + of) for number, name in enumerate(charts.TRUST_LINES)],
        "chart": curve and inline(charts.trust_curve(curve, len(found.confidence), wanted), f"{anchor}-curve"),
        "reliability": known.bins and inline(charts.reliability(known.bins), f"{anchor}-reliability"),
        "bins": bin_rows(known.bins) if known.bins else [],
    }
    return Section("How far to trust it", _template("trust.html"), values, run.path, leads=True)


def doubtful(run: TrainedRun) -> Section | None:
    """The labels that look wrong, with pictures; None if there are none."""
    from surelabel.inference.trust import DOUBTED

    known, source = run.trust.known, run.data.train
    places = known.doubtful()
    if not len(places):
        return None
    best = TopPrediction(known.probs[places].argmax(1), known.confidence[places], None)
    shown = gallery(source, known.index[places], best, -np.arange(len(places), dtype=np.float64))
    values = {"shown": shown, "classes": source.classes, "doubted": DOUBTED}
    return Section("Labels that look wrong", _template("doubtful.html"), values, run.path)


def _unlike(run: TrainedRun, index: NDArray[np.int64]) -> Gallery:
    """Samples that are unlike any labelled one, the most typical first."""
    best = TopPrediction.of(predict(run.network, run.data.train, index, run.config.evaluation.batch))
    return gallery(run.data.train, index, best, -np.arange(len(index), dtype=np.float64))


def to_label(run: TrainedRun, number: int = 20) -> Section | None:
    """What to label next; None if every sample has a class, or can be accepted."""
    source = run.data.train
    if not (source.labels == UNLABELLED).any():
        return None
    accept = stored_estimate(run).get("accept")
    index, best = _suggested(run, number) if accept is None else _not_accepted(run, accept, number)
    if not len(index):
        return None
    shown = gallery(source, index, best, -np.arange(len(index), dtype=np.float64))  # in order of rank
    values = {"shown": shown, "classes": source.classes, "run": str(run.path), "accept": accept}
    return Section("What to label next", _template("to_label.html"), values, run.path)


def _suggested(run: TrainedRun, number: int) -> tuple[NDArray[np.int64], TopPrediction]:
    found = run.suggest(number)
    stds = [one.confidence_std for one in found if one.confidence_std is not None]
    best = TopPrediction(
        np.array([run.data.train.classes.index(one.predicted) for one in found]),
        np.array([one.confidence for one in found]),
        np.array(stds) if stds else None,
    )
    return np.array([one.index for one in found], dtype=np.int64), best


def _not_accepted(run: TrainedRun, precision: float, number: int) -> tuple[NDArray[np.int64], TopPrediction]:
    from surelabel.inference import trust

    places = trust.to_label(run, run.trust, precision)[:number]
    predicted, confidence, std = TopPrediction.of(run.pool_prediction)
    best = TopPrediction(predicted[places], confidence[places], None if std is None else std[places])
    return run.unlabelled[places], best


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
