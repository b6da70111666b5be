import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from surelabel.config.validate import validate
from surelabel.data.tables import source as table
from surelabel.methods.base import Pool
from surelabel.training import build
from surelabel.training.build_views import build_view
from surelabel.training.state import TrainState
from surelabel.utils import devices
from surelabel.utils.errors import UserError
from tests.helpers.cli import fit_options
from tests.helpers.runs import fit_folder


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_resolve_device_rejects_a_missing_device(device):
    if {"cuda": torch.cuda, "mps": torch.backends.mps}[device].is_available():
        pytest.skip(f"this machine has {device}")
    with pytest.raises(UserError, match=f"device {device}: .* Use cpu"):
        devices.resolve_device(device)


def test_resolve_device_auto_falls_back_to_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert devices.resolve_device("auto") == "cpu"
    assert devices.resolve_device("mps") == "mps"
    assert devices.default_precision("mps", "wrn-28-2") == "32"


def test_wide_products_are_as_exact_as_float32():
    """Sums of 500 products in float32 are right to a millionth or so; of factors in bf16, to a thousandth."""
    random = torch.Generator().manual_seed(0)
    before = torch.rand(4, 8, 8, generator=random) @ torch.ones(8, 8)
    for shapes in (((128, 500), (500, 64)), ((5, 60, 500), (5, 500, 32)), ((1, 500), (500, 7))):
        one, other = (torch.rand(shape, generator=random) for shape in shapes)
        with devices.wide_products(True):
            found = one @ other
        assert torch.allclose(found.double(), one.double() @ other.double(), rtol=5e-6)
    assert torch.equal(before, torch.rand(4, 8, 8, generator=random.manual_seed(0)) @ torch.ones(8, 8))


@pytest.mark.parametrize(("large", "exact"), [(True, True), (True, False), (False, True)])
def test_wide_products_leave_no_trace_and_are_made_where_asked_and_exact(monkeypatch, large, exact):
    settings = getattr(torch.backends.mkldnn, "matmul", None)
    if settings is None:
        pytest.skip("this torch cannot choose who makes products")
    monkeypatch.setattr(devices, "_onednn_is_exact", lambda: exact)
    before = settings.fp32_precision
    with pytest.raises(ZeroDivisionError), devices.wide_products(large):
        assert (settings.fp32_precision != before) == (large and exact)
        _ = 1 / 0
    assert settings.fp32_precision == before


@pytest.mark.parametrize("change", [{"precision": "64"}, {"precision": "bf16-mixed"}, {"devices": 2}])
def test_validate_rejects_what_mps_cannot_do(tiny, change):
    validate(replace(tiny, device="mps"))
    with pytest.raises(UserError, match="device mps supports only 32 bits and one process"):
        validate(replace(tiny, device="mps", **change))


def test_views_are_made_on_the_cpu_without_float64(tiny, tmp_path):
    assert devices.augmentation_device(torch.device("mps")) == torch.device("cpu")
    assert devices.augmentation_device(torch.device("cuda")) == torch.device("cuda")
    assert devices.accumulation_dtype(torch.device("mps")) == torch.float32
    assert devices.accumulation_dtype(torch.device("cpu")) == torch.float64
    file = tmp_path / "rows.csv"
    file.write_text("a,label\n" + "".join(f"{n / 7},{n % 2}\n" for n in range(20)))
    run = replace(tiny, device="mps", views=replace(tiny.views, strong="corrupt"))
    assert build_view("strong", run, table.load(file)).table.device == torch.device("cpu")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fixmatch", "bam-uda", "fixmatch+ema", "paws+ema"])
def test_mixed_precision_is_the_same_in_teacher_and_network(tiny, method):
    """Pseudo-labels come from a pass without gradients; the last evaluation is in full precision."""
    seen = set()

    def note(module, images, made):
        if isinstance(module, nn.Conv2d):
            seen.add(("training" if module.training else "evaluation", torch.is_grad_enabled(), made.dtype))

    handle = nn.modules.module.register_module_forward_hook(note)
    try:
        fit_folder(replace(tiny, method=method, precision="bf16-mixed", steps=2))
    finally:
        handle.remove()
    training = {("training", with_gradients, torch.bfloat16) for with_gradients in (True, False)}
    assert seen == training | {("evaluation", False, dtype) for dtype in (torch.bfloat16, torch.float32)}


def test_mixed_precision_normalises_before_rounding(tiny, tmp_path):
    """30,000 ± 100 loses all digits in bfloat16; normalised values keep three."""
    stored = dict(np.load(tiny.data))
    found = []
    for name, (offset, scale) in {"near": (0, 1), "far": (30_000, 0.4)}.items():
        floats = {key: stored[key].astype(np.float32) * scale + offset for key in ("images", "test_images")}
        np.savez(tmp_path / f"{name}.npz", **(stored | floats))
        views = replace(tiny.views, strong="weak")
        run = replace(tiny, data=str(tmp_path / f"{name}.npz"), views=views, precision="bf16-mixed", steps=4)
        folder = fit_folder(replace(run, out=str(tmp_path / name)))
        found.append(json.loads((folder.path / "metrics.jsonl").read_text())["labelled_loss"])
    assert found[1] == pytest.approx(found[0], rel=0.02)


def test_this_cpu_says_whether_it_multiplies_bf16():
    flags = Path("/proc/cpuinfo")
    if not flags.exists() or not hasattr(torch.cpu, "get_capabilities"):
        pytest.skip("neither the system nor this version of torch lists the processor's instructions")
    assert devices.multiplies_bf16() == any(flag in flags.read_text().split() for flag in ("avx512_bf16", "amx_bf16"))


def test_float16_is_rejected():
    with pytest.raises(UserError, match="bf16-mixed"):
        fit_options(["--precision", "16-mixed"])


def test_fit_moves_nothing_to_a_device_before_launch(tiny, monkeypatch):
    """Before the launch, the current GPU of every rank is the first one."""
    fit_folder(tiny)
    order = []

    def noted(owner, name):
        original = getattr(owner, name)

        def call(*given, **named):
            order.append(name)
            return original(*given, **named)

        monkeypatch.setattr(owner, name, call)

    noted(Fabric, "launch")
    noted(build, "build_state")
    noted(TrainState, "load_state_dict")
    fit_folder(tiny, resume=True)
    assert order == ["launch", "build_state", "load_state_dict"]

    # A mistake is told before there are other processes, which would tell it too.
    for name in ("checkpoint.pt", "checkpoint-previous.pt"):
        (tiny.folder / name).write_bytes(b"")
    order.clear()
    with pytest.raises(UserError, match="no checkpoint to resume from"):
        fit_folder(tiny, resume=True)
    with pytest.raises(UserError, match="has no weights yet"):
        fit_folder(replace(tiny, init=str(tiny.folder.parent), out=str(tiny.folder) + "-2"))
    assert order == []


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
@pytest.mark.parametrize("method", ["bam-uda+ema", "bam-paws+swa"])
def test_loaded_state_is_entirely_on_the_device(tiny, method):
    """The meta device stands for a second GPU."""
    folder = fit_folder(replace(tiny, method=method))
    run = replace(folder.config, device="meta")
    pool = Pool(1400, torch.full((10,), 4))
    state = build.build_state(run, build.build_network(run, folder.task()), build.build_method(run), pool)
    stored, _ = folder.stored_state()
    stored["running_sums"] = {"steps": torch.ones(1), "accepted": torch.ones(1, 10)}
    state.load_state_dict(stored)
    tensors = [*state.network.state_dict().values(), *state.evaluated.state_dict().values()]
    tensors += [*state.selection.values(), *state.running_sums.values()]
    tensors += [value for optimizer in state.optimizers for held in optimizer.state.values() for value in held.values()]
    # Adam counts its steps on the CPU.
    assert {tensor.device.type for tensor in tensors if tensor.numel() > 1 or tensor.ndim} == {"meta"}
    assert len(tensors) > 50
