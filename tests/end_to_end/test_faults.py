"""A run that is killed ends, byte for byte, as one that never was, once it was resumed.

`make faults` does this twenty times for each of several methods; the tests do so once, in the middle of writing a
checkpoint.
"""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from surelabel.config.run import Teacher
from surelabel.config.settings import to_yaml
from tests.helpers.faults import equal, half_written, kill, moments
from tests.helpers.runs import fit_folder

CASES = 20


# The command line, but for its end in the middle of writing its third checkpoint.
DYING = """
import os, signal, sys
from surelabel.training import checkpoints
from surelabel.cli.main import main

digest, calls = checkpoints._digest, []

def dying(content):
    calls.append(None)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return digest(content)

checkpoints._digest = dying
sys.exit(main())
"""


def start(config, folder, program="from surelabel.cli.main import main; main()"):
    command = [sys.executable, "-c", program, "fit", "--config", str(config), "--out", str(folder)]
    return subprocess.Popen([*command, "--resume", "auto"], stdout=subprocess.DEVNULL)


def whole_run(tiny, tmp_path, method, steps):
    """A run that nobody killed, and its settings as a file."""
    run = replace(tiny, method=method, steps=steps, teacher=Teacher(onset=0.5))
    run = replace(run, evaluation=replace(run.evaluation, every=5, samples=20), out=str(tmp_path / "whole"))
    config = tmp_path / "run.yaml"
    config.write_text(to_yaml(replace(run, out=None)))
    fit_folder(run, console=Console(quiet=True))
    return run, config


def ends_alike(run, folder):
    """Go on with the run in this folder: does it end as the one that nobody killed?"""
    begun = (folder / "config.yaml").exists()
    fit_folder(replace(run, out=str(folder)), resume=begun, console=Console(quiet=True))
    assert not list(folder.glob(".checkpoint*"))
    return equal(folder, Path(run.out))


@pytest.mark.slow
def test_run_killed_while_saving_ends_the_same(tiny, tmp_path):
    run, config = whole_run(tiny, tmp_path, "bam-uda+ema", 20)
    folder = tmp_path / "killed"
    assert start(config, folder, DYING).wait() == -signal.SIGKILL
    assert len(list(folder.glob(".checkpoint.pt.*"))) == 1
    assert ends_alike(run, folder)


@pytest.mark.skipif("SURELABEL_FAULTS" not in os.environ, reason="some minutes: `make faults`")
@pytest.mark.parametrize("method", ["bam-uda+ema", "fixmatch", "paws+swa", "bam-paws"])
def test_run_killed_at_random_ends_the_same(tiny, tmp_path, method):
    begun = time.monotonic()
    run, config = whole_run(tiny, tmp_path, method, 60)
    when = moments(time.monotonic() - begun + 4, random.Random(method))
    killed = alike = 0
    for number, now in zip(range(CASES), when, strict=False):
        folder = tmp_path / str(number)
        killed += kill(start(config, folder), lambda folder=folder, now=now: now(folder))
        assert half_written(folder) == []
        alike += ends_alike(run, folder)
    print(f"{method}: {killed} of {CASES} runs killed, {alike} of {CASES} equal to the uninterrupted one")
    assert killed > 0
    assert alike == CASES
