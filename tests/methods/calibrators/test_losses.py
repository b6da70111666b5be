"""What calibrators make of a batch and of its loss, against plain loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.config.methods import find
from surelabel.config.run import Batch as BatchSettings
from surelabel.config.run import Calibration, RunConfig, Selection
from surelabel.config.run import Network as Settings
from surelabel.data.batch import Batch, Task
from surelabel.methods.base import Pool
from surelabel.methods.calibrators.label_smoothing import LabelSmoothing
from surelabel.methods.calibrators.last_layer_ensemble import LastLayerEnsemble, WeighedBatch
from surelabel.methods.calibrators.margin_penalty import MarginPenalty
from surelabel.methods.calibrators.mc_dropout import MCDropout
from surelabel.methods.calibrators.mixup import Mixup
from surelabel.methods.selection import Confidence
from surelabel.models.dropout_head import DropoutHead
from surelabel.training import build
from surelabel.utils.distributed import World
from surelabel.utils.rng import generator, uniforms
from tests.helpers.runs import loader_of

ACCEPTED = 0.5  # so that some are accepted and some are not
POOL = Pool(12, torch.tensor([3, 2, 1]))
TASK = Task((1, 8, 8), ("a", "b", "c"), "float32", (0.0,), (1.0,))
UDA = replace(find("uda"), select=Confidence(ACCEPTED))


def batch_of(seed=0, step=3):
    torch.manual_seed(1)
    labelled, weak, strong = (torch.randn(n, 1, 8, 8, dtype=torch.float64) for n in (6, 12, 12))
    return Batch(labelled, torch.tensor([0, 1, 2, 1, 0, 0]), weak, strong, torch.zeros(12).long(), seed=seed, step=step)


def network_of(calibrator, method="uda", **constants):
    config = RunConfig(
        method=method, network=Settings("wrn-10-1"), calibrator=calibrator, calibration=Calibration(**constants),
        selection=Selection(threshold=ACCEPTED),
    )  # fmt: skip
    network = build.build_network(config, TASK).double().eval()
    with torch.no_grad():
        network.head.weight *= 30
    return network, build.build_method(config)


def log_probs(network, images):
    with torch.no_grad():
        return network(images).outputs.log_softmax(-1).tolist()


def cross_entropy(logs, target):
    return -sum(t * log for t, log in zip(target, logs, strict=True))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_label_smoothing_equals_a_plain_loop(smoothing):
    network, method = network_of("label-smoothing", smoothing=smoothing)
    batch = batch_of()
    losses, _ = method.loss(network, network, batch, method.init(POOL), 0)
    expected = 0.0
    for logs, label in zip(log_probs(network, batch.labelled), batch.labels.tolist(), strict=True):
        target = [(1 - smoothing) * (k == label) + smoothing / 3 for k in range(3)]
        expected += cross_entropy(logs, target) / 6
    assert losses.parts["labelled"].item() == pytest.approx(expected, abs=1e-10)
    plain, _ = UDA.loss(network, network, batch, {}, 0)
    assert torch.equal(losses.parts["unlabelled"], plain.parts["unlabelled"])


def test_margin_penalty_equals_a_plain_loop():
    network, method = network_of("margin-penalty", margin=2.0, margin_weight=0.7)
    batch = batch_of()
    losses, _ = method.loss(network, network, batch, method.init(POOL), 0)
    with torch.no_grad():
        logits = network(torch.cat([batch.labelled, batch.strong])).outputs.tolist()
    penalty = sum(max(0, max(row) - z - 2.0) for row in logits for z in row) / (3 * 18)
    assert penalty > 0
    assert losses.parts["penalty"].item() == pytest.approx(penalty, abs=1e-10)
    plain, _ = UDA.loss(network, network, batch, {}, 0)
    assert losses.total.item() == pytest.approx(plain.total.item() + 0.7 * penalty, abs=1e-10)


def test_margin_penalty_is_nothing_within_the_margin():
    assert MarginPenalty(margin=3.0).penalty(torch.tensor([[0.0, 3.0], [1.0, 1.0]]))[0] == 0


def test_mixup_equals_a_plain_loop():
    network, method = network_of("mixup", mixup_alpha=0.8)
    batch = batch_of()
    losses, _ = method.loss(network, network, batch, method.init(POOL), 0)
    draws = batch.draws("mixup")
    share, order, labels = draws.beta(0.8, 0.8), draws.permutation(6), batch.labels.tolist()
    expected = 0.0
    for i, j in enumerate(order):
        (logs,) = log_probs(network, share * batch.labelled[i : i + 1] + (1 - share) * batch.labelled[j : j + 1])
        target = [share * (labels[i] == k) + (1 - share) * (labels[j] == k) for k in range(3)]
        expected += cross_entropy(logs, target) / 6
    assert losses.parts["labelled"].item() == pytest.approx(expected, abs=1e-10)
    plain, _ = UDA.loss(network, network, batch, {}, 0)
    assert torch.equal(losses.parts["unlabelled"], plain.parts["unlabelled"])
    assert 0.05 < share < 0.95
    assert not (order == np.arange(6)).all()


def test_mixup_does_not_round_stored_bytes():
    stored = torch.tensor([[10], [21]], dtype=torch.uint8)
    mixed = Mixup(0.5).prepared(Batch(stored, torch.tensor([0, 1]), step=1))
    assert mixed.labelled.dtype == torch.float32
    assert mixed.labelled.sum().item() == pytest.approx(31)


class Two(World):
    """One of two processes, which knows the rows of both."""

    def gather(self, own):
        return self.__dict__["all"][tuple(own.shape[1:])]


def test_mixup_of_two_processes_is_that_of_one():
    batch = batch_of()
    whole = Mixup(0.8).prepared(batch)
    for rank in range(2):
        world = Two(rank, 2)
        world.__dict__["all"] = {(1, 8, 8): batch.labelled, (): batch.labels}
        rows = world.rows(6)
        part = replace(batch, labelled=batch.labelled[rows], labels=batch.labels[rows], world=world)
        mixed = Mixup(0.8).prepared(part)
        assert torch.equal(mixed.labelled, whole.labelled[rows])
        assert torch.equal(mixed.others, whole.others[rows])


@pytest.mark.parametrize("forward", ["split", "joint"])
def test_mc_dropout_equals_a_plain_loop(forward):
    network, method = network_of("mc-dropout", dropout=0.25, samples=7)
    method, batch, head = replace(method, forward=forward), batch_of(seed=4), network.head.train()
    losses, _ = method.loss(network, network, batch, method.init(POOL), 0)

    def masked(images, role):
        kept = uniforms(4, f"dropout, {role}", 3, len(images), head.in_features) >= 0.25
        features = network.features(images).detach() * torch.from_numpy(kept) / 0.75
        return (features @ head.weight.T + head.bias).log_softmax(-1).tolist()

    labelled = zip(masked(batch.labelled, "labelled"), batch.labels.tolist(), strict=True)
    expected = -sum(logs[label] for logs, label in labelled) / 6
    assert losses.parts["labelled"].item() == pytest.approx(expected, abs=1e-10)
    prediction = head.predict(network.features(batch.weak), batch.draws("pseudo-labels"))
    assert torch.equal(losses.prediction.probs, prediction.probs)
    unlabelled, accepted = 0.0, 0
    for probs, logs in zip(prediction.probs.tolist(), masked(batch.strong, "strong"), strict=True):
        if max(probs) >= ACCEPTED:
            accepted += 1
            powers = [p ** (1 / 0.4) for p in probs]
            unlabelled += cross_entropy(logs, [p / sum(powers) for p in powers]) / 12
    assert 0 < accepted < 12
    assert losses.parts["unlabelled"].item() == pytest.approx(unlabelled, abs=1e-10)


def test_mc_dropout_of_two_processes_is_that_of_one():
    head, batch = DropoutHead(5, 3, 0.5, 4), batch_of()
    masks = MCDropout().noise(head, batch, joint=True)
    for rank in range(2):
        world = World(rank, 2)
        labelled, pool = world.rows(6), world.rows(12)
        part = Batch(
            batch.labelled[labelled], batch.labels[labelled], batch.weak[pool], batch.strong[pool], step=3, world=world
        )
        own = MCDropout().noise(head, part, joint=True)
        assert torch.equal(own[:9], torch.cat([masks[:6][labelled], masks[6:18][pool]]))
        assert (own[9:] == 1).all()


def test_bam_with_mc_dropout_selects_by_its_std():
    network, method = network_of("mc-dropout", "bam-uda")
    assert isinstance(network.head, DropoutHead)
    losses, state = method.loss(network, network, batch_of(), method.init(POOL), 0)
    assert losses.prediction.std is not None
    assert len(state["quantiles"]) == 1
    assert "prior" not in losses.parts


def test_last_layer_ensemble_loss_equals_a_plain_loop():
    network, method = network_of("last-layer-ensemble", members=4)
    weights = torch.rand(6, 4, dtype=torch.float64)
    batch = WeighedBatch(**vars(batch_of()), weights=weights)
    losses, _ = method.loss(network, network, batch, method.init(POOL), 0)
    labelled, strong = log_probs(network, batch.labelled), log_probs(network, batch.strong)  # [N][E][K]
    expected = 0.0
    for n, label in enumerate(batch.labels.tolist()):
        for e in range(4):
            expected -= weights[n, e].item() * labelled[n][e][label] / 24
    assert losses.parts["labelled"].item() == pytest.approx(expected, abs=1e-10)
    unlabelled, accepted = 0.0, 0
    for n, members in enumerate(log_probs(network, batch.weak)):
        probs = [sum(math.exp(logs[k]) for logs in members) / 4 for k in range(3)]
        if max(probs) >= ACCEPTED:
            accepted += 1
            powers = [p ** (1 / 0.4) for p in probs]
            target = [p / sum(powers) for p in powers]
            unlabelled += sum(cross_entropy(strong[n][e], target) for e in range(4)) / 4 / 12
    assert 0 < accepted < 12
    assert losses.parts["unlabelled"].item() == pytest.approx(unlabelled, abs=1e-10)


def test_bootstrap_weighs_each_label_once_and_for_all(tiny, digits_data):
    config = build.resolve(replace(tiny, method="uda", calibrator="last-layer-ensemble", batch=BatchSettings(40, 1)))
    loader = loader_of(config, digits_data)
    weights = {}
    for step in range(3):
        batch = loader(step)
        for place, row in zip(loader.indices(step)[0].tolist(), batch.weights, strict=True):
            assert torch.equal(weights.setdefault(place, row), row)
    table = torch.stack([weights[place] for place in loader.labelled.tolist()])
    drawn = generator(config.seed, "bootstrap").exponential(size=(40, 5))
    np.testing.assert_allclose(table, drawn / drawn.mean(axis=0), rtol=1e-6)
    alike = LastLayerEnsemble(5, bootstrap=False).wrapped(loader_of(replace(config, calibrator="none"), digits_data))
    assert (alike(0).weights == 1).all()


def test_label_smoothing_has_its_constant_from_the_config():
    config = RunConfig(calibrator="label-smoothing", calibration=Calibration(smoothing=0.25))
    assert build.build_method(config).calibrator == LabelSmoothing(0.25)
