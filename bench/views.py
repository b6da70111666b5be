"""The views on one thread: batched against Pillow image by image, on the same images with the same draws."""

import numpy as np
import torch
from numpy.typing import NDArray

from bench.timing import Row, interleaved
from surelabel.data.views import named, paws_view
from surelabel.utils.rng import uniforms
from tests.data.views import photographs, pillow_paws, pillow_policy

IMAGES = 448  # the unlabelled part of a step with B = 64 and µ = 7
PAWS_IMAGES = 256  # the unlabelled part of a PAWS step
PAWS_CROPS = {"global": (32, (0.75, 1.0)), "small": (18, (0.3, 0.75))}


def run() -> list[Row]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        images = photographs.crops(IMAGES, 3, 32, 32)
        paws = [row for name, crop in PAWS_CROPS.items() for row in paws_rows(name, *crop, images[:PAWS_IMAGES])]
        return [*_rows(images), *paws]
    finally:
        torch.set_num_threads(threads)


def _rows(images: NDArray[np.uint8]) -> list[Row]:
    batch = torch.from_numpy(images)
    draws = {name: uniforms(0, name, 0, IMAGES, named(name).draws) for name in ("weak", "strong", "periodic")}
    tensors = {name: torch.from_numpy(draw) for name, draw in draws.items()}
    seconds = interleaved(
        {
            "Pillow": lambda: [
                pillow_policy.strong(image, u) for image, u in zip(images, draws["strong"], strict=True)
            ],
            "strong": lambda: named("strong")(batch, tensors["strong"]),
            "weak": lambda: named("weak")(batch, tensors["weak"]),
            "periodic": lambda: named("periodic")(batch, tensors["periodic"]),
        }
    )
    speeds = [Row(f"{name}, {IMAGES} x 3x32x32", IMAGES / time, "images/s") for name, time in seconds.items()]
    ratio = seconds["Pillow"] / seconds["strong"]
    return [*speeds, Row("strong view, times as fast as Pillow per image", ratio, "x", "at least 3")]


def paws_rows(name: str, size: int, scale: tuple[float, float], images: NDArray[np.uint8]) -> list[Row]:
    """PAWS's view of small images [B, C, H, W]."""
    batch, view = torch.from_numpy(images), paws_view(size, scale, "cifar")
    draws = uniforms(0, name, 0, len(images), view.draws)
    tensor = torch.from_numpy(draws)
    seconds = interleaved(
        {
            "Pillow": lambda: [
                pillow_paws.small(image, u, size, scale) for image, u in zip(images, draws, strict=True)
            ],
            "batched": lambda: view(batch, tensor),
        }
    )
    what = f"PAWS {name} crop, {len(images)} x 3x32x32 to {size}x{size}"
    speeds = [Row(f"{what}, {who}", len(images) / time, "images/s") for who, time in seconds.items()]
    ratio = seconds["Pillow"] / seconds["batched"]
    return [*speeds, Row(f"PAWS {name} crop, times as fast as Pillow per image", ratio, "x")]
