"""Pictures per second of the encoders: onnxruntime, as `fit` has it, beside plain torch in one run, on one thread.

Needs the extra `pretrained`.
"""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bench.timing import Row, interleaved
from surelabel.config.encoders import ENCODERS
from surelabel.data.arrays.source import SampleSource
from surelabel.models.encoders import open_encoder
from surelabel.models.encoders.efficientnet import EfficientNetEncoder
from surelabel.models.frozen_features import compute

PICTURES, ROUNDS = 32, 9


def run() -> list[Row]:
    torch.set_num_threads(1)
    rows = []
    for name, side in ENCODERS.items():
        pixels = np.random.default_rng(0).integers(0, 256, (PICTURES, 3, side, side), dtype=np.uint8)
        source = SampleSource(pixels, np.zeros(PICTURES, dtype=np.int64), ["one"])
        encoder = open_encoder(name)
        assert isinstance(encoder, EfficientNetEncoder)
        network = encoder.module
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        ours, small = partial(compute, source, encoder), partial(_plain, network, pixels, 4)
        candidates = {"onnxruntime": ours, "torch": partial(_plain, network, pixels, 32), "torch by fours": small}
        times = interleaved(candidates, ROUNDS)
        rows += [Row(f"{name}, {way}", PICTURES / times[way], "pictures/s") for way in times]
        rows.append(times.ratio(f"{name}: torch / onnxruntime", "torch", "onnxruntime"))
        rows.append(times.ratio(f"{name}: torch by fours / onnxruntime", "torch by fours", "onnxruntime"))
        expected = small()
        off = float(np.abs(ours() - expected).max() / np.abs(expected).max())
        rows.append(Row(f"{name}: largest difference / largest feature", off, "", "at most 1e-4"))
    return rows


def _plain(network: nn.Module, pixels: NDArray[np.uint8], batch: int) -> NDArray[np.float32]:
    parts = [torch.from_numpy(pixels[start : start + batch]) for start in range(0, len(pixels), batch)]
    with torch.no_grad():
        found = [network(part.contiguous(memory_format=torch.channels_last)) for part in parts]
    return torch.cat(found).numpy()
