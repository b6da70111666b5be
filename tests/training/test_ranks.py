"""Several processes are one: what they train and predict is what one does, also where their shares differ."""

import gc
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from surelabel.config.methods import find, names
from surelabel.config.run import Align, Batch, Network, Optimizer, RunConfig, Selection
from surelabel.methods.base import Pool
from surelabel.training import build, build_data, evaluate
from surelabel.training.loop import reduce_sums, training_step
from surelabel.utils.distributed import ALONE, World
from tests.helpers.ranks import on_ranks

STEPS = 30
CALIBRATORS = ["label-smoothing", "margin-penalty", "mixup", "mc-dropout", "last-layer-ensemble", "laplace"]
BAYESIAN = ["bam-fixmatch", "bam-uda", "bam-uda-no-sigma"]
TAUGHT = ["uda+ema", "bam-fixmatch+swa", "bam-flexmatch+ema"]
SMALL = Network("mlp-1-16", norm_momentum=0.1)


def runs_of(tiny: RunConfig) -> dict[str, RunConfig]:
    """Every method, on a batch of 8 with a pool of 16: among three ranks, the shares are uneven."""
    accepting = Selection(threshold=0.15, quantile=0.6, warmup=5)
    base = replace(tiny, precision="64", batch=Batch(8, 2), network=SMALL, selection=accepting)
    plain = [name for name in names() if find(name).family == "self-training" and not name.startswith("bam-")]
    found = {name: replace(base, method=name) for name in [*plain, *BAYESIAN] if not name.endswith(("+ema", "+swa"))}
    found |= {name: replace(base, method=name) for name in TAUGHT}
    found |= {name: replace(base, method="uda", calibrator=name) for name in CALIBRATORS}
    found |= {f"weak {norm}": replace(base, method="bam-uda", weak_norm=norm) for norm in ("batch", "batch-kept")}
    found["interpolated"] = replace(base, method="adamatch", forward="joint")
    found["sinkhorn"] = replace(base, method="fixmatch", align=Align(rule="sinkhorn", queue=100))
    uda = replace(base, method="bam-uda", network=tiny.network)
    found |= {"split": uda, "joint": replace(uda, forward="joint", head=replace(uda.head, kl="mean"))}
    paws = replace(base, method="paws", network=tiny.network)
    found |= {"paws": paws, "bam-paws+swa": replace(paws, method="bam-paws+swa")}
    lars = Optimizer(lr=0.2, nesterov=False, lars_trust=0.02)
    bottleneck = replace(tiny.paws, prediction_head=True)
    found["paws+ema"] = replace(paws, method="paws+ema", paws=bottleneck, optimizer=lars)
    return {name: build.resolve(run) for name, run in found.items()}


def trained(world, runs, data):
    """What each run has learnt after some steps, with its sums over all ranks."""
    found = {}
    for name, run in runs.items():
        method = build.build_method(run, len(data.train))
        loader = build.build_loader(run, data, build_data.build_split(run, data), world=world)
        network = build.build_network(replace(run, devices=world.size), build_data.task_of(data))
        state = build.build_state(run, network, method, Pool.of(loader))
        model = state.network if world.size == 1 else DistributedDataParallel(state.network)
        model.train()
        for _ in range(STEPS):
            training_step(method, model, state, loader(state.step), torch.autograd.backward)
        reduce_sums(state, world)
        held = {"sum of " + key: value for key, value in state.running_sums.items()} | state.selection
        for index, one in enumerate(state.networks):
            held |= {f"{index} {key}": value for key, value in one.state_dict().items() if value.numel()}
        found[name] = held
        del model
        gc.collect()  # a wrapped network that is freed after its process group can deadlock
    return found


@pytest.mark.slow
def test_ranks_train_what_one_process_does(tiny, digits_data, tmp_path):
    runs = runs_of(tiny)
    expected = trained(ALONE, runs, digits_data)
    for size in (2, 3):
        first, *others = on_ranks(size, tmp_path / f"{size} ranks", trained, runs, digits_data)
        for name, held in expected.items():
            assert first[name].keys() == held.keys()
            for key, value in held.items():
                off = (first[name][key].double() - value.double()).norm()
                assert off <= 1e-9 * value.double().norm() + 1e-12, (size, name, key, off)
            for other in others:
                assert all(torch.equal(value, first[name][key]) for key, value in other[name].items()), (size, name)
    assert all(held["sum of accepted"].sum() > 0 for name, held in expected.items() if name != "supervised")


def predicted(world, networks, data, index):
    """What each network predicts for these samples, in 8 batches and in fewer than there are ranks."""
    found = {}
    for name, network in networks.items():
        for batch in (50, 400):
            prediction = evaluate.predict(network, data.test, index, batch, world=world)
            std = prediction.probs[:0] if prediction.std is None else prediction.std
            found[f"{name} {batch}"] = torch.cat([prediction.probs, std])
    return found


@pytest.mark.slow
def test_ranks_share_an_evaluation_out_bit_for_bit(tiny, digits_data, tmp_path):
    kinds = {"bayesian": replace(tiny, method="bam-uda"), "dropout": replace(tiny, calibrator="mc-dropout")}
    networks, task = {}, build_data.task_of(digits_data)
    for name, run in {"linear": tiny, **kinds}.items():
        networks[name] = build.build_network(build.resolve(run), task)
    index = np.random.default_rng(0).permutation(len(digits_data.test))[:383]
    expected = predicted(ALONE, networks, digits_data, index)
    for found in on_ranks(3, tmp_path / "ranks", predicted, networks, digits_data, index):
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_shares_of_an_evaluation_are_whole_batches():
    index = np.arange(23)
    for size, lengths in [(1, [23]), (2, [10, 13]), (3, [5, 10, 8]), (5, [5, 5, 5, 5, 3]), (6, [23])]:
        shares = evaluate.shared_out(index, 5, World(0, size))
        assert [len(share) for share in shares] == lengths
        assert (np.concatenate(shares) == index).all()
