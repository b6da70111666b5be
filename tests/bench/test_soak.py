"""The soak notices what it is there to notice."""

import random
from dataclasses import replace

import pytest

from bench.soak import FAULTS, Run, Soak, _codes, contents
from tests.helpers.faults import equal, half_written
from tests.helpers.runs import fit_folder


@pytest.fixture
def finished(tiny):
    return fit_folder(replace(tiny, steps=4)).path


@pytest.mark.parametrize("name", ["weights.safetensors", "checkpoint.pt", "metrics.jsonl", "config.yaml", "task.json"])
def test_half_written_files_are_noticed(finished, name):
    assert half_written(finished) == []
    content = (finished / name).read_bytes()
    (finished / name).unlink()  # the best checkpoint is a link to the same file
    (finished / name).write_bytes(content[: len(content) - 7])
    (found,) = half_written(finished)
    assert found.startswith(name)


def test_a_folder_without_its_first_files_is_noticed(finished):
    (finished / "split.json").unlink()
    assert half_written(finished) == ["split.json"]
    assert half_written(finished / "absent") == []


def test_a_changed_run_is_noticed(finished, tmp_path, capsys):
    world = Soak(tmp_path, random.Random(0), small=False)
    world.runs.append(Run("fixmatch", finished, finished, contents(finished)))
    world.check()
    assert world.lost == []
    with (finished / "result.json").open("a") as file:
        file.write(" ")
    world.check()
    assert len(world.lost) == 1
    assert "has changed" in capsys.readouterr().out


def test_unequal_runs_are_noticed(tiny, finished, tmp_path):
    other = fit_folder(replace(tiny, steps=4, seed=1, out=str(tmp_path / "other"))).path
    assert equal(finished, finished)
    assert not equal(other, finished)
    (other / "weights.safetensors").unlink()
    assert not equal(other, finished)


def test_no_fault_excuses_a_crash():
    assert all(1 not in _codes(fault) for fault in FAULTS if fault != "memory")
    assert _codes("SIGTERM") == {0, 2, 143}
