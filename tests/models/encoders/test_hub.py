"""The hub's package on a hub of this machine, each time in a process of its own: its settings are read once."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from tests.helpers.hub import COMMIT, serving

if find_spec("transformers") is None:
    pytest.skip("the extra `hf` is not installed", allow_module_level=True)
import transformers

PROGRAM = """
import sys
import numpy as np
from surelabel.models.encoders import open_encoder
from surelabel.utils.errors import UserError

for name in sys.argv[1:]:
    try:
        encoder = open_encoder(name)
        pictures = np.arange(2 * 3 * 28 * 28).reshape(2, 3, 28, 28).astype(np.uint8)
        print(encoder.revision, encoder.fingerprint, float(encoder(pictures).sum()))
    except UserError as error:
        print("refused:", error)
"""


@pytest.fixture
def model(tmp_path):
    """A small model, whose weights are in two files, and beside it what must not be fetched."""
    folder = tmp_path / "model"
    config = transformers.Dinov2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14
    )
    torch.manual_seed(0)
    transformers.Dinov2Model(config).save_pretrained(folder, max_shard_size="60KB")
    processor = transformers.BitImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor.save_pretrained(folder)
    (folder / "pytorch_model.bin").write_bytes(b"pickled")
    return folder


@pytest.fixture
def open_names(tmp_path):
    """Open encoders in another process; what it printed, and what it said of downloads."""

    def run(url, *names, **environment):
        there = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1", **environment}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *names], env=os.environ | there, capture_output=True, text=True, check=True
        )
        told = [line for line in done.stderr.splitlines() if line.startswith("surelabel:")]
        return done.stdout.splitlines(), told

    return run


@pytest.mark.slow
def test_a_model_is_fetched_once_and_announced(model, open_names):
    assert len([*model.glob("model-*.safetensors")]) > 1
    with serving("org/small", model) as (url, asked):
        (first,), told = open_names(url, "hf:org/small")
        size = sum(path.stat().st_size for path in model.iterdir() if path.suffix != ".bin") / 1e6
        assert told == [f"surelabel: downloading org/small of the hub, {size:,.1f} MB"]
        assert first.startswith(COMMIT)
        assert not [line for line in asked if "pytorch_model.bin" in line]
        assert not [line for line in asked if "org/small" not in line]  # nothing is told to the hub beside
        asked.clear()
        again, told = open_names(url, "hf:org/small", "hf:org/small@v1", HF_HUB_OFFLINE="1")
        assert again[0] == first
        assert "offline" in again[1]  # another revision, which is not stored
        assert (told, asked) == ([], [])
        (pinned,), told = open_names(url, "hf:org/small@v1")
        assert pinned == first
        assert "org/small@v1" in told[0]
    (local,), told = open_names("http://127.0.0.1:9", f"hf:{model}")
    assert local.split()[1:] == first.split()[1:]  # the same weights
    assert told == []


@pytest.mark.slow
def test_what_the_hub_does_not_have_is_refused(model, open_names):
    (model / "model.safetensors.index.json").unlink()
    with serving("org/small", model) as (url, _):
        found, told = open_names(url, "hf:org/small", "hf:org/small@v9", "hf:org/absent", "hf:not a name")
    for line, named in zip(found, ("pytorch_model.bin", "v9", "org/absent", "not a name"), strict=True):
        assert line.startswith("refused:")
        assert named in line
    assert told == []
    (found,), _ = open_names("http://127.0.0.1:9", "hf:org/small")
    assert "cannot be reached" in found


@pytest.mark.slow
def test_half_a_download_is_completed(model, open_names, tmp_path):
    with serving("org/small", model) as (url, _):
        (first,), _ = open_names(url, "hf:org/small")
        (part,) = (tmp_path / "home").rglob("snapshots/*/model-00001*")
        part.unlink()
        (offline,), _ = open_names(url, "hf:org/small", HF_HUB_OFFLINE="1")
        assert "offline" in offline
        (again,), told = open_names(url, "hf:org/small")
    assert again == first
    assert told
    assert np.isfinite(float(again.split()[2]))
