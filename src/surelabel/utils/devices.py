"""Devices, their precision, and threads."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache

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


@contextmanager
def wide_products(large: bool) -> Iterator[None]:
    """Have oneDNN make `large` float32 matrix products, in which MKL uses half the width of AMD's processors.

    torch hands products to oneDNN only if their factors may be rounded to bf16. Where oneDNN would round them, this
    does nothing.
    """
    with _by_onednn() if large and _onednn_is_exact() else nullcontext():
        yield


@contextmanager
def _by_onednn() -> Iterator[None]:
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before, settings.fp32_precision = settings.fp32_precision, "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before


@lru_cache(maxsize=1)
def _onednn_is_exact() -> bool:
    """Whether oneDNN has nothing faster here than float32: vector instructions for bf16, but no tiles."""
    if not multiplies_bf16() or not hasattr(torch.backends.mkldnn, "matmul"):
        return False
    numbers = torch.full((128, 128), 1 + 2**-11)  # 1 in bf16
    with _by_onednn():
        return bool((numbers @ numbers > 128 * (1 + 2**-11)).all())


def accumulation_dtype(device: torch.device) -> torch.dtype:
    """The dtype to sum in: the most precise one of the device."""
    return torch.float32 if device.type in NO_DOUBLE else torch.float64


def augmentation_device(device: torch.device) -> torch.device:
    """Where to augment for this device: on it, unless it lacks float64, which the views need."""
    return torch.device("cpu") if device.type in NO_DOUBLE else device
