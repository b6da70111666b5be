"""Runs in tests."""

from typing import Any

import torch

from surelabel.config.run import RunConfig
from surelabel.data.source import DataSet
from surelabel.inference.trained_run import fit
from surelabel.methods.base import Pool, StepLoader
from surelabel.training import build, build_data
from surelabel.training.run_folder import RunFolder
from surelabel.training.state import TrainState

POOL = Pool(100, torch.tensor([2, 1, 1]))  # for methods that remember nothing of the data


def fit_folder(config: RunConfig, resume: bool = False, **options: Any) -> RunFolder:
    """Train, and return only the folder, so that the test reads what was written."""
    folder = fit(config, resume=resume, **options).folder
    assert folder is not None
    return folder


def initial_state(config: RunConfig, data: DataSet) -> TrainState:
    """The state of a resolved config before the first step."""
    network = build.build_network(config, build_data.task_of(data))
    labels = torch.from_numpy(data.train.labels[build_data.build_split(config, data)])
    pool = Pool(len(data.train), labels.bincount(minlength=len(data.classes)))
    return build.build_state(config, network, build.build_method(config), pool)


def loader_of(config: RunConfig, data: DataSet) -> StepLoader:
    """The loader of a resolved config, with the labels that its seed draws."""
    return build.build_loader(config, data, build_data.build_split(config, data))
