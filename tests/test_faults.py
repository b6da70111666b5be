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

import pytest
from rich.console import Console

from surelabel.config import Teacher
from surelabel.fit import fit
from surelabel.settings import to_yaml

LONG = "SURELABEL_FAULTS" in os.environ
METHODS = ["bam-uda+ema", "fixmatch", "paws+swa", "bam-paws"] if LONG else ["bam-uda+ema"]
CASES = 20 if LONG else 1
FILES = ("weights.safetensors", "weights-raw.safetensors", "metrics.jsonl", "result.json")


def start(config, folder):
    command = [sys.executable, "-m", "surelabel.cli", "fit", "--config", str(config), "--out", str(folder)]
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


@pytest.mark.parametrize("method", METHODS)
def test_a_run_killed_at_a_random_moment_ends_byte_for_byte_as_one_that_was_not(tiny, tmp_path, method):
    run = replace(tiny, method=method, steps=60 if LONG else 20, teacher=Teacher(onset=0.5))
    run = replace(run, evaluation=replace(run.evaluation, every=5, samples=20), out=str(tmp_path / "whole"))
    config = tmp_path / "run.yaml"
    config.write_text(to_yaml(replace(run, out=None)))
    begun = time.monotonic()
    fit(run, console=Console(quiet=True))
    when = moments(time.monotonic() - begun + 4, random.Random(method)) if LONG else iter([writing(2)])
    killed = equal = 0
    for number, now in zip(range(CASES), when, strict=False):
        folder = tmp_path / str(number)
        killed += kill(start(config, folder), lambda folder=folder, now=now: now(folder))
        begun = (folder / "config.yaml").exists()
        fit(replace(run, out=str(folder)), resume=begun, console=Console(quiet=True))
        equal += all((tmp_path / "whole" / name).read_bytes() == (folder / name).read_bytes() for name in FILES)
        assert not list(folder.glob(".checkpoint*"))
    print(f"{method}: {killed} of {CASES} runs killed, {equal} of {CASES} equal to the uninterrupted one")
    assert killed > 0
    assert equal == CASES
