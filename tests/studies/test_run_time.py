from surelabel.studies.cells import run_of
from surelabel.studies.plan import Job, changed, settings_of
from surelabel.studies.run_time import Clock


def record(job, seconds):
    return {"seconds": seconds, "config": settings_of(job)}


JOB = Job(run_of("fixmatch", "cifar10-250", "laptop"))
UDA = Job(run_of("uda", "cifar10-250", "laptop"))


def test_clock_takes_the_median_of_method_and_data_else_data():
    records = [record(JOB, 10.0), record(JOB.seeded(1), 70.0), record(JOB.seeded(2), 20.0), record(UDA, 99.0)]
    assert Clock(records).seconds(JOB.seeded(3)) == 20
    assert Clock(records[:3]).seconds(UDA) == 20
    assert Clock(records).total([JOB, JOB.seeded(1), UDA]) == 20 + 20 + 99


def test_clock_is_none_without_similar_runs():
    clock = Clock([record(JOB, 10.0)])
    assert clock.seconds(Job(run_of("fixmatch", "phc-10", "laptop"))) is None
    longer = Job(changed(JOB.config, {"steps": 1_000_000}))
    assert clock.seconds(longer) is None
    assert clock.total([JOB, longer]) is None
