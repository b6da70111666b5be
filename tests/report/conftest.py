"""Small runs on the digits, with awkward class names."""

import io
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from tests.conftest import digits, tiny_run
from tests.helpers.runs import fit_folder

NAMES = (
    "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "\"quoted\" & 'single'", "{{ 7 * 7 }}",
    "$x^2$ \\alpha", "five", "six", "a name " + "that goes on " * 6, "Ünïcode ☂", "nine",
)  # fmt: skip


def digits_with_names(path, test=True):
    images, labels = digits()
    held = {"test_images": images[1200:], "test_labels": labels[1200:]} if test else {}
    np.savez(path, images=images[:1200], labels=labels[:1200], classes=np.array(NAMES), **held)
    return path


def trained(config):
    """The folder of a run, trained without output."""
    return fit_folder(config, console=Console(file=io.StringIO())).path


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    config = tiny_run(digits_with_names(root / "digits.npz"), root / "fixmatch")
    return replace(config, evaluation=replace(config.evaluation, samples=None))  # enough for an ECE


@pytest.fixture(scope="session")
def point_run(base):
    return trained(base)


@pytest.fixture(scope="session")
def bayesian_run(base):
    return trained(replace(base, method="bam-uda", out=base.out.replace("fixmatch", "bam-uda")))


@pytest.fixture(scope="session")
def untested_run(base, tmp_path_factory):
    root = tmp_path_factory.mktemp("untested")
    data = digits_with_names(root / "alone.npz", test=False)
    return trained(replace(base, data=str(data), out=str(root / "untested"), steps=4))


@pytest.fixture
def copied(tmp_path):
    """Copies a run folder."""
    return lambda run: shutil.copytree(run, tmp_path / run.name)


@pytest.fixture
def unfinished(point_run, copied):
    folder = copied(point_run)
    (folder / "result.json").unlink()
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:-1]))
    assert json.loads(lines[-2])["step"] == 8
    return folder
