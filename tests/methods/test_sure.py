"""The cross-fitted ensemble: what its members learn, and that a left-out label is left out of everything."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from surelabel.config.recipes import table
from surelabel.config.run import CUSTOM
from surelabel.data.arrays.source import SampleSource
from surelabel.data.folds import ALWAYS_SEEN, draw_folds
from surelabel.data.source import DataSet
from surelabel.inference.trained_run import TrainedRun
from surelabel.inference.trust import left_out
from surelabel.methods.cross_fitted import cross_fitted_teachers, pool_shares
from surelabel.methods.propagation import neighbour_graph, propagate
from surelabel.methods.sure import PRIOR, by_fold, sure
from surelabel.models.backbones.projection import Projection, principal_components
from surelabel.models.members_head import MembersHead
from surelabel.training import build, build_data
from surelabel.training.components import Components
from surelabel.training.fit import fit
from surelabel.utils.errors import UserError
from tests.helpers.runs import POOL

FOLDS, STEPS = 5, 6


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300].astype(np.float32), y[:300]


def config(seed=0, **settings):
    made = replace(table("sure", CUSTOM), seed=seed, steps=STEPS, threads=1, device="cpu", **settings)
    return replace(
        made,
        network=replace(made.network, name="members-10-16"),
        sure=replace(made.sure, folds=FOLDS, components=20),
        evaluation=replace(made.evaluation, every=STEPS),
    )


def trained(X, labels, **settings):
    data = DataSet("digits", SampleSource(X, labels, [str(number) for number in range(10)]))
    return fit(config(**settings), console=Console(quiet=True), components=Components(data), save=False)


def some_labels(y, count=60):
    labels = np.full(len(y), -1)
    labels[:count] = y[:count]
    return labels


def test_a_left_out_label_changes_nothing_that_its_members_predict(digits):
    """The labels of one fold are permuted; its members' weights stay the same bit for bit, those of others do not."""
    X, y = digits
    labels = some_labels(y)
    fold = draw_folds(labels[:60], FOLDS)
    mine = np.flatnonzero(fold == 2)
    permuted = labels.copy()
    permuted[mine] = labels[np.roll(mine, 1)]
    assert (permuted != labels).any()
    # Folds are drawn from the labels: given, they must be the same in both runs.
    first, second = (
        trained_with_folds(X, given, fold) for given in (labels, permuted)
    )  # fmt: skip
    np.testing.assert_array_equal(first[:, :, 2], second[:, :, 2])
    assert np.abs(first - second)[:, :, [0, 1, 3, 4]].max(axis=(1, 2, 3)).min() > 1e-4


def test_one_label_per_class_has_the_powers_of_the_prior(digits):
    X, y = digits
    labels = np.full(len(y), -1)
    labels[np.unique(y, return_index=True)[1]] = np.arange(10)
    head = trained(X, labels).network.head
    assert head.powers.tolist() == pytest.approx(PRIOR.powers.tolist(), rel=1e-4)


def trained_with_folds(X, labels, fold):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("surelabel.methods.sure.folds_of", lambda *_: fold)
        run = trained(X, labels)
    return by_fold(run.network, run.data.train, np.arange(len(X)), FOLDS, 64)


def test_teachers_without_a_fold_are_the_learners_trained_without_it(digits):
    """Propagation is computed for all folds at once; each must agree with propagating its labels alone."""
    X, y = digits
    rows = ((X - X.mean(0)) / (X.std(0) + 1)).astype(np.float32)
    index, labels = np.arange(60), y[:60]
    fold = draw_folds(labels, FOLDS)
    teachers = cross_fitted_teachers(rows, index, labels, fold, FOLDS, 10)
    for v in range(FOLDS):
        seen = fold != v
        spread = propagate(neighbour_graph(rows), index[seen], labels[seen], 10)
        C = 64 / np.square(rows[index[seen]]).sum(1).mean()
        linear = LogisticRegression(C=C, max_iter=200, tol=1e-3).fit(rows[index[seen]], labels[seen])
        plain = np.full((len(rows), 10), 1e-4)
        plain[:, linear.classes_] += linear.predict_proba(rows)
        a, b = teachers.powers[v]
        product = spread**a * (plain / plain.sum(1, keepdims=True)) ** b
        np.testing.assert_allclose(teachers.probs[v], product / product.sum(1, keepdims=True), atol=1e-4)
        np.testing.assert_allclose(
            teachers.shares[v], (np.bincount(labels[seen], minlength=10) + 1) / (seen.sum() + 10)
        )


def test_without_left_out_labels_teachers_are_plain_means():
    rows = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    index, labels = np.arange(2), np.array([0, 1])
    fold = draw_folds(labels, 2)
    assert (fold == ALWAYS_SEEN).all()
    teachers = cross_fitted_teachers(rows, index, labels, fold, 2, 2)
    np.testing.assert_allclose(teachers.powers, 0.5)
    np.testing.assert_allclose(teachers.probs.sum(-1), 1, rtol=1e-5)


def test_members_side_by_side_equal_members_one_by_one():
    torch.manual_seed(0)
    backbone, head = Projection((8,), 6), MembersHead(6, 5, 4, 3, 3)
    backbone.projection.copy_(principal_components(torch.randn(50, 8), 6))
    head.hidden_bias.data.normal_()
    head.bias.data.normal_()
    x = torch.randn(7, 8)
    logits = head(backbone(x))
    assert logits.shape == (7, 3, 4)
    for e in range(3):
        hidden = x @ backbone.projection @ head.hidden_weight[e] + head.hidden_bias[5 * e : 5 * e + 5]
        normed = torch.relu(
            (hidden - hidden.mean(1, keepdim=True)) / (hidden.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
        )
        torch.testing.assert_close(logits[:, e], normed @ head.weight[e] + head.bias[e], atol=1e-5, rtol=1e-5)


def test_prediction_is_the_product_of_members_and_linear_models():
    torch.manual_seed(0)
    head = MembersHead(6, 5, 4, members=4, folds=2)
    head.powers.copy_(torch.tensor([0.5, 0.3]))
    head.linear_weight.normal_()
    head.linear_bias.normal_()
    features = torch.randn(7, 6)
    found = head.predict(features, np.random.default_rng())
    members = head(features).softmax(-1)
    linear = torch.stack([features @ head.linear_weight[v] + head.linear_bias[v] for v in (0, 1)], 1)
    linear = (linear.softmax(-1) + 1e-4) / (1 + 4e-4)
    product = members.mean(1) ** 0.5 * linear.mean(1) ** 0.3
    torch.testing.assert_close(found.probs, product / product.sum(1, keepdim=True))
    each = torch.stack([members[:, e] ** 0.5 * linear[:, e % 2] ** 0.3 for e in range(4)], 1)
    torch.testing.assert_close(found.std, (each / each.sum(-1, keepdim=True)).std(1, correction=0))


def test_principal_components_keep_what_varies():
    torch.manual_seed(0)
    rows = torch.randn(400, 9) * torch.tensor([9.0, 8, 7, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    rows = (rows - rows.mean(0)) @ torch.linalg.qr(torch.randn(9, 9))[0]
    kept = rows @ principal_components(rows, 3)
    assert kept.square().mean().item() == pytest.approx(1)
    assert np.corrcoef(kept.T.numpy())[~np.eye(3, dtype=bool)] == pytest.approx(0, abs=1e-3)
    assert torch.equal(principal_components(rows, 9), torch.eye(9))
    # Of embeddings, all directions are: turned, and of the same scale.
    turned = principal_components(rows, 20, always=True)
    assert (rows @ turned).square().mean().item() == pytest.approx(1)
    torch.testing.assert_close(turned.T @ turned, torch.eye(9) * turned[:, 0].square().sum())
    assert not torch.allclose(turned.abs(), turned.abs().diag().diag(), atol=0.1)


@pytest.mark.parametrize("seed", [0, 7])
def test_by_fold_asks_those_that_leave_the_fold_out(digits, seed):
    """Members by their number; linear models are those of scikit-learn, trained without the fold of this seed."""
    X, y = digits
    run = trained(X, some_labels(y), seed=seed)
    found = by_fold(run.network, run.data.train, np.arange(50), FOLDS, 16)
    network = run.network
    with torch.no_grad():
        features = network.features(torch.from_numpy(X))
        members = network.head(features).softmax(-1)
    rows = features.numpy()
    fold = draw_folds(y[:60], FOLDS, seed)
    for v in range(FOLDS):
        np.testing.assert_allclose(found[0, :, v], members[:50, [v, v + FOLDS]].mean(1), rtol=1e-5)
        seen = np.flatnonzero(fold != v)
        C = 64 / np.square(rows[seen]).sum(1).mean()
        linear = LogisticRegression(C=C, max_iter=200, tol=1e-3).fit(rows[seen], y[seen])
        np.testing.assert_allclose(found[1, :, v], linear.predict_proba(rows[:50]), atol=2e-3)


def test_binary_linear_models_are_those_of_scikit_learn():
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(40, 3)).astype(np.float32), np.arange(40) % 2
    teachers = cross_fitted_teachers(rows, np.arange(20), labels[:20], draw_folds(labels[:20], 2), 2, 2)
    logits = rows @ teachers.weight[0] + teachers.bias[0]
    seen = draw_folds(labels[:20], 2) != 0
    C = 64 / np.square(rows[:20][seen]).sum(1).mean()
    linear = LogisticRegression(C=C, max_iter=200, tol=1e-3).fit(rows[:20][seen], labels[:20][seen])
    np.testing.assert_allclose(softmax(logits, axis=1), linear.predict_proba(rows), atol=1e-6)


def test_what_sure_cannot_do_is_refused():
    with pytest.raises(UserError, match="one process"):
        sure.configured(replace(config(), devices=2))
    with pytest.raises(UserError, match="starts anew"):
        sure.configured(replace(config(), init="runs/other"))
    images = np.zeros((20, 3, 8, 8), dtype=np.uint8)
    with pytest.raises(UserError, match="choose an encoder, or another method"):
        trained(images, np.arange(20) % 2)


def test_the_loss_is_the_sum_over_members_that_train_alone(digits):
    """One member of the ensemble has the loss that it would have by itself, given its fold's teacher."""
    X, y = digits
    made = config()
    data = DataSet("digits", SampleSource(X, some_labels(y), [str(number) for number in range(10)]))
    made = build.resolve(replace(made, data=CUSTOM))
    network = build.build_network(made, build_data.task_of(data))
    loader = build.build_loader(made, data, build_data.build_split(made, data))
    method = build.build_method(made)
    method.before_training(network, loader)
    batch = loader(0)
    found, state = method.loss(network, network, batch, method.init(POOL), 0)
    total = 0.0
    for e in range(10):
        v = e % FOLDS
        logits = network(torch.cat([batch.labelled, batch.strong])).outputs[:, e]
        seen = batch.fold != v
        total += torch.nn.functional.cross_entropy(logits[: len(batch.labels)][seen], batch.labels[seen])
        own = network(batch.weak).outputs[:, e].softmax(-1)
        aligned = own * batch.shares[v] / own.mean(0)
        aligned = aligned / aligned.sum(1, keepdim=True)
        target = aligned**made.sure.own * batch.log_targets[v].exp() ** (1 - made.sure.own)
        target = target / target.sum(1, keepdim=True)
        total += torch.nn.functional.cross_entropy(logits[len(batch.labels) :], target.detach())
    torch.testing.assert_close(found.total, total, rtol=1e-4, atol=1e-4)
    assert state["mean"].shape == (10, 10)


def test_pool_shares_are_found_from_calibrated_predictions():
    """Predictions made for equal classes, of a pool with shares of 0.7, 0.2 and 0.1."""
    random = np.random.default_rng(0)
    true = np.array([0.7, 0.2, 0.1])
    labels = random.choice(3, 4000, p=true)
    seen = np.eye(3)[labels] * 2 + random.normal(size=(4000, 3))  # p(x | k) is Gaussian around 2 e_k
    probs = softmax(2 * seen, axis=1).astype(np.float32)
    found = pool_shares(probs, np.full(3, 1 / 3))
    np.testing.assert_allclose(found, 0.9 * true + 0.1 / 3, atol=0.03)


def test_labels_drawn_per_class_are_weighted_by_the_shares_of_the_pool(digits):
    X, y = digits
    keep = np.concatenate([np.flatnonzero(y == k)[: 28 if k < 5 else 9] for k in range(10)])
    X, y = X[keep], y[keep]
    labels = np.full(len(y), -1)
    for k in range(10):
        labels[np.flatnonzero(y == k)[:4]] = k
    weights = trained(X, labels).network.head.class_weight.mean(0)
    assert weights[:5].min() > weights[5:].max()
    assert torch.equal(trained(X, labels, drawn="random").network.head.class_weight, torch.ones(FOLDS, 10))


def test_fit_says_how_it_takes_the_labels_to_be_drawn_before_it_trains(digits):
    X, y = digits
    data = Components(DataSet("digits", SampleSource(X, some_labels(y), [str(number) for number in range(10)])))
    said = {}
    for drawn in ("auto", "random"):
        text = io.StringIO()
        fit(config(drawn=drawn), console=Console(file=text, width=200), components=data, save=False)
        said[drawn] = text.getvalue()
    assert said["auto"].index("taken as drawn at random") < said["auto"].index(f"step {STEPS}/{STEPS}")
    assert "drawn" not in said["random"]


def test_samples_of_a_group_and_their_near_duplicates_share_a_fold(digits):
    X, y = digits
    X = X.copy()
    X[7] = X[3]
    source = SampleSource(X, some_labels(y), [str(number) for number in range(10)])
    source.groups = np.arange(len(X))
    source.groups[[3, 20, 21]] = 3
    source.groups[[7, 40]] = 7
    fold = sure.draw_folds(source, np.arange(60))
    assert len(set(fold[[3, 7, 20, 21, 40]])) == 1
    source.groups = None
    assert len(set(sure.draw_folds(source, np.arange(60))[[3, 7, 20, 21, 40]])) > 1


def test_suggested_labels_are_learnt_but_judge_nothing(digits):
    X, y = digits
    source = SampleSource(X, some_labels(y), [str(number) for number in range(10)])
    source.suggested = np.arange(len(X)) % 3 == 0
    fold = sure.draw_folds(source, np.arange(60))
    assert (fold[::3] == ALWAYS_SEEN).all()
    assert (fold[1::3] != ALWAYS_SEEN).all()
    source._images = X.copy()
    source._images[1] = X[0]  # a copy of a suggested one, which must not be learnt where this one is left out
    fold = sure.draw_folds(source, np.arange(60))
    assert fold[0] == fold[1] != ALWAYS_SEEN
    data = Components(DataSet("digits", source))
    run = TrainedRun.of(fit(config(), console=Console(quiet=True), components=data, save=False))
    assert left_out(run).index.tolist() == [number for number in range(60) if number % 3]


def test_shares_and_powers_are_those_of_labels_drawn_at_random(digits):
    """Suggested labels that share a fold with others are left out with them, and judge nothing."""
    X, y = digits
    rows, index, labels = X / 16, np.arange(60), y[:60]
    random = index < 40
    fold = np.arange(60) % FOLDS
    made = cross_fitted_teachers(rows, index, labels, fold, FOLDS, 10, at_random=random)
    for v in range(FOLDS):
        counts = np.bincount(labels[random & (fold != v)], minlength=10)
        np.testing.assert_allclose(made.shares[v], (counts + 1) / (counts.sum() + 10))
    everything = cross_fitted_teachers(rows, index, labels, fold, FOLDS, 10)
    assert np.abs(everything.powers - made.powers).max() > 1e-3
    none = cross_fitted_teachers(rows, index, labels, fold, FOLDS, 10, at_random=random & False)
    np.testing.assert_array_equal(none.probs, everything.probs)


def test_labels_are_taken_as_drawn_by_those_drawn_at_random(digits):
    """Four of each class; the suggested ones, which are uneven, do not count."""
    X, y = digits
    labels = np.full(len(y), -1)
    for k in range(10):
        labels[np.flatnonzero(y == k)[:4]] = k
    asked = np.flatnonzero(labels == -1)[:7]
    labels[asked] = y[asked]
    source = SampleSource(X, labels, [str(number) for number in range(10)])
    weights = {}
    for suggested in (True, False):
        source.suggested = np.isin(np.arange(len(X)), asked) & suggested
        data = Components(DataSet("digits", source))
        run = fit(config(), console=Console(quiet=True), components=data, save=False)
        weights[suggested] = run.network.head.class_weight
    assert not torch.equal(weights[True], torch.ones(FOLDS, 10))
    assert torch.equal(weights[False], torch.ones(FOLDS, 10))
