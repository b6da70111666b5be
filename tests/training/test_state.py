"""What a checkpoint may hold: only the state of the run that it is loaded into."""

import copy
from dataclasses import replace
from functools import reduce

import pytest
import torch

from surelabel.config.run import Network
from surelabel.methods.base import PoolPrediction
from surelabel.methods.flexmatch import remembered
from surelabel.training import build
from surelabel.training.checkpoints import read_checkpoint, write_checkpoint
from surelabel.utils.bounded import Malformed
from surelabel.utils.errors import UserError
from tests.helpers.runs import fit_folder, initial_state


@pytest.fixture(scope="module")
def trained(digits_data):
    """A state after some steps of a method that remembers something, and a function that makes a fresh one."""
    run = build.resolve(build.RunConfig(method="bam-uda+ema", device="cpu", threads=1, network=Network("mlp-1-4")))
    state = initial_state(run, digits_data)
    for optimizer in state.optimizers:
        for parameter in state.network.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    state.selection = {"quantiles": torch.rand(7)}
    state.running_sums = {"steps": torch.ones(1), "seen": torch.ones(1), "accepted": torch.ones(1, 10)}
    state.step, state.history = 3, [{"step": 3, "accuracy": 0.5, "purity": None}]
    return state.state_dict(), lambda: initial_state(run, digits_data)


def test_state_can_be_loaded_back(trained):
    stored, fresh = trained
    state = fresh()
    state.load_state_dict(stored)
    again = state.state_dict()
    assert all(torch.equal(again["network"][name], tensor) for name, tensor in stored["network"].items())
    assert again["history"] == stored["history"]
    assert [sorted(held) for held in again["optimizers"]] == [sorted(held) for held in stored["optimizers"]]


def first(tensors):
    return next(name for name, tensor in tensors.items() if torch.is_tensor(tensor) and tensor.ndim > 1)


CHANGES = [
    ((), "network", "gone"), ((), "network", {}), ((), "network", 3), ((), "average", None), ((), "average", {}),
    ((), "optimizers", []), ((), "optimizers", [{}]), ((), "optimizers", [{99: {}}, {}]), ((), "optimizers", 1),
    ((), "step", -1), ((), "step", 1.5), ((), "step", True), ((), "history", [1]), ((), "history", [{}]),
    ((), "history", [{"step": 1, "accuracy": "x"}]), ((), "history", [{"step": "1"}]), ((), "selection", {}),
    (("selection",), "quantiles", torch.zeros(2, 2)), (("selection",), "quantiles", torch.zeros(2).long()),
    (("selection",), "other", torch.zeros(2)), (("running_sums",), "x", torch.zeros(1)),
    (("running_sums",), "steps", torch.zeros(1, 2)), (("running_sums",), "steps", torch.zeros(0)),
    (("running_sums",), "accepted", torch.zeros(1, 11)), (("running_sums",), "seen", torch.tensor(1.0)),
    (("network",), "scale", torch.zeros(1, 3, 1, 1)), (("network",), "scale", torch.zeros(1, 1, 1, 1).long()),
    (("network",), "other", torch.zeros(1)), (("average",), "n_averaged", torch.zeros(2)),
    (("optimizers", 0, 0), "momentum_buffer", torch.zeros(1)), (("optimizers", 0, 0), "other", torch.zeros(1)),
    (("optimizers", 0, 0), "momentum_buffer", "x"), (("optimizers", 1, 0), "exp_avg", "gone"),
    (("optimizers", 1, 0), "step", torch.zeros(3)),
]  # fmt: skip


@pytest.mark.parametrize(("path", "key", "value"), CHANGES)
def test_state_of_another_run_is_refused(trained, path, key, value):
    stored, fresh = trained
    stored = copy.deepcopy(stored)
    owner = reduce(lambda tree, part: tree[part], path, stored)
    if isinstance(value, str) and value == "gone":
        del owner[key]
    else:
        owner[key] = value
    with pytest.raises(Malformed) as raised:
        fresh().load_state_dict(stored)
    assert len(str(raised.value)) < 500


def test_resume_refuses_a_checkpoint_of_another_run(tiny):
    folder = fit_folder(replace(tiny, steps=4)).path
    state = read_checkpoint(folder / "checkpoint.pt")
    name = first(state["network"])
    write_checkpoint(folder / "checkpoint.pt", state | {"network": state["network"] | {name: torch.zeros(3)}})
    with pytest.raises(UserError, match=f"checkpoint in .* is not of this run: .*{name}"):
        fit_folder(replace(tiny, steps=4), resume=True)


def test_classes_that_there_are_not_take_no_memory():
    state = {"last_class": torch.tensor([-1, 0, 10**12, -(10**12)]), "counts": torch.zeros(3, dtype=torch.long)}
    batch = PoolPrediction(torch.eye(2).repeat(2, 1), positions=torch.arange(4))
    assert len(remembered(state, batch, torch.ones(4, dtype=torch.bool))["counts"]) == 3
