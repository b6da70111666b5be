"""Metrics in sentences, for a reader who has not met them before."""

import math
from collections.abc import Sequence
from pathlib import Path

from surelabel.equations import Groups
from surelabel.report.predictions import Measured
from surelabel.report.record import Metrics, Recorded
from surelabel.training.display import duration
from surelabel.utils.errors import UserError


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def sure(value: float) -> str:
    """A confidence: 99.97 % is not written as if it were certain."""
    return f">\N{NO-BREAK SPACE}{percent(0.999)}" if 0.9995 <= value < 1 else percent(value)


def spread(value: float) -> str:
    """A deviation: what is too small to be written is not zero."""
    return (
        f"±\N{NO-BREAK SPACE}{percent(value)}"
        if value >= 0.0005
        else f"±\N{NO-BREAK SPACE}<\N{NO-BREAK SPACE}{percent(0.001)}"
    )


def plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def time_taken(value: float | None) -> str:
    return "–" if value is None else duration(value)


def data_name(data: str) -> str:
    """The name of a data set, or the last part of its path."""
    return Path(data).name or data


def verdict(figures: Metrics, samples: int | None) -> str:
    """Whether confidence and accuracy agree over all the test samples."""
    accuracy, confidence = figures["accuracy"], figures["confidence"]
    gap = confidence - accuracy
    means = f"On average it says {percent(confidence, 0)}, and it is right {percent(accuracy, 0)} of the time"
    # Where all are right, their share does not vary, but what was said of them may be less than certain.
    spread = max(accuracy * (1 - accuracy), confidence * (1 - confidence))
    if samples and abs(gap) <= max(2 * math.sqrt(spread / samples), 0.0005):
        return f"{means}: no further apart than chance alone makes them on {count(samples)} samples."
    return f"{means}: {'over' if gap > 0 else 'under'}-confident by {abs(100 * gap):.1f} points."


def fullest_bin(bins: Groups) -> str:
    """The bin with the most predictions: what it says, and what comes true."""
    number = int(bins.size.argmax())
    size, confidence, correct = (float(sums[number]) for sums in bins)
    edges = f"{percent(number / len(bins.size), 0)} and {percent((number + 1) / len(bins.size), 0)}"
    return (
        f"When it says {percent(confidence / size, 0)}, it is right {percent(correct / size, 0)} of the time "
        f"(the {count(size)} of {count(float(bins.size.sum()))} predictions between {edges})."
    )


def explained(figures: Metrics, classes: int) -> list[tuple[str, str, str]]:
    """Each headline figure: its name, its value, and what it means."""
    guess = {"nll": math.log(classes), "brier": 1 - 1 / classes} if classes else {}
    guessing = {key: f"; guessing gives {value:.2f}" for key, value in guess.items()}
    off = "how far what it says is from what comes true, on average (ECE); 0 is best"
    nll = f"surprise at the true class (negative log-likelihood); 0 is best{guessing.get('nll', '')}"
    brier = f"squared error of the probabilities; 0 is best{guessing.get('brier', '')}"
    return [
        ("Accuracy", percent(figures.get("accuracy")), "of the test samples are classified rightly"),
        ("Calibration error", plain(figures.get("ece")), off),
        ("NLL", plain(figures.get("nll")), nll),
        ("Brier score", plain(figures.get("brier")), brier),
    ]


def state(recorded: Recorded, measured: Measured | None) -> list[str]:
    """What a reader must know before the figures: unfinished, no test set."""
    said = []
    if not recorded.finished:
        last = recorded.last
        reached = f"its last evaluation was at step {count(last['step'])}" if last else "it has no evaluation yet"
        what = " What follows is from the weights saved so far." if measured else ""
        said.append(f"This run is unfinished: {reached}, of {count(recorded.config.steps)} steps planned.{what}")
    if measured is not None and measured.averaged is None:
        said.append(
            "These data have no test set: every label was used for training, so how accurate the classifier is, and "
            "how far its confidence can be trusted, can at best be estimated. To know, label some samples and keep "
            "them apart."
        )
    return said


def unmeasured(recorded: Recorded, error: UserError) -> str:
    """Why there is nothing that needs the data, and where the figures come from."""
    kept = " The figures are those that the run wrote at its end." if recorded.averaged else ""
    return f"Reliability, confusions and samples are missing: {error}.{kept}"


def departs(recorded: Recorded, measured: Measured | None) -> list[str]:
    """Where today's figures are not those that the run wrote at its end."""
    now = (measured and measured.averaged) or {}
    names = [key for key in ("accuracy", "ece", "nll", "brier") if key in now and key in recorded.averaged]
    names = [key for key in names if abs(recorded.averaged[key] - now[key]) > 1e-3]
    if not names:
        return []
    return [
        f"Computed anew, {' and '.join(names)} differ from result.json by more than 0.001: the weights are not those "
        "it was written for, or this surelabel computes something in another way. The figures here are the new ones."
    ]


def confusions(classes: Sequence[str], pairs: Sequence[tuple[int, int, int, float]]) -> str:
    """The most frequent confusions, in a sentence."""
    if not pairs:
        return "No sample was confused."
    named = [
        f"{classes[true]} taken for {classes[said]} ({count(number)}, {percent(share, 0)} of its class)"
        for true, said, number, share in pairs
    ]
    return f"Most often: {'; '.join(named)}."
