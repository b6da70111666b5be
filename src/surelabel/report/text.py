"""Metrics in sentences, for a reader who has not met them before."""

import math
from collections.abc import Sequence
from pathlib import Path

from surelabel.equations import Groups
from surelabel.report.predictions import Measured
from surelabel.report.record import Metrics, Recorded
from surelabel.training.display import duration
from surelabel.utils.errors import UserError
from surelabel.utils.intervals import ENOUGH, wilson


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def sure(value: float) -> str:
    """A confidence; 99.97 % is not rounded to certainty."""
    return f">\N{NO-BREAK SPACE}{percent(0.999)}" if 0.9995 <= value < 1 else percent(value)


def spread(value: float) -> str:
    """A std; a small one is not rounded to zero."""
    text = percent(value) if value >= 0.0005 else f"<\N{NO-BREAK SPACE}{percent(0.001)}"
    return f"±\N{NO-BREAK SPACE}{text}"


def plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def one_decimal(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def time_taken(value: float | None) -> str:
    return "–" if value is None else duration(value)


def data_name(data: str) -> str:
    """The name of a data set, or the last part of its path."""
    return Path(data).name or data


def is_few(samples: int | None) -> bool:
    """Whether these are too few test samples for an ECE, and for an accuracy without its interval."""
    return samples is not None and samples < ENOUGH


def interval(accuracy: float | None, samples: int | None, few: bool = True) -> str:
    """The 95 % interval of an accuracy, ' (58 to 82 %)'; nothing unless the samples are few."""
    if not few or accuracy is None or not samples:
        return ""
    low, high = wilson(accuracy, samples)
    return f" ({100 * low:.0f} to {percent(high, 0)})"


def verdict(metrics: Metrics, samples: int | None) -> str:
    """Whether mean confidence and accuracy agree on the test set."""
    accuracy, confidence = metrics["accuracy"], metrics["confidence"]
    gap = confidence - accuracy
    means = f"On average it says {percent(confidence, 0)}, and it is right {percent(accuracy, 0)} of the time"
    means += interval(accuracy, samples, is_few(samples))
    # An accuracy of 1 has no variance, but the confidence may have.
    variance = max(accuracy * (1 - accuracy), confidence * (1 - confidence))
    if samples and abs(gap) <= max(2 * math.sqrt(variance / samples), 0.0005):
        return f"{means}: the difference is within chance on {count(samples)} samples."
    return f"{means}: {'over' if gap > 0 else 'under'}-confident by {abs(100 * gap):.1f} points."


def fullest_bin(bins: Groups) -> str:
    """Confidence and accuracy of the bin with the most predictions."""
    number = int(bins.size.argmax())
    size, confidence, correct = (float(sums[number]) for sums in bins)
    edges = f"{percent(number / len(bins.size), 0)} and {percent((number + 1) / len(bins.size), 0)}"
    return (
        f"When it says {percent(confidence / size, 0)}, it is right {percent(correct / size, 0)} of the time "
        f"(the {count(size)} of {count(float(bins.size.sum()))} predictions between {edges})."
    )


def explained(metrics: Metrics, classes: int, samples: int | None = None) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each headline metric; of few samples an accuracy has its interval, and no ECE."""
    guess = {"nll": math.log(classes), "brier": 1 - 1 / classes} if classes else {}
    guessing = {key: f"; guessing gives {value:.2f}" for key, value in guess.items()}
    ece = "mean difference between confidence and accuracy (ECE); 0 is best"
    nll = f"surprise at the true class (negative log-likelihood); 0 is best{guessing.get('nll', '')}"
    brier = f"squared error of the probabilities; 0 is best{guessing.get('brier', '')}"
    accuracy, right = metrics.get("accuracy"), "of the test samples are classified correctly"
    if few := is_few(samples):
        right = f"of {count(samples)} test samples are classified correctly; 95 % interval{interval(accuracy, samples)}"
    return [
        ("Accuracy", percent(accuracy), right),
        *([] if few else [("Calibration error", plain(metrics.get("ece")), ece)]),
        ("NLL", plain(metrics.get("nll")), nll),
        ("Brier score", plain(metrics.get("brier")), brier),
    ]


def state(recorded: Recorded, measured: Measured | None) -> list[str]:
    """Notes on an unfinished run, and on data without a test set."""
    notes = []
    if not recorded.finished:
        last = recorded.last
        reached = f"its last evaluation was at step {count(last['step'])}" if last else "it has no evaluation yet"
        weights = " All results are of the last saved weights." if measured else ""
        notes.append(f"This run is unfinished: {reached}, of {count(recorded.config.steps)} steps planned.{weights}")
    left_out = recorded.config.method == "sure" or recorded.temperature is not None
    if measured is not None and measured.averaged is None and not left_out:
        notes.append(
            "These data have no test set: every label was used for training, so accuracy and calibration can at best "
            "be estimated. To measure them, label some samples and hold them out."
        )
    return notes


def unmeasured(recorded: Recorded, error: UserError) -> str:
    """Why the results that need the data are missing."""
    stored = " The metrics are from the end of the run." if recorded.averaged else ""
    return f"Reliability, confusions and samples are missing: {error}.{stored}"


def departs(recorded: Recorded, measured: Measured | None) -> list[str]:
    """A note if the metrics computed now are not those in result.json."""
    now = (measured and measured.averaged) or {}
    names = [key for key in ("accuracy", "ece", "nll", "brier") if key in now and key in recorded.averaged]
    names = [key for key in names if abs(recorded.averaged[key] - now[key]) > 1e-3]
    if not names:
        return []
    return [
        f"Computed now, {' and '.join(names)} differ from result.json by more than 0.001: the weights have changed, or "
        "this version of surelabel computes them differently. This page shows the new values."
    ]


def confusions(classes: Sequence[str], pairs: Sequence[tuple[int, int, int, float]]) -> str:
    """The most frequent confusions, in a sentence."""
    if not pairs:
        return "No sample was confused."
    named = [
        f"{classes[true]} taken for {classes[predicted]} ({count(number)}, {percent(fraction, 0)} of its class)"
        for true, predicted, number, fraction in pairs
    ]
    return f"Most often: {'; '.join(named)}."
