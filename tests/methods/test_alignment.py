import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.config.methods import find
from surelabel.config.run import Align as Settings
from surelabel.config.settings import with_settings
from surelabel.config.validate import ignored_settings
from surelabel.methods.alignment import MovingMean, NoAlignment, Sinkhorn, balanced
from surelabel.methods.base import Pool, PoolPrediction
from surelabel.training import build
from surelabel.utils.errors import UserError
from tests.helpers.runs import fit_folder

POOL = Pool(60, torch.tensor([3, 0, 1]))


def stream(batches, size=20, classes=3, labelled=6):
    """Predictions whose first class is predicted far too often."""
    draws = np.random.default_rng(0)
    for _ in range(batches):
        probs, known = (draws.dirichlet([4, *[1] * (classes - 1)], rows) for rows in (size, labelled))
        yield PoolPrediction(torch.from_numpy(probs), None, None, torch.from_numpy(known))


def test_no_alignment_changes_nothing():
    (prediction,) = stream(1)
    assert NoAlignment()(prediction, {}, 0) == (prediction, {})


@pytest.mark.parametrize("prior", ["uniform", "labels", "labelled-predictions", (0.2, 0.5, 0.3)])
def test_moving_mean_equals_a_plain_loop(prior):
    rule = MovingMean(prior, decay=0.9)
    state, mean = rule.init(POOL), None
    towards = {"uniform": [1 / 3] * 3, "labels": [4 / 7, 1 / 7, 2 / 7]}.get(prior, prior)
    for step, prediction in enumerate(stream(200)):
        aligned, state = rule(prediction, state, step)
        rows = prediction.probs.tolist()
        latest = [sum(row[k] for row in rows) / len(rows) for k in range(3)]
        mean = latest if mean is None else [0.9 * old + 0.1 * new for old, new in zip(mean, latest, strict=True)]
        if prior == "labelled-predictions":
            known = prediction.labelled.tolist()
            latest = [sum(row[k] for row in known) / len(known) for k in range(3)]
            old = latest if step == 0 else towards
            towards = [0.9 * one + 0.1 * new for one, new in zip(old, latest, strict=True)]
        for row, found in zip(rows, aligned.probs.tolist(), strict=True):
            scaled = [p * (pi + 1e-6) / (m + 1e-6) for p, pi, m in zip(row, towards, mean, strict=True)]
            assert found == pytest.approx([value / sum(scaled) for value in scaled], abs=1e-6)


def test_moving_mean_gives_the_pool_the_shares_of_the_prior():
    rule = MovingMean((0.2, 0.5, 0.3), decay=0.99)
    state, sums = rule.init(POOL), []
    for step, prediction in enumerate(stream(200)):
        aligned, state = rule(prediction, state, step)
        sums.append(aligned.probs.mean(0))
    before, after = prediction.probs.mean(0), torch.stack(sums[100:]).mean(0)
    asked = torch.tensor([0.2, 0.5, 0.3])
    assert (after - asked).abs().max() < 0.5 * (before - asked).abs().max()


@pytest.mark.parametrize("size", [2, 20, 300])
def test_sinkhorn_equals_a_plain_loop_over_the_queue(size):
    rule = Sinkhorn((0.2, 0.5, 0.3), queue=90)
    state, queue, aligned_at = rule.init(POOL), [], []
    for step, prediction in enumerate(stream(60, size)):
        aligned, state = rule(prediction, state, step)
        queue = (queue + prediction.probs.tolist())[-max(90, size) :]
        expected = prediction.probs.tolist()
        if len(queue) >= 30:
            matrix = np.array(queue)
            for _ in range(20):
                matrix *= (np.array([0.2, 0.5, 0.3]) + 1e-6) / (matrix.mean(0) + 1e-6)
                matrix /= matrix.sum(1, keepdims=True)
            expected = matrix[-size:]
            aligned_at.append(step)
        np.testing.assert_allclose(aligned.probs, expected, atol=1e-6)
        assert len(state["align.queue"]) == len(queue)
    assert aligned_at[0] == math.ceil(30 / size) - 1


def test_balanced_meets_the_prior():
    probs, prior = torch.cat([one.probs for one in stream(20)]), torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    found = balanced(probs, prior)
    torch.testing.assert_close(found.mean(0), prior, atol=1e-4, rtol=0)
    torch.testing.assert_close(found.sum(1), torch.ones(len(found), dtype=torch.float64))


def test_prior_of_labels_leaves_a_class_without_labels_possible():
    assert MovingMean("labels").init(POOL)["align.prior"].tolist() == pytest.approx([4 / 7, 1 / 7, 2 / 7])
    even = MovingMean("labels").init(Pool(60, torch.tensor([4, 4, 4])))["align.prior"]
    assert even.tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"align.rule": "mean", "align.prior": "0.5,0.6"}, "must sum to 1, but 0.5,0.6 sum to 1.1"),
        ({"align.rule": "mean", "align.prior": "1.5,-0.5"}, "a class has a negative share in 1.5,-0.5"),
        ({"align.rule": "mean", "align.prior": "nan,1"}, "negative share"),
        ({"align.rule": "sinkhorn", "align.prior": "unifrom"}, "must be uniform, labels, .* not 'unifrom'"),
        ({"align.rule": "sinkhorn", "align.prior": "labelled-predictions"}, "goes with align.rule mean only"),
        ({"align.rule": "mean", "align.decay": 1.5}, "align.decay must lie between 0 and 1"),
        ({"align.rule": "sinkhorn", "align.queue": 0}, "align.queue must be above zero"),
    ],
)
def test_settings_that_cannot_be_are_refused(tiny, settings, says):
    with pytest.raises(UserError, match=says):
        with_settings(tiny, settings)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (Settings("mean", "0.5,0.3,0.2"), "align.prior has 3 shares, but there are 10 classes"),
        (Settings("sinkhorn", queue=99), "align.queue 99 is too short for 10 classes: .* 100"),
    ],
)
def test_settings_that_do_not_suit_the_data_are_refused_before_training(tiny, settings, says):
    with pytest.raises(UserError, match=says):
        fit_folder(replace(tiny, align=settings))
    assert not tiny.folder.exists()


def test_any_selftraining_method_takes_any_alignment(tiny):
    config = replace(tiny, align=Settings("mean", "0.25,0.75", decay=0.5))
    assert build.build_method(config).align == MovingMean((0.25, 0.75), decay=0.5)
    filled = build.resolve(config)
    assert (filled.align.rule, filled.align.prior, filled.align.decay) == ("mean", "0.25,0.75", 0.5)
    assert build.build_method(filled) == build.build_method(config)
    assert build.build_method(replace(tiny, align=Settings("sinkhorn", queue=500))).align == Sinkhorn(queue=500)
    assert build.resolve(tiny).align == Settings()  # so that the keys of earlier runs stay
    for rule, read in (("none", set()), ("mean", {"prior", "decay"}), ("sinkhorn", {"prior", "queue"})):
        ignored = ignored_settings(replace(tiny, align=Settings(rule)))
        assert {name for name in ("rule", "prior", "decay", "queue") if f"align.{name}" not in ignored} == read | {
            "rule"
        }
    assert "align.rule" in ignored_settings(replace(tiny, method="paws"))
    assert "align.rule" in ignored_settings(replace(tiny, method="supervised"))


@pytest.mark.parametrize("rule", ["mean", "sinkhorn"])
def test_alignment_spreads_what_a_run_accepts(tiny, tmp_path, rule):
    """FixMatch's first pseudo-labels are of few classes."""
    accept_all = replace(tiny, steps=12, selection=replace(tiny.selection, threshold=0.0))
    plain = fit_folder(accept_all).history()[-1]["effective_classes"]
    aligned = replace(accept_all, align=Settings(rule, queue=100), out=str(tmp_path / "aligned"))
    assert fit_folder(aligned).history()[-1]["effective_classes"] > plain + 1


def test_methods_of_the_paper_align_nothing():
    for name in ("fixmatch", "uda", "bam-uda", "pseudo-label", "supervised"):
        assert find(name).align == NoAlignment()
