from dataclasses import replace

import pytest

from surelabel.config import settings
from surelabel.config.recipes import recipe
from surelabel.config.run import RunConfig
from surelabel.studies import plan
from surelabel.studies.catalogue import STUDIES
from surelabel.studies.plan import Cell, Job, changed, diff, folder_name, job_key, jobs_of, key_of, settings_of

RUN = recipe("fixmatch", "cifar10", 250)


def test_key_ignores_the_machine():
    elsewhere = replace(RUN, out="x", data_dir="y", threads=3, device="cpu", devices=1)
    assert job_key(Job(elsewhere)) == job_key(Job(RUN))
    for other in (
        replace(RUN, seed=1),
        replace(RUN, init="run"),
        replace(RUN, steps=7),
        changed(RUN, {"optimizer.lr": 0.1}),
    ):
        assert job_key(Job(other)) != job_key(Job(RUN))
    assert job_key(Job(RUN, finetune=0.02)) != job_key(Job(RUN))


def test_key_ignores_an_explicit_default():
    assert job_key(Job(changed(RUN, {"selection.threshold": 0.95}))) == job_key(Job(RUN))
    assert job_key(Job(changed(RUN, {"selection.threshold": 0.9}))) != job_key(Job(RUN))


def test_key_ignores_settings_that_the_method_does_not_read():
    assert job_key(Job(changed(RUN, {"head.samples": 3, "paws.width": 7}))) == job_key(Job(RUN))
    bayesian = recipe("bam-fixmatch", "cifar10", 250)
    assert job_key(Job(changed(bayesian, {"head.samples": 3}))) != job_key(Job(bayesian))


def test_key_ignores_new_settings_and_number_formats():
    known = settings_of(Job(RUN))
    assert key_of(known | {"network.added_later": None}) == key_of(known)
    older = {key: value for key, value in known.items() if key != "network.norm"}
    assert key_of(older) == key_of(known)
    assert key_of(known | {"labels": "250", "steps": float(RUN.steps)}) == key_of(known)
    assert key_of(known | {"network.norm": "group"}) != key_of(known)


def test_key_is_the_same_in_every_version():
    """If this fails, all committed results would be run again."""
    assert job_key(Job(RUN)) == "97b8555a46caab49"


def test_key_of_a_stored_config_is_that_of_the_run(tmp_path):
    from surelabel.training.build import resolve

    settings.write_yaml(resolve(RUN), tmp_path / "config.yaml")
    assert key_of(settings.read_yaml(tmp_path / "config.yaml")) == job_key(Job(RUN))


def test_jobs_of_orders_by_turn_seed_and_dependency():
    one, two = Job(RUN), Job(replace(RUN, steps=7))
    cells = [
        Cell("late", "", (("", Job(RUN, finetune=0.1)),), seeds=1, turn=1),
        Cell("a", "", (("", one),), seeds=2),
        Cell("b", "", (("", two), ("same", one)), seeds=1),
    ]
    jobs = jobs_of(cells)
    assert jobs == [one, two, one.seeded(1), Job(RUN, finetune=0.1)]
    assert [job.config.seed for job in jobs_of(cells[1:2], seeds=3)] == [0, 1, 2]
    head = jobs_of(cells[:1])
    assert head == [Job(RUN), Job(RUN, finetune=0.1)]
    assert head[1].before == head[0]


def test_changed_replaces_nested_settings_only():
    made = changed(RunConfig(), {"steps": 5, "optimizer.lr": 0.1, "optimizer.momentum": 0.5})
    assert (made.steps, made.optimizer.lr, made.optimizer.momentum) == (5, 0.1, 0.5)
    assert replace(made, steps=RunConfig().steps, optimizer=RunConfig().optimizer) == RunConfig()
    with pytest.raises((TypeError, AttributeError)):
        changed(RunConfig(), {"optimizer.rate": 1})


def test_job_key_is_the_key_of_all_settings():
    for study in STUDIES.values():
        for job in jobs_of(study.cells("laptop"), seeds=2)[::9]:
            assert key_of(settings_of(job)) == job_key(job), job.name


def test_diff_names_differences():
    other = settings_of(Job(changed(RUN, {"optimizer.lr": 0.1, "head.samples": 3})))
    assert diff(settings_of(Job(RUN)), other) == ["optimizer.lr (0.03, 0.1)"]


def test_folder_name_is_readable_and_unique():
    assert folder_name(Job(RUN)) == f"fixmatch-cifar10-250-seed0-{job_key(Job(RUN))}"
    assert "/" not in folder_name(Job(replace(RUN, data="/a/b.npz", labels="10%")))
    assert plan.Job(RUN).name == "fixmatch on cifar10 with 250 labels, seed 0"
