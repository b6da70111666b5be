"""What a run computes on, and what each device can do."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from surelabel.utils.errors import UserError
from surelabel.utils.literals import Device, Precision

NO_DOUBLE = {"mps"}  # devices that have no numbers of double precision


def resolve_device(device: Device) -> Device:
    """This device if it is there; for "auto" a CUDA one if there is one.

    A Mac's GPU has to be asked for: what it needs is done and tested, but no Mac has run it yet.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there[device]:
        raise UserError(f"device {device}: torch {torch.__version__} finds none here. Use --device cpu, or auto")
    return device


@contextmanager
def one_thread() -> Iterator[None]:
    """Within this block a CPU works on one thread: small sums wait longer for a second one than they take."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def default_precision(device: Device) -> Precision:
    """Mixed with bfloat16 where the device computes faster in it: GPUs from compute capability 8 (Ampere) on."""
    fast = device == "cuda" and torch.cuda.get_device_capability()[0] >= 8
    return "bf16-mixed" if fast else "32"


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Within this block, where the precision is mixed, torch makes products of bfloat16 numbers."""
    if precision != "bf16-mixed":
        return nullcontext()
    # The cache of torch 2.6 hands what a pass without gradients made of the weights to the pass with them, which would
    # then have none either (pytorch issue 112583).
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)


def accumulation_dtype(device: torch.device) -> torch.dtype:
    """The most precise numbers of a device, to add up in."""
    return torch.float32 if device.type in NO_DOUBLE else torch.float64


def augmentation_device(device: torch.device) -> torch.device:
    """Where views are made for this device: on it, unless it lacks the double precision that they round by."""
    return torch.device("cpu") if device.type in NO_DOUBLE else device
