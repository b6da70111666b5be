"""Two real processes, joined by gloo, do what one does."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.nn.parallel import DistributedDataParallel

from surelabel import build
from surelabel.config import Network, Optimizer
from surelabel.settings import to_yaml
from surelabel.share import Share
from surelabel.train import advance

METHODS = ["fixmatch", "bam-uda", "paws", "bam-paws+ema"]
STEPS = 20


def exact(tiny, method):
    """Nothing in it depends on how a batch is split: no BatchNorm, and float64."""
    network = Network("wrn-10-1", norm="group")
    lars = Optimizer(lr=0.2, nesterov=False, schedule="warmup-cosine")
    return build.resolve(
        replace(tiny, method=method, network=network, precision="64", optimizer=lars, forward=None, device="cpu")
    )


def losses(run, data, share, wrap):
    """The loss of each of the first steps, over the global batch, and the gradient of the first."""
    method = build.build_method(run, len(data.train))
    state = build.build_state(run, build.build_network(run, build.task_of(data)), method)
    loader = replace(build.build_loader(run, data, build.build_split(run, data)), share=share)
    model = wrap(state.network).train()
    found = []
    for _ in range(STEPS):
        of = advance(method, model, state, loader(state.step), torch.autograd.backward)
        found.append(share.sum(of.total.detach()).item() / share.of)
    return found, torch.cat([parameter.detach().flatten() for parameter in state.network.parameters()])


def one_of_two(rank, runs, data, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    for run in runs:
        found = losses(run, data, Share(rank, 2), DistributedDataParallel)
        torch.save(found, f"{folder}/{run.method}-{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Starts the two processes once for all methods."""
    return {}


def test_two_processes_have_the_losses_of_one(tiny, digits_data, tmp_path):
    runs = [exact(tiny, method) for method in METHODS]
    multiprocessing.spawn(one_of_two, (runs, digits_data, str(tmp_path)), nprocs=2)
    for run in runs:
        expected, weights = losses(run, digits_data, Share(), lambda network: network)
        for rank in (0, 1):
            found, theirs = torch.load(tmp_path / f"{run.method}-{rank}.pt", weights_only=True)
            np.testing.assert_allclose(found, expected, atol=1e-9, rtol=0, err_msg=run.method)
            torch.testing.assert_close(theirs, weights, atol=1e-9, rtol=0)
        assert max(expected) - min(expected) > 1e-3
