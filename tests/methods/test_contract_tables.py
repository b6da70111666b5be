"""What the training loop needs from the self-training methods on tables."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.config.run import Network, Views
from surelabel.data.tables.encoding import learn
from surelabel.data.tables.source import TableSource, table_data
from surelabel.training import build
from surelabel.utils.distributed import World
from surelabel.utils.errors import UserError
from tests.helpers.runs import initial_state, loader_of
from tests.methods.test_contract import equal, train

TABLE = {"labels": 9, "views": Views("noise", "noise", "corrupt"), "network": Network("mlp-2-16", norm_momentum=0.1)}


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


# Without unlabelled views, with both, with a Bayesian head, and with a teacher.
@pytest.mark.parametrize("name", ["supervised", "fixmatch", "bam-uda", "bam-fixmatch+ema", "sure"])
def test_method_on_tables_reaches_all_weights_and_resumes(tiny, table, tmp_path, name):
    members = {"network": Network("members-20-8")} if name == "sure" else {}
    config = build.resolve(replace(tiny, method=name, **TABLE | members))
    method, loader = build.build_method(config), loader_of(config, table)
    tried, whole, half, resumed = (initial_state(config, table) for _ in range(4))
    method.loss(tried.network, tried.teacher, loader(0), tried.selection, 0)[0].total.backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in tried.network.parameters())
    train(method, loader, whole, 4)
    train(method, loader, half, 2)
    torch.save(half.state_dict(), tmp_path / "half.pt")
    resumed.load_state_dict(torch.load(tmp_path / "half.pt", weights_only=True))
    train(method, loader, resumed, 2)
    assert equal(whole.state_dict(), resumed.state_dict())


def test_loader_ranks_see_the_global_batch(tiny, table):
    loader = loader_of(build.resolve(replace(tiny, **TABLE)), table)
    alone = loader(3)
    shares = [replace(loader, world=World(rank, 2))(3) for rank in range(2)]
    for name in ("labelled", "weak", "strong", "labels"):
        assert torch.equal(torch.cat([getattr(share, name) for share in shares]), getattr(alone, name))
    assert not torch.equal(alone.weak, alone.strong)


def test_build_loader_rejects_image_views_and_paws_for_tables(tiny, table):
    config = replace(tiny, labels=9)
    with pytest.raises(UserError, match=r"views\.weak weak is a view of images.*choose none, noise, corrupt"):
        build.build_loader(config, table, np.arange(9))
    with pytest.raises(UserError, match="paws compares crops of images"):
        build.build_loader(replace(config, method="paws"), table, np.arange(9))
