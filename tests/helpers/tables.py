"""CSV files, and runs on tables."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

from surelabel.config.run import Evaluation, Network, RunConfig, Views


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table_run(data: Path, out: Path, **changes: Any) -> RunConfig:
    """A supervised run of one step on a table."""
    config = RunConfig(
        data=str(data), out=str(out), labels=20, steps=1, threads=1, device="cpu", method="supervised",
        network=Network("mlp-1-8"), views=Views("noise", "noise", "corrupt"), evaluation=Evaluation(every=1000),
    )  # fmt: skip
    return replace(config, **changes)
