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
from tests.helpers.runs import fit_folder

CASES = 20
FILES = ("weights.safetensors", "weights-raw.safetensors", "metrics.jsonl", "result.json")


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


def kill(process, now):
    """SIGKILL as soon as `now` says so; False where the run ended before."""
    while process.poll() is None:
        if now():
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.0005)
    return False


def moments(seconds, chance):
    """When to kill a run: at any moment, and, by turns, in the middle of writing one of its checkpoints."""
    while True:
        moment = time.monotonic() + chance.uniform(0, seconds)
        yield lambda folder, moment=moment: time.monotonic() > moment
        yield writing(chance.randrange(12))


def writing(left):
    """Says when so many checkpoints have been begun, and one more."""
    seen = set()

    def now(folder):
        seen.update(folder.glob(".checkpoint.pt.*"))
        return len(seen) > left

    return now


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
    return all((Path(run.out) / name).read_bytes() == (folder / name).read_bytes() for name in FILES)


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
    killed = equal = 0
    for number, now in zip(range(CASES), when, strict=False):
        folder = tmp_path / str(number)
        killed += kill(start(config, folder), lambda folder=folder, now=now: now(folder))
        equal += ends_alike(run, folder)
    print(f"{method}: {killed} of {CASES} runs killed, {equal} of {CASES} equal to the uninterrupted one")
    assert killed > 0
    assert equal == CASES
