"""Small runs on the digits, whose classes have the most awkward names there are."""

import io
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from sklearn.datasets import load_digits

from surelabel.config.run import Average, Batch, Evaluation, Network, RunConfig
from tests.helpers.runs import fit_folder

NAMES = (
    "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "\"quoted\" & 'single'", "{{ 7 * 7 }}",
    "$x^2$ \\alpha", "five", "six", "a name " + "that goes on " * 6, "Ünïcode ☂", "nine",
)  # fmt: skip


def digits_with_names(path, test=True):
    images, labels = load_digits(return_X_y=True)
    images = (images * 15.9).astype(np.uint8).reshape(-1, 8, 8)
    held = {"test_images": images[1400:], "test_labels": labels[1400:]} if test else {}
    np.savez(path, images=images[:1400], labels=labels[:1400], classes=np.array(NAMES), **held)
    return path


def trained(run):
    """The folder of a run that was trained without a word."""
    return fit_folder(run, console=Console(file=io.StringIO())).path


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    return RunConfig(
        data=str(digits_with_names(root / "digits.npz")), labels=40, steps=12, out=str(root / "fixmatch"), threads=1,
        device="cpu", batch=Batch(8, 2), network=Network("wrn-10-1", norm_momentum=0.1),
        average=Average(0.9, warm=True, buffers="average"), evaluation=Evaluation(every=4, samples=100),
    )  # fmt: skip


@pytest.fixture(scope="session")
def point_run(base):
    return trained(base)


@pytest.fixture(scope="session")
def bayesian_run(base):
    return trained(replace(base, method="bam-uda", out=base.out.replace("fixmatch", "bam-uda")))


@pytest.fixture(scope="session")
def untested_run(base, tmp_path_factory):
    root = tmp_path_factory.mktemp("untested")
    return trained(
        replace(base, data=str(digits_with_names(root / "alone.npz", test=False)), out=str(root / "untested"), steps=4)
    )


@pytest.fixture
def copied(tmp_path):
    """Copies a run folder, to be changed."""
    return lambda run: shutil.copytree(run, tmp_path / run.name)


@pytest.fixture
def unfinished(point_run, copied):
    folder = copied(point_run)
    (folder / "result.json").unlink()
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:-1]))
    assert json.loads(lines[-2])["step"] == 8
    return folder
