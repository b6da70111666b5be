"""One run, as shown on the page."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.config.settings import flatten
from surelabel.equations import Groups
from surelabel.inference.trained_run import TrainedRun
from surelabel.report import charts as figures
from surelabel.report import text as words
from surelabel.report.charts import Line
from surelabel.report.palette import line_style
from surelabel.report.predictions import ClassRow, Measured, measure
from surelabel.report.recipe_diff import Difference, changed
from surelabel.report.record import Metrics, Recorded
from surelabel.report.svg import inline
from surelabel.utils.errors import UserError

GRID = 20  # most classes of a confusion matrix
LISTED = 30  # confusions listed for more classes
# For each chart its title, whether it is in percent, and the name of the line for each key in metrics.jsonl.
CURVES: list[tuple[str, bool, dict[str, str]]] = [
    ("Accuracy and confidence", True, {"accuracy": "accuracy", "confidence": "confidence"}),
    ("Calibration error (ECE)", False, {"ece": "averaged weights", "raw_ece": "raw weights"}),
    (
        "Pseudo-labels",
        True,
        {"purity": "right, of those accepted (purity)", "acceptance": "accepted", "pool_confidence": "confidence"},
    ),
    ("Of how many classes the accepted are, in effect", False, {"effective_classes": "effective classes"}),
    (
        "Losses",
        False,
        {f"{kind}_loss": kind for kind in ("labelled", "unlabelled", "fairness", "prior")} | {"me_max_loss": "me-max"},
    ),
]
Confusion = tuple[int, int, int, float]  # true class, predicted class, count, fraction of the true class


@dataclass(frozen=True)
class Chart:
    """A chart and its legend: colour, dashes and name of each line."""

    title: str
    svg: str
    legend: list[tuple[str, str, str]]


@dataclass(frozen=True)
class RunView:
    """All that the page shows of one run. `measured` is None if its data or weights are missing."""

    name: str
    anchor: str
    recorded: Recorded
    measured: Measured | None
    notes: list[str]
    reliability: str | None = None
    charts: list[Chart] = field(default_factory=list)
    recall: list[tuple[int, int]] = field(default_factory=list)  # of each class: left-out labels right, and all

    def owns(self, path: str | Path | None) -> bool:
        """Whether a section about this run folder belongs here."""
        return path is not None and Path(path).resolve() == self.recorded.folder.path.resolve()

    @property
    def averaged(self) -> Metrics:
        """The metrics of the evaluated weights: computed now or, if that failed, stored by the run."""
        return (self.measured and self.measured.averaged) or self.recorded.averaged

    @property
    def raw(self) -> Metrics:
        return (self.measured and self.measured.raw) or self.recorded.raw

    @property
    def samples(self) -> int | None:
        return self.measured.samples if self.measured and self.measured.averaged else self.recorded.tested

    @property
    def headline(self) -> list[tuple[str, str, str]]:
        return words.explained(self.averaged, len(self.recorded.classes), self.samples) if self.averaged else []

    @property
    def few(self) -> bool:
        """Whether there are too few test samples for an ECE, and for an accuracy without its interval."""
        return bool(self.averaged) and words.is_few(self.samples)

    @property
    def sentences(self) -> list[str]:
        bins = self.measured and self.measured.bins
        sentences = [words.fullest_bin(bins)] if bins and not self.few else []
        if {"accuracy", "confidence"} <= self.averaged.keys():
            sentences.append(words.verdict(self.averaged, self.samples))
        return sentences

    @property
    def classes(self) -> list[ClassRow]:
        """One row per class: computed now or, if that failed, stored by the run."""
        if self.measured:
            return self.measured.classes
        stored = zip(self.recorded.classes, self.recorded.by_class, strict=False)
        return [
            ClassRow(name, None, int(row.get("count", 0)), None, row.get("accuracy"), None, row.get("confidence"))
            for name, row in stored
        ]

    @property
    def bins(self) -> list[tuple[str, int, float, float]]:
        return bin_rows(self.measured.bins) if self.reliability and self.measured and self.measured.bins else []

    @property
    def grid(self) -> NDArray[np.int64] | None:
        """The confusion matrix, if it is small enough."""
        matrix = self.measured.confusion if self.measured else None
        return matrix if matrix is not None and len(matrix) <= GRID else None

    @cached_property
    def confusions(self) -> list[Confusion]:
        matrix = self.measured.confusion if self.measured else None
        return [] if matrix is None else most_confused(matrix, LISTED)

    @property
    def confused(self) -> str:
        return words.confusions(self.recorded.classes, self.confusions[:3])

    @property
    def settings(self) -> dict[str, Any]:
        return flatten(asdict(self.recorded.config))

    @property
    def changed(self) -> tuple[str, list[Difference]] | None:
        return changed(self.recorded.config)


def view(run: TrainedRun, recorded: Recorded, name: str, anchor: str) -> RunView:
    """Predict with a run, if possible, and draw its charts."""
    measured, missing = None, []
    try:
        measured = measure(run, recorded)
    except UserError as error:
        missing = [words.unmeasured(recorded, error)]
    notes = [*words.state(recorded, measured), *words.departs(recorded, measured), *missing, *recorded.notes]
    bins = measured.bins if measured and not words.is_few(measured.samples) else None
    drawn = None if bins is None else inline(figures.reliability(bins), f"{anchor}-reliability")
    return RunView(name, anchor, recorded, measured, notes, drawn, _charts(recorded, anchor), _recall(run))


def _recall(run: TrainedRun) -> list[tuple[int, int]]:
    """How well the labels of each class were predicted without being seen; empty if none were left out."""
    try:
        return run.trust.known.recall(len(run.task.classes))
    except UserError:  # no labels were left out, or the data are missing
        return []


def _charts(recorded: Recorded, anchor: str) -> list[Chart]:
    charts = []
    for number, (title, percent, keys) in enumerate(CURVES):
        hidden = {"ece", "raw_ece"} if few(recorded) else set()
        shown = [line_of(recorded, key, name) for key, name in keys.items() if key not in hidden]
        lines = [line for line in shown if line.drawable]
        if lines:
            charts.append(chart(title, lines, percent, f"{anchor}-curve-{number}"))
    return charts


def few(recorded: Recorded) -> bool:
    """Whether the evaluations had too few samples for an ECE."""
    samples = recorded.last.get("samples")
    return samples is not None and words.is_few(int(samples))


def line_of(recorded: Recorded, key: str, name: str) -> Line:
    return Line(name, [row["step"] for row in recorded.history], [row.get(key) for row in recorded.history])


def chart(title: str, lines: list[Line], percent: bool, anchor: str) -> Chart:
    legend = [(*line_style(number), line.name) for number, line in enumerate(lines)]
    return Chart(title, inline(figures.curves(lines, percent), anchor), legend)


def bin_rows(bins: Groups) -> list[tuple[str, int, float, float]]:
    """Edges, size, mean confidence and accuracy of the bins [M] that are not empty."""
    width = 1 / len(bins.size)
    rows: Iterable[tuple[float, ...]] = zip(*(sums.tolist() for sums in bins), strict=True)
    return [
        (f"{100 * m * width:.0f}–{100 * (m + 1) * width:.0f} %", int(size), confidence / size, correct / size)
        for m, (size, confidence, correct) in enumerate(rows)
        if size
    ]


def most_confused(matrix: NDArray[np.int64], most: int) -> list[Confusion]:
    """The most frequent confusions in a matrix [K, K] of true by predicted class, in order."""
    wrong = matrix.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    totals = matrix.sum(1)
    return [
        (int(true), int(predicted), int(wrong[true, predicted]), float(wrong[true, predicted] / totals[true]))
        for true, predicted in zip(*np.unravel_index(order, matrix.shape), strict=True)
        if wrong[true, predicted]
    ]
