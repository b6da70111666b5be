"""A run read back from its folder: its network, its data, its figures computed anew. Nothing here trains."""

from pathlib import Path
from typing import Any

import torch

from surelabel.data.source import DataSet, Source
from surelabel.inference.bound import Bound, bound
from surelabel.models.network import Network
from surelabel.training import build, build_data, evaluate
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.training.run_folder import AVERAGED, RAW, RunFolder
from surelabel.utils import cpu as cores
from surelabel.utils import devices
from surelabel.utils.errors import UserError


def load_network(folder: RunFolder, weights: str = AVERAGED, own: Components = NO_COMPONENTS) -> Network:
    """The network of a run with its averaged weights, or its `RAW` ones."""
    run = folder.config
    torch.set_num_threads(min(run.threads or 1, cores.available_cores()))  # it may have been made on a larger machine
    network = build.build_network(run, folder.task(), own).to(devices.resolve_device("auto"))
    try:
        network.load_state_dict(folder.weights(weights))
    except RuntimeError as error:
        raise UserError(f"{folder.path}: the weights do not fit the configuration beside them: {error}") from error
    return network.eval()


def evaluate_run(path: str | Path, own: Components = NO_COMPONENTS) -> dict[str, Any]:
    """The figures of a run on its whole test set, computed anew from its weights."""
    folder = RunFolder(path)
    data, test = _tested(folder, own)
    network, raw = load_network(folder, own=own), load_network(folder, RAW, own)
    return evaluate.final_metrics(network, raw, test, folder.config, data.train)


def bound_of_run(path: str | Path, variance: float, delta: float, own: Components = NO_COMPONENTS) -> Bound:
    """The paper's generalisation bound for the averaged weights of a run."""
    folder = RunFolder(path)
    data, test = _tested(folder, own)
    return bound(load_network(folder, own=own), data.train, folder.labelled(), test, variance, delta)


def data_of(folder: RunFolder, own: Components = NO_COMPONENTS) -> DataSet:
    """The data that a run was made with, or a `UserError` where they have changed since."""
    data, _ = build_data.load_data(folder.config, own)
    folder.check_same_data(build_data.task_of(data), build_data.fingerprint(data))
    return data


def _tested(folder: RunFolder, own: Components) -> tuple[DataSet, Source]:
    """The data that a run was made with, and its test set."""
    data = data_of(folder, own)
    if data.test is None:
        raise UserError(
            f"{folder.config.data} has no test set to evaluate on: give data with labels, by "
            f"surelabel evaluate {folder.path} DATA"
        )
    return data, data.test
