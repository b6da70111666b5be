import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.own_pictures import COUNTED
from tests.helpers.images import picture, write_files

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_own_pictures_are_read_loaded_predicted_and_parsed_once(tmp_path):
    pytest.importorskip("efficientnet_lite_pytorch")
    write_files(tmp_path / "pictures", {f"{seed}.png": picture(seed, (64, 64)) for seed in range(30)})
    rows = [f"{seed}.png,{'ab'[seed % 2]}" for seed in range(8)]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *rows]))
    command = [sys.executable, "-m", "bench.own_pictures", "fit", "pictures", "--labels", "labels.csv", "--steps", "2"]
    environment = {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    counts = {name: count for name, (count, _) in json.loads((tmp_path / "counts.json").read_text()).items()}
    assert counts == dict.fromkeys(COUNTED, 1) | {"config file read": 0, "weights loaded": 0}
