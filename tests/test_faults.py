"""A run that is killed ends, byte for byte, as one that never was, once it was resumed.

`make faults` does this twenty times for each of several methods; the tests do so twice for one.
"""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from surelabel.config import Teacher
from surelabel.settings import to_yaml

LONG = "SURELABEL_FAULTS" in os.environ
METHODS = ["bam-uda+ema", "fixmatch", "paws+swa", "bam-paws"] if LONG else ["bam-uda+ema"]
CASES = 20 if LONG else 2
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


@pytest.mark.parametrize("method", METHODS)
def test_a_run_killed_at_a_random_moment_ends_byte_for_byte_as_one_that_was_not(tiny, tmp_path, method):
    run = replace(tiny, method=method, steps=60, out=None, teacher=Teacher(onset=0.5))
    config = tmp_path / "run.yaml"
    config.write_text(to_yaml(replace(run, evaluation=replace(run.evaluation, every=5, samples=20))))
    begun = time.monotonic()
    assert start(config, tmp_path / "whole").wait() == 0
    seconds = time.monotonic() - begun
    chance, killed, equal = random.Random(method), 0, 0
    for number in range(CASES):
        folder = tmp_path / str(number)
        first = start(config, folder)
        if number % 2:
            # In the middle of writing one of the twelve checkpoints.
            left = chance.randrange(12)
            seen = set()

            def now(folder=folder, left=left, seen=seen):
                seen.update(folder.glob(".checkpoint.pt.*"))
                return len(seen) > left
        else:
            moment = time.monotonic() + chance.uniform(0, seconds)

            def now(moment=moment):
                return time.monotonic() > moment

        killed += kill(first, now)
        assert start(config, folder).wait() == 0
        equal += all((tmp_path / "whole" / name).read_bytes() == (folder / name).read_bytes() for name in FILES)
        assert not list(folder.glob(".checkpoint*"))
    print(f"{method}: {killed} of {CASES} runs killed, {equal} of {CASES} equal to the uninterrupted one")
    assert killed > 0
    assert equal == CASES
