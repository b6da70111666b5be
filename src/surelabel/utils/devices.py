"""Devices, their precision, and threads."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from surelabel.utils.errors import UserError
from surelabel.utils.literals import Device, Precision

# Networks whose steps bf16 shortens on a CPU, by `python -m bench precision`: by a fifth and more. Small layers gain
# nothing (mlp), depthwise convolutions little (efficientnet).
FASTER_IN_BF16 = {"wrn", "resnet"}
NO_DOUBLE = {"mps"}  # devices without float64


def resolve_device(device: Device) -> Device:
    """The given device, or an error if it is missing; "auto" is CUDA if available, else the CPU.

    "auto" never picks a Mac's GPU: the code for it has not run on a real one yet.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there[device]:
        raise UserError(f"device {device}: torch {torch.__version__} finds none here. Use cpu or auto")
    return device


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one CPU thread: a small sum takes less time than waiting for a second thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def default_precision(device: Device, network: str) -> Precision:
    """bf16-mixed where that is faster: GPUs of compute capability 8 (Ampere) or later, and CPUs with instructions for
    it where the network is of convolutions.
    """
    if device == "cuda":
        fast = torch.cuda.get_device_capability()[0] >= 8
    else:
        fast = device == "cpu" and network.partition("-")[0] in FASTER_IN_BF16 and multiplies_bf16()
    return "bf16-mixed" if fast else "32"


def multiplies_bf16() -> bool:
    """Whether this CPU has instructions for bfloat16; emulated, it is up to 12 times slower than float32."""
    # Older versions of torch do not tell.
    known: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(known.get("avx512_bf16") or known.get("amx_bf16"))


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """torch.autocast to bfloat16 if the precision is mixed, else nothing."""
    if precision != "bf16-mixed":
        return nullcontext()
    # torch 2.6 would reuse weights that a pass without gradients has cast, and the pass with
    # gradients would then have none (pytorch issue 112583).
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)


def accumulation_dtype(device: torch.device) -> torch.dtype:
    """The dtype to sum in: the most precise one of the device."""
    return torch.float32 if device.type in NO_DOUBLE else torch.float64


def augmentation_device(device: torch.device) -> torch.device:
    """Where to augment for this device: on it, unless it lacks float64, which the views need."""
    return torch.device("cpu") if device.type in NO_DOUBLE else device
