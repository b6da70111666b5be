"""Three ranks with uneven shares, beside torch's BatchNorm on all rows."""

import copy

import pytest
import torch
from torch import nn

from surelabel.config.run import Network, RunConfig
from surelabel.data.batch import Task
from surelabel.models.network import normalised_by
from surelabel.models.shared_norm import SharedNorm, _Normalise, share_norms
from surelabel.training import build
from tests.helpers.ranks import on_ranks

SHARES = [4, 2, 1]
TASK = Task((3, 8, 8), ("a", "b"), "float32", (0.0,) * 3, (1.0,) * 3)


class Whole(torch.autograd.Function):
    """This rank's rows of what all ranks have; its gradient, of one copy for all, is that of all ranks."""

    @staticmethod
    def forward(context, whole, world, sizes):
        context.world, context.sizes = world, sizes
        return whole.split(sizes)[world.rank].clone()

    @staticmethod
    def backward(context, gradient):
        return context.world.gather(gradient.contiguous(), context.sizes) / context.world.size, None, None


class Copied(torch.autograd.Function):
    """The same of what all ranks have whole."""

    @staticmethod
    def forward(context, whole, world):
        context.world = world
        return whole.clone()

    @staticmethod
    def backward(context, gradient):
        return context.world.sum(gradient) / context.world.size, None


def gradients_checked(world, inputs):
    """Raises unless the gradients of the ranks' function are numerical ones; all move the same number at a time."""

    def normalised(rows, *parameters):
        own = Whole.apply(rows, world, SHARES)
        own = own.contiguous(memory_format=torch.channels_last) if own.ndim == 4 else own
        made = _Normalise.apply(own, *(Copied.apply(one, world) for one in parameters), 1e-5, world)[0]
        return world.gather(made, SHARES)

    for tensors in inputs:
        # Copies: processes get their arguments in memory that they share.
        torch.autograd.gradcheck(normalised, [one.clone().requires_grad_() for one in tensors])


@pytest.mark.slow
def test_shared_norm_has_the_numerical_gradients(tmp_path):
    torch.manual_seed(0)
    parameters = [torch.rand(3).double() + 0.5, torch.randn(3).double()]
    inputs = [[3 + torch.randn(7, 3, *sides).double(), *parameters] for sides in ((), (2, 2))]
    on_ranks(3, tmp_path / "ranks", gradients_checked, inputs)


def passed(module, how, rows, slopes):
    """Outputs, gradients by rows and parameters, and what the module keeps, after two passes of different numbers."""
    rows = rows.clone().requires_grad_()
    with normalised_by(how, module):
        outputs = [module(images) for images in (rows, 3 + rows / 3)]
    for output in outputs:
        output.backward(slopes.to(output.dtype))
    by_parameter = {f"gradient of {name}": one.grad for name, one in module.named_parameters()}
    return {"outputs": torch.cat(outputs, 1), "gradient": rows.grad} | by_parameter | dict(module.named_buffers())


def passed_on_ranks(world, cases):
    """The same from this rank's rows, gathered, and its gradients, added up."""
    found = {}
    for name, (module, how, *tensors) in cases.items():
        own = [whole.split(SHARES)[world.rank] for whole in tensors]
        held = passed(share_norms(copy.deepcopy(module), "cpu"), how, *own)
        for key, value in held.items():
            whole = world.gather(value, SHARES) if key in ("outputs", "gradient") else value
            held[key] = world.sum(value) if key.startswith("gradient of") else whole
        found[name] = held
    return found


def modules():
    """Norms of each kind, and a network, with the statistics that they normalise by."""
    kinds = {"plain": {}, "mean of all": {"momentum": None}, "bare": {"affine": False}}
    kinds["untracked"] = {"track_running_stats": False}
    found = {name: (nn.BatchNorm2d(3, **kind), "batch") for name, kind in kinds.items()}
    found |= {how: (nn.BatchNorm2d(3), how) for how in ("batch-kept", "running")}
    config = build.resolve(RunConfig(network=Network("wrn-10-1", norm_momentum=0.1), device="cpu"))
    found["network"] = build.build_network(config, TASK).backbone, "batch"
    return found


@pytest.mark.slow
def test_shared_norm_passes_as_one_does(tmp_path):
    torch.manual_seed(0)
    cases, close = {}, {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2}
    for dtype in close:
        for name, (module, how) in modules().items():
            rows = torch.randn(7, 3, 8, 8, dtype=dtype)
            if dtype != torch.bfloat16:
                module.to(dtype)
            elif name == "network":
                continue  # a norm takes bfloat16 with weights in float32, a convolution does not
            slopes = torch.randn_like(copy.deepcopy(module)(rows))
            cases[name, dtype] = module, how, rows, slopes
    named = {str(key): case for key, case in cases.items()}
    for found in on_ranks(3, tmp_path / "ranks", passed_on_ranks, named):
        for (name, dtype), (module, *rest) in cases.items():
            expected = passed(copy.deepcopy(module), *rest)
            mine = found[str((name, dtype))]
            assert mine.keys() == expected.keys()
            for key, value in expected.items():
                off = (mine[key].double() - value.double()).norm()
                assert off <= close[dtype] * value.double().norm(), (name, dtype, key)


def test_a_process_alone_has_torchs_norm():
    plain, rows = nn.BatchNorm2d(3).train(), torch.randn(4, 3, 2, 2)
    shared = share_norms(nn.Sequential(copy.deepcopy(plain)), "cpu")
    assert isinstance(shared[0], SharedNorm)
    assert torch.equal(shared(rows), plain(rows))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(shared.buffers(), plain.buffers(), strict=True))
    assert list(shared.state_dict()) == [f"0.{name}" for name in plain.state_dict()]


def test_on_gpus_the_norm_is_torchs():
    assert isinstance(share_norms(nn.Sequential(nn.BatchNorm2d(3)), "cuda")[0], nn.SyncBatchNorm)


def test_a_network_of_several_processes_shares_its_norms():
    config = build.resolve(RunConfig(network=Network("wrn-10-1"), device="cpu", devices=2))
    norms = [
        one for one in build.build_network(config, TASK).modules() if isinstance(one, nn.modules.batchnorm._BatchNorm)
    ]
    assert norms
    assert all(isinstance(one, SharedNorm) for one in norms)
    alone = build.build_network(build.resolve(RunConfig(network=Network("wrn-10-1"), device="cpu")), TASK)
    assert not any(isinstance(one, SharedNorm) for one in alone.modules())
