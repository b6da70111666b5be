import io

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import binomtest

from surelabel.training.display import (
    Display,
    describe_found,
    describe_guess,
    describe_skipped,
    duration,
    format_metrics,
    show_classes,
    show_result,
)
from surelabel.training.summary import summary


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (45.4, "45 s"), (90, "2 min"), (7100, "118 min"), (12000, "3 h 20 min")]
)
def test_duration_is_readable(seconds, words):
    assert duration(seconds) == words


def test_format_metrics_skips_missing_ones():
    row = {"accuracy": 0.5, "ece": 0.1, "acceptance": 0.25, "samples": 500}
    assert format_metrics(row) == "accuracy 50.0%  ECE 0.100  accepted 25%"
    assert format_metrics(row | {"effective_classes": 3.14}) == format_metrics(row)  # the line would be too long
    assert format_metrics({"labelled_loss": 1.25, "acceptance": None}) == "loss 1.250"


def test_few_samples_give_an_interval_and_no_ece():
    row = {"accuracy": 0.5, "ece": 0.1, "acceptance": 0.25, "samples": 40}
    expected = binomtest(20, 40).proportion_ci(method="wilson")
    assert format_metrics(row) == f"accuracy 50.0% ({expected.low:.0%} to {expected.high:.0%})  accepted 25%"
    metrics = {"accuracy": 0.5, "ece": 0.1, "nll": 1.0, "brier": 0.5}
    classes = [{"class": "cat", "count": 20, "accuracy": 0.5, "confidence": 0.7}]
    groups = {"few": {"classes": 1, "count": 40, "accuracy": 0.5}}
    shown = {}
    for samples in (40, 500):
        result = {"samples": samples, "averaged": metrics, "raw": metrics, "classes": classes, "groups": groups}
        text = io.StringIO()
        show_result(Console(file=text, width=120), result, summary([row | {"step": 1}]))
        shown[samples] = text.getvalue()
    for words in ("ECE", "Along the way"):
        assert words in shown[500]
        assert words not in shown[40]
    assert shown[40].count("(35% to 65%)") == 3  # of both networks and of the group
    assert "30% to 70%" in shown[40]  # of the class
    assert " to " not in shown[500].replace("10 to 100", "")


def test_describe_skipped_counts_and_names_files():
    assert describe_skipped([("a", "empty")]) == "1 file skipped (a: empty)"
    assert describe_skipped([(name, "?") for name in "abcd"]) == "4 files skipped (a: ?; b: ?; c: ?; …)"


def test_describe_found_counts_labels():
    said = describe_found("pictures, read at 200 × 224 pixels, in colour", 1500, np.array([0, 0, 1]), ("bag", "boot"))
    assert said.startswith("1,500 pictures, read at 200 × 224 pixels, in colour: 3 labelled (bag 2, boot 1), 1,497")


@pytest.mark.parametrize(
    ("counts", "said", "other"),
    [
        ((4, 4, 4), "4 of each class, so taken as drawn per class", "random"),
        ((4, 3, 5), "3 to 5 of a class, so taken as drawn at random", "per-class"),
        ((1, 1), "1 of each class, so taken as drawn at random", "per-class"),  # may well be chance
    ],
)
def test_describe_guess_says_why_and_how_to_change_it(counts, said, other):
    words = describe_guess(np.repeat(np.arange(len(counts)), counts))
    assert said in words
    assert f"set drawn to {other}" in words


def test_show_result_names_the_samples():
    metrics = {"accuracy": 0.5, "ece": 0.1, "nll": 1.0, "brier": 0.5}
    result = {"samples": 7, "averaged": metrics, "raw": metrics, "classes": []}
    text = io.StringIO()
    show_result(Console(file=text, width=100), result)
    show_result(Console(file=text, width=100), result, of="labelled samples of [new].csv")
    assert "On 7 test samples" in text.getvalue()
    assert "On 7 labelled samples of [new].csv" in text.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_display_shows_metrics_and_time_left(terminal):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120, force_interactive=terminal)
    with Display(10, 0, console) as display:
        display.step(5)
        display.evaluation({"step": 5, "accuracy": 0.5, "ece": 0.1, "samples": 500})
    assert "accuracy 50.0%" in text.getvalue()
    assert "left" in text.getvalue()


def test_show_classes_escapes_names_and_shows_the_worst():
    text = io.StringIO()
    rows = [{"class": f"[red]{k}[/red]", "count": 1, "accuracy": k / 30, "confidence": 0.5} for k in range(30)]
    show_classes(Console(file=text, width=100), rows)
    assert "[red]0[/red]" in text.getvalue()
    assert "[red]25[/red]" not in text.getvalue()
    assert "20 worst" in text.getvalue()
