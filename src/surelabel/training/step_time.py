"""How long a step takes on this machine, and how many fit into a given time."""

import sys
import time
from statistics import median

import torch

from surelabel.config.run import RunConfig
from surelabel.data.source import DataSet
from surelabel.methods.base import Pool, StepLoader
from surelabel.training import build, build_data
from surelabel.training.components import NO_COMPONENTS, Components
from surelabel.training.loop import training_step

TIMED = 5
FEWEST = 50
TRAINING = 0.85  # share of the time; the rest is for evaluating and saving


def seconds_per_step(
    config: RunConfig, data: DataSet, loader: StepLoader, components: Components = NO_COMPONENTS
) -> float:
    """The median time of a few steps, on a network that is thrown away."""
    method = build.build_method(config, len(data.train))
    network = build.build_network(config, build_data.task_of(data), components)
    state = build.build_state(config, network, method, Pool.of(loader))
    model = state.network.train()
    times = []
    for step in range(TIMED + 1):
        start = time.perf_counter()
        losses = training_step(method, model, state, loader(step), torch.autograd.backward, config.precision)
        losses.total.item()  # waits for a GPU
        times.append(time.perf_counter() - start)
    return median(times[1:])  # the first warms up


def peak_memory(device: str) -> float:
    """The most memory so far, in GB: of the GPU, or of this process."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 1e9
    import resource  # not on Windows

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1e9 if sys.platform == "darwin" else 1e6)  # there in bytes, elsewhere in kilobytes


def steps_in(minutes: float, seconds: float) -> int:
    """How many steps of this many seconds fit into this many minutes, at least `FEWEST`."""
    return max(FEWEST, int(60 * TRAINING * minutes / seconds))
