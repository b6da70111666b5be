"""A small encoder of transformers, with random weights, in a folder."""

import json
from pathlib import Path
from typing import Any

import torch

SIDE = 28


def save_dinov2(folder: Path, seed: int = 0, **said: Any) -> str:
    """Its name; `said` changes what it says of its preprocessing."""
    import transformers

    torch.manual_seed(seed)
    config = transformers.Dinov2Config(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=SIDE, patch_size=7
    )
    model = transformers.Dinov2Model(config)
    for parameter in model.parameters():  # some are zero at first
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    preprocessor = {
        "image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 32}, "resample": 2,
        "crop_size": {"height": SIDE, "width": SIDE}, "image_mean": [0.4] * 3, "image_std": [0.3] * 3,
    }  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor | said))
    return f"hf:{folder}"
