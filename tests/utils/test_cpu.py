import os
from dataclasses import replace

import pytest

from surelabel.training import build
from surelabel.utils import cpu as cores


@pytest.fixture
def bound_to_three(monkeypatch):
    """A process that may use three cores of a machine with many."""
    monkeypatch.delenv("SLURM_CPUS_ON_NODE", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 8}, raising=False)


@pytest.mark.usefixtures("bound_to_three")
def test_threads_default_to_the_cores_of_the_process(tiny):
    assert cores.available_cores() == 3
    assert build.resolve(replace(tiny, threads=None)).threads == 3
    assert build.resolve(replace(tiny, threads=7)).threads == 7


@pytest.mark.usefixtures("bound_to_three")
def test_cores_per_process_shares_unless_bound(monkeypatch):
    assert [cores.cores_per_process(processes) for processes in (1, 2, 3, 4)] == [3, 1, 1, 1]
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "12")  # of a job with four tasks, each bound to three
    assert cores.cores_per_process(4) == 3
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "3")  # of a job whose tasks are not bound
    assert cores.cores_per_process(3) == 1


def test_available_cores_without_affinity_are_all(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cores.available_cores() == 6
