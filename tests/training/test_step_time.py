from dataclasses import replace

import pytest

from surelabel.training import build, build_data, fit, step_time
from surelabel.training.step_time import seconds_per_step, steps_in


def test_seconds_per_step_is_the_median_without_the_first(tiny, digits_data, monkeypatch):
    config = build.resolve(tiny)
    loader = build.build_loader(config, digits_data, build_data.build_split(config, digits_data))
    clock = iter([0, 100, 100, 103, 110, 111, 120, 122, 130, 139, 140, 142])
    monkeypatch.setattr(step_time.time, "perf_counter", lambda: next(clock))
    assert seconds_per_step(config, digits_data, loader) == 2


@pytest.mark.parametrize(("minutes", "seconds", "steps"), [(10, 0.1, 5100), (0.01, 1, 50), (1, 0.051, 1000)])
def test_steps_in_leaves_time_to_evaluate(minutes, seconds, steps):
    assert steps_in(minutes, seconds) == pytest.approx(steps, abs=1)


def test_fit_minutes_set_the_steps(tiny, monkeypatch):
    monkeypatch.setattr(fit, "seconds_per_step", lambda *_: 0.01)
    monkeypatch.setattr(step_time, "FEWEST", 8)
    trained = fit.fit(replace(tiny, evaluation=replace(tiny.evaluation, every=0.5)), minutes=0.0025)
    assert trained.config.steps == 12
    assert [row["step"] for row in trained.folder.history()] == [6, 12]
