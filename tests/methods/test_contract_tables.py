"""What every self-training method owes the loop, on rows of a table."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.config.methods import METHODS, TEACHERS
from surelabel.config.run import Network, Views
from surelabel.data.tables.encoding import learn
from surelabel.data.tables.source import TableSource, table_data
from surelabel.training import build, build_data
from surelabel.training.loop import training_step
from surelabel.training.state import TrainState
from surelabel.utils.distributed import World
from surelabel.utils.errors import UserError
from tests.methods.test_contract import equal

SELF_TRAINING = [method for method in METHODS if not method.endswith("paws")]


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 200)
    numbers = random.normal(labels[:, None], 1, (200, 3))
    numbers[random.random((200, 3)) < 0.1] = np.nan
    columns = {f"x{number}": values for number, values in enumerate(numbers.T)}
    columns["kind"] = np.array([f"kind {label}" if random.random() < 0.7 else "" for label in labels], dtype=object)
    encoding, _ = learn(columns)
    return table_data("table", TableSource(encoding.encode(columns), labels, ["a", "b", "c"], encoding))


@pytest.fixture(params=[method + teacher for method in SELF_TRAINING for teacher in ("", *(f"+{t}" for t in TEACHERS))])
def parts(request, tiny, table):
    config = replace(tiny, method=request.param, labels=9, network=Network("mlp-2-16", norm_momentum=0.1))
    config = build.resolve(replace(config, views=Views("noise", "noise", "corrupt")))
    method = build.build_method(config)

    def make() -> TrainState:
        return build.build_state(config, build.build_network(config, build_data.task_of(table)), method)

    return method, build.build_loader(config, table, build_data.build_split(config, table)), make


def train(method, loader, state, steps):
    for _ in range(steps):
        losses = training_step(method, state.network, state, loader(state.step), torch.autograd.backward)
        assert torch.isfinite(losses.total)


def test_method_on_tables_reaches_all_weights_and_resumes(parts, tmp_path):
    method, loader, make = parts
    whole, half, resumed = make(), make(), make()
    method.loss(half.network, half.teacher, loader(0), half.selection, 0)[0].total.backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in half.network.parameters())
    half.network.zero_grad()
    half = make()
    train(method, loader, whole, 4)
    train(method, loader, half, 2)
    torch.save(half.state_dict(), tmp_path / "half.pt")
    resumed.load_state_dict(torch.load(tmp_path / "half.pt", weights_only=True))
    train(method, loader, resumed, 2)
    assert equal(whole.state_dict(), resumed.state_dict())


def test_loader_ranks_see_the_global_batch(tiny, table):
    config = build.resolve(
        replace(tiny, labels=9, network=Network("mlp-1-8"), views=Views("noise", "noise", "corrupt"))
    )
    loader = build.build_loader(config, table, build_data.build_split(config, table))
    alone = loader(3)
    shares = [replace(loader, world=World(rank, 2))(3) for rank in range(2)]
    for name in ("labelled", "weak", "strong", "labels"):
        assert torch.equal(torch.cat([getattr(world, name) for world in shares]), getattr(alone, name))
    assert not torch.equal(alone.weak, alone.strong)


def test_build_loader_rejects_image_views_and_paws_for_tables(tiny, table):
    config = replace(tiny, labels=9)
    with pytest.raises(UserError, match=r"views\.weak weak is a view of images.*choose none, noise, corrupt"):
        build.build_loader(config, table, np.arange(9))
    with pytest.raises(UserError, match="paws compares crops of images"):
        build.build_loader(replace(config, method="paws"), table, np.arange(9))
