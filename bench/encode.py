"""Pictures per second of the encoders: onnxruntime, as `fit` has it, beside plain torch in one run, on one thread.

Needs the extra `pretrained`.
"""

import numpy as np
import torch

from bench.timing import Row, interleaved
from surelabel.config.encoders import ENCODERS
from surelabel.data.arrays.source import SampleSource
from surelabel.models.backbones.pretrained import Encoder
from surelabel.models.frozen_features import _compute, _session

PICTURES, BEFORE = 64, 32


def run() -> list[Row]:
    torch.set_num_threads(1)
    rows = []
    for name, side in ENCODERS.items():
        pixels = np.random.default_rng(0).integers(0, 256, (PICTURES, 3, side, side), dtype=np.uint8)
        source = SampleSource(pixels, np.zeros(PICTURES, dtype=np.int64), ["one"])
        network, session = Encoder(name).to(memory_format=torch.channels_last), _session(name, (3, side, side))  # type: ignore[call-overload]

        def plain(batch: int, network: Encoder = network, pixels: np.ndarray = pixels) -> np.ndarray:
            parts = torch.from_numpy(pixels).contiguous(memory_format=torch.channels_last).split(batch)
            with torch.no_grad():
                return torch.cat([network(part) for part in parts]).numpy()

        times = interleaved(
            {
                "onnxruntime": lambda source=source, session=session: _compute(source, session, None),
                "torch": lambda plain=plain: plain(BEFORE),
                "torch, batches of 4": lambda plain=plain: plain(4),
            }
        )
        rows += [Row(f"{name}, {way}", PICTURES / times[way], "pictures/s") for way in times]
        for way in ("torch", "torch, batches of 4"):
            rows.append(times.ratio(f"{name}: {way} / onnxruntime", way, "onnxruntime"))
        off = np.abs(_compute(source, session, None) - plain(4))
        rows.append(Row(f"{name}: largest difference / largest feature", float(off.max() / np.abs(plain(4)).max()), ""))
    return rows
