import io

import pytest
from rich.console import Console

from surelabel.display import Display, duration, figures_in_words, show_classes, skipped_in_words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (45.4, "45 s"), (90, "2 min"), (7100, "118 min"), (12000, "3 h 20 min")]
)
def test_durations_as_a_person_says_them(seconds, words):
    assert duration(seconds) == words


def test_figures_are_those_there_are():
    assert (
        figures_in_words({"accuracy": 0.5, "ece": 0.1, "acceptance": 0.25}) == "accuracy 50.0%  ECE 0.100  accepted 25%"
    )
    assert figures_in_words({"labelled_loss": 1.25, "acceptance": None}) == "loss 1.250"


def test_skipped_files_are_counted_and_the_first_are_named():
    assert skipped_in_words([("a", "empty")]) == "1 file skipped (a: empty)"
    assert skipped_in_words([(name, "?") for name in "abcd"]) == "4 files skipped (a: ?; b: ?; c: ?; …)"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_shows_the_figures_and_the_time_left(terminal):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120, force_interactive=terminal)
    with Display(10, 0, console) as display:
        display.step(5)
        display.evaluation({"step": 5, "accuracy": 0.5, "ece": 0.1})
    assert "accuracy 50.0%" in text.getvalue()
    assert "left" in text.getvalue()


def test_class_names_are_shown_as_they_are_and_of_many_the_worst():
    text = io.StringIO()
    rows = [{"class": f"[red]{k}[/red]", "count": 1, "accuracy": k / 30, "confidence": 0.5} for k in range(30)]
    show_classes(Console(file=text, width=100), rows)
    assert "[red]0[/red]" in text.getvalue()
    assert "[red]25[/red]" not in text.getvalue()
    assert "20 worst" in text.getvalue()
