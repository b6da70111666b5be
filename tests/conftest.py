"""Real images small enough for tests: scikit-learn's digits, 8×8 pixels in one channel."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from surelabel.config.run import Average, Batch, Evaluation, Network, Paws, RunConfig
from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.data.source import DataSet

pytest_plugins = ["tests.helpers.storages"]

# A busy machine makes no test wrong.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# Two test processes share two cores; more threads only get in each other's way, here and in the processes they start.
torch.set_num_threads(1)
threadpool_limits(1)
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"}
PATIENCE = 600  # seconds to wait for another process, on however busy a machine


@pytest.fixture(autouse=True)
def one_thread():
    """Whatever a test sets, the next one begins with one thread."""
    yield
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Tests leave nothing in the user's cache."""
    os.environ["SURELABEL_CACHE"] = str(tmp_path_factory.mktemp("cache"))


def digits() -> tuple[np.ndarray, np.ndarray]:
    images, labels = load_digits(return_X_y=True)
    return (images * 15.9).astype(np.uint8).reshape(-1, 1, 8, 8), labels.astype(np.int64)


@pytest.fixture(scope="session")
def digits_data() -> DataSet:
    images, labels = digits()
    classes = [str(digit) for digit in range(10)]
    train = ArraySource(images[:1400], labels[:1400], classes)
    return user_data_set("digits", train, ArraySource(images[1400:], labels[1400:], classes))


@pytest.fixture(scope="session")
def digits_file(tmp_path_factory) -> Path:
    images, labels = digits()
    path = tmp_path_factory.mktemp("digits") / "digits.npz"
    np.savez(path, images=images[:1400], labels=labels[:1400], test_images=images[1400:], test_labels=labels[1400:])
    return path


def tiny_run(data: Path, folder: Path) -> RunConfig:
    return RunConfig(
        data=str(data), labels=40, steps=12, out=str(folder), threads=1, device="cpu", precision="32",
        batch=Batch(8, 2), network=Network("wrn-10-1", norm_momentum=0.1),
        paws=Paws(8, per_class=2, view="crops", small_crops=2, small_size=4, width=16),
        average=Average(0.9, warm=True, buffers="average"), evaluation=Evaluation(every=4, samples=100),
    )  # fmt: skip


@pytest.fixture
def tiny(digits_file, tmp_path) -> RunConfig:
    """A run of some seconds."""
    return tiny_run(digits_file, tmp_path / "run")


def signalled(step: int, number: int) -> str:
    """A program that is the command line, but for a signal that each of its processes gets after this step."""
    return f"""
import os, sys
from surelabel.cli.main import main
from surelabel.training.display import Display

shown = Display.step

def step(self, now):
    shown(self, now)
    if now == {step}:
        os.kill(os.getpid(), {int(number)})

Display.step = step
sys.exit(main())
"""
