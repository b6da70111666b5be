"""Every method still computes the numbers in tests/methods/fixtures/golden.json.

A change that is meant to change numbers remakes the fixture, and its commit says why:

    python -m tests.methods.test_golden
"""

import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from rich.console import Console

import surelabel
from surelabel.config.methods import ON_FEATURES, find, names
from surelabel.config.run import Evaluation, Head, RunConfig, Selection
from surelabel.config.run import Network as NetworkSettings
from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.models.network import Network
from surelabel.training import build
from surelabel.training.components import Components
from tests.conftest import digits, tiny_run

GOLDEN = Path(__file__).parent / "fixtures" / "golden.json"
# Sure's teachers come from iterative solvers, which stop elsewhere on another processor.
METHODS = [name for name in names() if name not in ON_FEATURES]
ACCEPT_ALL = ("pi-model", "mean-teacher", "flexmatch")  # FlexMatch until it has seen most of the pool
METRICS = (
    "accuracy",
    "nll",
    "labelled_loss",
    "unlabelled_loss",
    "prior_loss",
    "me_max_loss",
    "fairness_loss",
    "acceptance",
    "purity",
)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_golden_numbers_are_unchanged(method):
    # Processors differ by about 1e-12; a learning rate that is off by 1e-6 fails.
    assert measure(method) == pytest.approx(json.loads(GOLDEN.read_text())[method], rel=1e-9, abs=1e-12)


def test_golden_runs_accept_some_pseudo_labels_but_not_all():
    """Otherwise the numbers would not depend on the selection."""
    for method, numbers in json.loads(GOLDEN.read_text()).items():
        if not any(part in method for part in ("paws", "supervised", *ACCEPT_ALL)):
            assert 0.1 < numbers["acceptance"] < 0.9, method


def measure(method: str) -> dict[str, float]:
    """Train 40 steps in float64: two random projections of all weights, and the last evaluation."""
    images, labels = digits()
    sources = [
        ArraySource(images[rows], labels[rows], [str(digit) for digit in range(10)])
        for rows in (slice(1400), slice(1400, None))
    ]
    components = Components(user_data_set("digits", *sources))
    with mock.patch.object(build, "build_network", rounded_network):
        run = surelabel.fit(golden_config(method), components=components, save=False, console=Console(quiet=True))
    weights = torch.cat([tensor.double().flatten() for tensor in run.network.state_dict().values()]).numpy()
    projections = np.random.default_rng(0).standard_normal((2, len(weights))) @ weights
    numbers = {"projection_0": projections[0], "projection_1": projections[1]}
    numbers |= {name: run.history[-1].get(name) for name in METRICS}
    return {name: float(value) for name, value in numbers.items() if value is not None}


def rounded_network(*arguments, build_network=build.build_network) -> Network:
    """Round the initial weights to 0.05: torch draws them in float32, differently on each processor."""
    network = build_network(*arguments)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_((parameter * 20).round() / 20)
    return network


def golden_config(method: str) -> RunConfig:
    """A config whose thresholds let some pseudo-labels through within 40 steps."""
    read = find(method).reads
    by_confidence = "selection.threshold" in read or method.startswith("supervised")
    threshold = 1.0 if "adamatch" in method else 0.5
    return replace(
        tiny_run(Path("digits"), Path("unused")), method=method, precision="64", steps=40,
        network=NetworkSettings("wrn-10-1", stem_stride=2, norm_momentum=0.1),
        selection=Selection(
            threshold=threshold if by_confidence else None, warmup=20, decay=0.5 if "selection.decay" in read else None
        ),
        head=Head(samples=10), evaluation=Evaluation(every=20, samples=100),
    )  # fmt: skip


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({method: measure(method) for method in METHODS}, indent=1) + "\n")
