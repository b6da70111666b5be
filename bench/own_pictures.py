"""The worked example of docs/pictures.md, with cold and with warm caches: how often each thing is done, and its time.

`surelabel fit` on 5,000 pictures runs in a process of its own, in which the functions below are counted and timed. The
data are read, the command line parsed, the pool predicted and the pretrained network loaded once each; with warm caches
no features are computed. Needs Fashion-MNIST and the extras `pretrained` and `report`.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from bench.timing import Row

COUNTED = {
    "command line parsed": "surelabel.cli.parser:Parser.parse",
    "config file read": "surelabel.config.settings:read_yaml",
    "data read": "surelabel.data.open:open_data",
    "pretrained network loaded": "surelabel.models.encoders.efficientnet:EfficientNetLite.__init__",
    "features computed": "surelabel.models.frozen_features:compute",
    "trained": "surelabel.training.session:train_and_save",
    "weights loaded": "surelabel.inference.trained_run:TrainedRun._load_network",
    "pool predicted": "surelabel.inference.trained_run:TrainedRun._predict",
    "accuracy estimated": "surelabel.inference.trust:left_out",
    "page written": "surelabel.inference.trained_run:TrainedRun.report",
}
EXPECTED = {"weights loaded": "0", "config file read": "0"}


def run() -> list[Row]:
    root = Path(__file__).parents[1]
    rows = []
    with tempfile.TemporaryDirectory(prefix="surelabel-pictures-") as folder:
        make = [sys.executable, str(root / "examples" / "make_pictures.py"), "pictures"]
        subprocess.run(make, cwd=folder, check=True, capture_output=True)
        for caches in ("cold", "warm"):
            words = ["fit", "pictures/all", "--labels", "pictures/labels.csv", "--out", f"runs/{caches}"]
            cache = os.environ | {"XDG_CACHE_HOME": str(Path(folder, "cache"))}
            start = time.perf_counter()
            child = [sys.executable, "-m", "bench.own_pictures", *words]
            subprocess.run(child, cwd=folder, env=cache | {"PYTHONPATH": str(root)}, check=True, capture_output=True)
            seconds = time.perf_counter() - start
            counts = json.loads(Path(folder, "counts.json").read_text())
            rows.append(Row(f"{caches}: all", seconds, "s"))
            for name, (count, spent) in counts.items():
                target = EXPECTED.get(name, "0" if count == 0 and caches == "warm" else "1")
                rows += [Row(f"{caches}: {name}", count, "times", target), Row(f"{caches}: {name}", spent, "s")]
    return rows


def count(words: list[str]) -> int:
    """Run a command with the functions counted, and write the counts and seconds to counts.json."""
    counts = {name: [0, 0.0] for name in COUNTED}
    for name, place in COUNTED.items():
        module, _, path = place.partition(":")
        owner: Any = importlib.import_module(module)
        *parts, attribute = path.split(".")
        for part in parts:
            owner = getattr(owner, part)
        original = getattr(owner, attribute)
        setattr(owner, attribute, _counted(original, counts[name]))
        # Modules that imported the function by name hold it too.
        for other in [*sys.modules.values()]:
            if getattr(other, "__name__", "").startswith("surelabel") and getattr(other, attribute, None) is original:
                setattr(other, attribute, getattr(owner, attribute))
    from surelabel.cli.main import main

    code = main(words)
    Path("counts.json").write_text(json.dumps(counts))
    return code


def _counted(function: Callable[..., Any], found: list[Any]) -> Callable[..., Any]:
    @wraps(function)
    def counted(*given: Any, **named: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*given, **named)
        finally:
            found[0] += 1
            found[1] += time.perf_counter() - start

    return counted


if __name__ == "__main__":
    sys.exit(count(sys.argv[1:]))
