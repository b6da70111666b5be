"""How long runs will take: by records of such runs, by the work of a run, and by the speed of the machine."""

import subprocess
import sys

import pytest

from surelabel.studies import run_time as estimate
from surelabel.studies.cells import run_of
from surelabel.studies.plan import Job, changed, settings_of
from surelabel.studies.run_time import Clock


def record(job, seconds, **more):
    return {"seconds": seconds, "config": settings_of(job), **more}


JOB = Job(run_of("fixmatch", "cifar10-250", "laptop"))


def test_without_records_an_estimate_follows_the_steps_the_network_and_the_machine():
    plain = Clock().seconds(JOB)
    longer = Job(changed(JOB.run, {"steps": 2000, "evaluation.every": 50}))
    assert Clock().seconds(longer) == pytest.approx(2 * plain, rel=0.1)
    assert Clock(speed=2).seconds(JOB) == pytest.approx(plain / 2)
    assert Clock().seconds(Job(changed(JOB.run, {"network.name": "wrn-28-2"}))) > 2 * plain
    assert Clock().seconds(Job(run_of("supervised", "cifar10-250", "laptop"))) < plain / 3
    assert Clock().total([JOB, JOB.seeded(1)]) == pytest.approx(2 * plain)


def test_what_such_runs_took_counts_by_the_speed_of_their_machine_and_of_this_one():
    """Runs that do not say how quick their machine was were made on the one of reference."""
    assert Clock([record(JOB, 77.0)]).seconds(JOB) == 77
    assert Clock([record(JOB, 77.0)], speed=2).seconds(JOB) == pytest.approx(77 / 2)
    assert Clock([record(JOB, 77.0, speed=2.0)], speed=2).seconds(JOB) == pytest.approx(77)
    assert Clock([record(JOB, 60.0, speed=0.5), record(JOB, 10.0, speed=3.0)]).seconds(JOB) == pytest.approx(30)


def test_other_runs_correct_an_estimate_those_of_the_same_method_first():
    other = Job(run_of("fixmatch", "phc-10", "laptop"))
    another = Job(run_of("uda", "phc-10", "laptop"))
    plain = {job: Clock().seconds(job) for job in (JOB, other, another)}
    twice, thrice = record(other, 2 * plain[other]), record(another, 3 * plain[another])
    assert Clock([twice, thrice]).seconds(JOB) == pytest.approx(2 * plain[JOB])
    assert Clock([thrice]).seconds(JOB) == pytest.approx(3 * plain[JOB])
    assert Clock([record(other, 2 * plain[other], speed=3.0)], speed=3).seconds(JOB) == pytest.approx(2 * plain[JOB])


def test_fine_tuning_is_a_kind_of_its_own():
    paws = Job(run_of("paws", "fashion-mnist-400", "laptop"))
    tuned = Job(paws.run, finetune=0.05)
    assert Clock([record(paws, 300.0)]).seconds(tuned) == pytest.approx(30)
    assert Clock([record(paws, 300.0), record(tuned, 20.0)]).seconds(tuned) == 20
    assert Clock([record(tuned, 20.0)]).seconds(paws) == Clock().seconds(paws)


@pytest.mark.parametrize("speed", [0.5, 1.0, 4.0])
def test_the_speed_of_this_machine_is_that_of_its_quickest_convolution_and_the_threads_stay(monkeypatch, speed):
    import torch

    threads = torch.get_num_threads()
    took = estimate.CONVOLUTION_SECONDS / speed
    # Two readings for each convolution: the fifth takes `took`, the others three times as long.
    readings = iter([at for number in range(1000) for at in (0.0, took if number == 4 else 3 * took)])
    monkeypatch.setattr(estimate.time, "thread_time", lambda: next(readings))
    estimate.speed_here.cache_clear()
    try:
        assert estimate.speed_here() == pytest.approx(speed)
    finally:
        estimate.speed_here.cache_clear()
    assert torch.get_num_threads() == threads


def test_the_help_of_a_study_does_without_torch():
    program = (
        "import sys; from surelabel.cli import study as command; from surelabel.studies import worker, run_time\n"
        "try: command.main(['--help'])\nexcept SystemExit: print('torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == "False"


@pytest.mark.parametrize(("benchmark", "classes"), [("cifar10-250", 10), ("cifar100-400", 100), ("phc-10", 5)])
def test_a_support_set_has_images_of_every_class_of_the_data_or_of_as_many_as_are_asked_for(benchmark, classes):
    paws = changed(run_of("paws", benchmark, "paper"), {"paws.classes": None})
    more = changed(paws, {"paws.per_class": paws.paws.per_class + 1})
    assert estimate.images_of(more) - estimate.images_of(paws) == classes * paws.paws.support_views
    fewer = {"paws.classes": 3}
    difference = estimate.images_of(changed(more, fewer)) - estimate.images_of(changed(paws, fewer))
    assert difference == 3 * paws.paws.support_views


def test_the_work_of_a_network_is_that_of_its_convolutions():
    """Counted by hooks on the network itself, as multiplications of 3×3 convolutions."""
    import torch
    from torch import nn

    from surelabel.config.run import Network
    from surelabel.models.backbones import backbone

    for name, side in (("wrn-10-2", 16), ("wrn-16-1", 32)):
        counted = []

        def count(module, _, output, counted=counted):
            if module.kernel_size == (3, 3):
                counted.append(output.shape[2] * output.shape[3] * module.weight.numel())

        network = backbone(Network(name), (3, side, side))
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_hook(count)
        with torch.no_grad():
            network(torch.zeros(2, 3, side, side))
        assert estimate._multiplications(name, side) == pytest.approx(sum(counted))
