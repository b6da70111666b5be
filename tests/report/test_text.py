import math

import pytest
import torch

from surelabel import equations
from surelabel.equations import Groups
from surelabel.report import text as words

NO_BREAK = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "100.0 %"), (0.99999, "> 99.9 %"), (0.9995, "> 99.9 %"), (0.9994, "99.9 %"), (0.5, "50.0 %")],
)
def test_sure_does_not_round_to_certainty(value, text):
    assert words.sure(value).replace(NO_BREAK, " ") == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "± < 0.1 %"), (0.0004, "± < 0.1 %"), (0.0005, "± 0.1 %"), (0.25, "± 25.0 %")]
)
def test_spread_does_not_round_to_zero(value, text):
    assert words.spread(value).replace(NO_BREAK, " ") == text


def test_unknown_values_are_a_dash():
    assert words.percent(None) == words.plain(None) == words.count(None) == words.time_taken(None) == "–"


@pytest.mark.parametrize(
    ("confidence", "samples", "end"),
    [
        (0.9, 1000, "over-confident by 20.0 points."),
        (0.6, 1000, "under-confident by 10.0 points."),
        (0.72, 100, "within chance on 100 samples."),
        (0.74, 10_000, "over-confident by 4.0 points."),
        (0.72, None, "over-confident by 2.0 points."),
    ],
)
def test_verdict_names_a_gap_that_is_not_chance(confidence, samples, end):
    assert words.verdict({"accuracy": 0.7, "confidence": confidence}, samples).endswith(end)


def test_verdict_takes_two_standard_errors_for_chance():
    edge = 2 * math.sqrt(0.7 * 0.3 / 400)
    assert "chance" in words.verdict({"accuracy": 0.7, "confidence": 0.7 + 0.99 * edge}, 400)
    assert "chance" not in words.verdict({"accuracy": 0.7, "confidence": 0.7 + 1.01 * edge}, 400)
    assert "chance" in words.verdict({"accuracy": 1.0, "confidence": 0.9999}, 1_000_000)  # equal as shown
    assert "chance" in words.verdict({"accuracy": 1.0, "confidence": 0.99}, 20)
    assert "under-confident by 10.0" in words.verdict({"accuracy": 1.0, "confidence": 0.9}, 1000)


def test_few_samples_have_an_interval_and_no_ece():
    metrics = {"accuracy": 0.5, "ece": 0.1, "nll": 1.0, "brier": 0.5, "confidence": 0.8}
    few, many = ({name: meaning for name, _, meaning in words.explained(metrics, 2, n)} for n in (40, 500))
    assert "35 to 65" in few["Accuracy"]
    assert "Calibration error" not in few
    assert "interval" not in many["Accuracy"]
    assert "Calibration error" in many
    assert "(35 to 65" in words.verdict(metrics, 40)
    assert "(" not in words.verdict(metrics, 500)


def test_fullest_bin_in_words():
    bins = Groups(torch.tensor([0.0, 10, 30, 5]), torch.tensor([0.0, 4, 20, 4.5]), torch.tensor([0.0, 1, 15, 5]))
    assert words.fullest_bin(bins).replace(NO_BREAK, " ") == (
        "When it says 67 %, it is right 50 % of the time (the 30 of 45 predictions between 50 % and 75 %)."
    )


def test_explained_compares_with_guessing():
    probs, label = torch.full((1, 4), 0.25), torch.tensor([2])
    named = {name: meaning for name, _, meaning in words.explained({}, 4)}
    assert f"guessing gives {equations.nll(probs, label).item():.2f}" in named["NLL"]
    assert f"guessing gives {equations.brier(probs, label).item():.2f}" in named["Brier score"]


def test_confusions_in_a_sentence():
    assert words.confusions(["cat", "dog"], []) == "No sample was confused."
    said = words.confusions(["cat", "dog"], [(0, 1, 1234, 0.5)]).replace(NO_BREAK, " ")
    assert said == "Most often: cat taken for dog (1,234, 50 % of its class)."
