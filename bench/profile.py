"""Where the time of a step goes: shares of the thread's time by kind of work, one thread.

FixMatch on WRN-10-2 and PAWS at laptop size, FixMatch on WRN-28-2 and on 1,280 features, `sure` on these; in the
precision that `auto` gives here. What is left is loss, selection and what torch does between the operations.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from bench.step import RUN, noise_data, noise_rows
from bench.timing import Row
from surelabel.config.recipes import recipe, table
from surelabel.config.run import Network, RunConfig
from surelabel.data.source import DataSet
from surelabel.methods.base import Pool
from surelabel.training import build, build_data
from surelabel.training.loop import training_step

WARM, STEPS = 2, 5
KINDS: Mapping[str, tuple[str, ...]] = {
    "convolutions": ("aten::mkldnn_convolution", "aten::convolution_backward", "aten::_slow_conv2d_forward"),
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"),
    "norms": ("aten::native_batch_norm", "aten::native_batch_norm_backward"),
    "activations": ("aten::leaky_relu_", "aten::leaky_relu_backward", "aten::relu", "aten::threshold_backward"),
}


def run() -> list[Row]:
    torch.set_num_threads(1)
    images, rows = noise_data(2000), noise_rows(2000, 1280)
    features = replace(table("fixmatch", "custom"), network=Network("mlp-1-256", norm_momentum=0.1))
    return [
        *_shares("WRN-10-2", images, recipe("fixmatch", "cifar10", 250)),
        *_shares("WRN-28-2", images, RUN),
        *_shares("PAWS", images, recipe("paws", "cifar10", 250)),
        *_shares("features", rows, features),
        *_shares("sure", rows, table("sure", "custom")),
    ]


def _shares(name: str, data: DataSet, config: RunConfig) -> list[Row]:
    config = build.resolve(replace(config, data="custom", labels=100, device="cpu", threads=1))
    method = build.build_method(config, len(data.train))
    loader = build.build_loader(config, data, build_data.build_split(config, data))
    network = build.build_network(config, build_data.task_of(data))
    method.before_training(network, loader)
    state = build.build_state(config, network, method, Pool.of(loader))
    network.train()

    def step() -> None:
        with record_function("views"):
            batch = loader(state.step)
        training_step(method, network, state, batch, torch.autograd.backward, config.precision)

    for _ in range(WARM):
        step()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(STEPS):
            step()
    events = found.key_averages()
    whole = sum(event.self_cpu_time_total for event in events)
    spent = {kind: sum(e.self_cpu_time_total for e in events if e.key in names) for kind, names in KINDS.items()}
    spent["views"] = sum(event.cpu_time_total for event in events if event.key == "views")
    spent["optimizers"] = sum(e.cpu_time_total for e in events if e.key.startswith("Optimizer.step"))
    spent["the rest"] = whole - sum(spent.values())
    shown = [Row(f"{name}: {kind}", 100 * time / whole, "% of a step") for kind, time in spent.items() if time]
    return [Row(f"{name}: a step", whole / STEPS / 1000, "ms"), *shown]
