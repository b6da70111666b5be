"""What is asked of a device that may not be here."""

from dataclasses import replace

import pytest
import torch

from surelabel import devices
from surelabel.build_views import build_view
from surelabel.data import table
from surelabel.errors import UserError
from surelabel.validate import validate


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_here_is_told(device):
    if {"cuda": torch.cuda, "mps": torch.backends.mps}[device].is_available():
        pytest.skip(f"this machine has {device}")
    with pytest.raises(UserError, match=f"device {device}: .* Use --device cpu"):
        devices.usable(device)


def test_without_a_gpu_the_cpu_is_chosen(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert devices.usable("auto") == "cpu"
    assert devices.usable("mps") == "mps"
    assert devices.usual_precision("mps") == "32"


@pytest.mark.parametrize("change", [{"precision": "64"}, {"precision": "bf16-mixed"}, {"devices": 2}])
def test_what_a_mac_cannot_do_is_refused(tiny, change):
    validate(replace(tiny, device="mps"))
    with pytest.raises(UserError, match="device mps computes in 32 bits and one process"):
        validate(replace(tiny, device="mps", **change))


def test_views_are_made_on_the_cpu_for_a_device_without_double_precision(tiny, tmp_path):
    assert devices.workshop(torch.device("mps")) == torch.device("cpu")
    assert devices.workshop(torch.device("cuda")) == torch.device("cuda")
    assert devices.finest(torch.device("mps")) == torch.float32
    assert devices.finest(torch.device("cpu")) == torch.float64
    file = tmp_path / "rows.csv"
    file.write_text("a,label\n" + "".join(f"{n / 7},{n % 2}\n" for n in range(20)))
    run = replace(tiny, device="mps", views=replace(tiny.views, strong="corrupt"))
    assert build_view("strong", run, table.load(file)).table.device == torch.device("cpu")
