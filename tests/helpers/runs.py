"""Runs in tests."""

from typing import Any

from surelabel.config.run import RunConfig
from surelabel.inference.trained_run import fit
from surelabel.training.run_folder import RunFolder


def fit_folder(config: RunConfig, resume: bool = False, **options: Any) -> RunFolder:
    """Train, and give the folder alone: nothing that training holds in memory can help what is tested."""
    folder = fit(config, resume=resume, **options).folder
    assert folder is not None
    return folder
