from types import SimpleNamespace

import numpy as np
import pytest

from surelabel.cli.main import main
from surelabel.cli.sweep import _sampler
from surelabel.cli.sweep_space import read_space
from surelabel.utils.errors import UserError

TINY = ["--steps", "6", "--network.name", "wrn-10-1", "--network.stem_stride", "8", "--batch.labelled", "4",
        "--evaluation.every", "2", "--threads", "1", "--method", "fixmatch"]  # fmt: skip


@pytest.mark.slow
def test_sweep_names_its_objective_and_resumes(tmp_path, capsys):
    command = ["sweep", "--space", "optimizer.lr=log:0.003:0.3", "--folder", str(tmp_path), "--pruner", "none", *TINY]
    assert main([*command, "--trials", "2"]) == 0
    said = capsys.readouterr().out
    assert "Objective: accuracy on 20% of the labelled samples" in said
    assert said.count("complete") == 3
    assert "Best of 2 complete trials" in said
    assert said.count("(95% interval") == 3
    best = said.split("Its settings: ")[1].splitlines()[0]
    assert 0.003 <= float(best.removeprefix("--optimizer.lr ")) <= 0.3
    assert main([*command, "--trials", "3"]) == 0
    assert "trial 2: complete" in capsys.readouterr().out
    assert main([*command, "--trials", "3"]) == 0
    assert "trial" not in capsys.readouterr().out.split("Best")[0]
    assert main([*command, "--trials", "4", "--objective", "ece"]) == 2
    assert "was started with other settings" in capsys.readouterr().err


@pytest.mark.slow
def test_sweep_keeps_the_runs_of_an_earlier_one(tmp_path):
    """Without its storage, trials are numbered from 0 again, but its folders and logs remain."""
    command = ["sweep", "--trials", "1", "--space", "optimizer.lr=log:0.003:0.3", "--folder", str(tmp_path), *TINY]
    assert main(command) == 0
    (tmp_path / "sweep.sqlite3").unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("sweep-0*/*")}
    log = (tmp_path / "sweep-0.log").read_bytes()
    assert main(command) == 0
    assert (tmp_path / "sweep-0-again1" / "result.json").exists()
    assert {path: path.read_bytes() for path in before} == before
    assert (tmp_path / "sweep-0.log").read_bytes() == log


@pytest.mark.parametrize(("written", "used"), [("holdout: 40%", "40%"), ("holdout: null", "20%"), ("steps: 6", "20%")])
def test_sweep_holds_out_as_the_config_says_else_a_fifth(written, used, tmp_path, capsys):
    (tmp_path / "own.yaml").write_text(written)
    command = ["sweep", "--space", "optimizer.lr=log:0.003:0.3", "--config", str(tmp_path / "own.yaml")]
    assert main([*command, "--print_config"]) == 0
    assert f"holdout: {used}" in capsys.readouterr().out


@pytest.mark.slow
def test_sweep_tunes_on_the_test_set_with_holdout_none(tmp_path, capsys):
    (tmp_path / "own.yaml").write_text("holdout: 40%")
    command = ["sweep", "--trials", "1", "--space", "optimizer.lr=log:0.003:0.3", "--folder", str(tmp_path / "sweep")]
    assert main([*command, "--config", str(tmp_path / "own.yaml"), "--holdout", "none", *TINY]) == 0
    assert "Objective: accuracy on the TEST SET" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--minutes", "--crossfit", "--out", "--resume"])
def test_sweep_rejects_options_that_a_trial_cannot_have(option, capsys):
    assert main(["sweep", "--space", "optimizer.lr=log:0.003:0.3", option, "2"]) == 2
    assert f"{option} cannot be combined" in capsys.readouterr().err


def test_sweep_prunes_trials(tmp_path, capsys, monkeypatch):
    import optuna

    monkeypatch.setattr(optuna.Trial, "should_prune", lambda trial: trial.number == 1)
    command = ["sweep", "--trials", "2", "--space", "optimizer.lr=log:0.003:0.3", "--folder", str(tmp_path), *TINY]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "trial 1: pruned" in said
    assert not (tmp_path / "sweep-1" / "result.json").exists()
    assert (tmp_path / "sweep-0" / "result.json").exists()


def test_sweep_median_pruner_stops_the_worse_half(tmp_path, capsys, monkeypatch):
    """After five trials, the sixth is worse at every step, the seventh better."""
    from surelabel.studies import records
    from surelabel.training import fit

    ends = iter([0.5, 0.6, 0.7, 0.8, 0.9, 0.1, 0.95])

    def made_up(run, console, watch):
        accuracy = next(ends)
        monkeypatch.setattr(records, "record_of", lambda folder: {"final": {"accuracy": accuracy}})
        for step in (2, 4):
            watch({"accuracy": accuracy * step / 4, "step": step})
        return SimpleNamespace(metrics={"samples": 1000})

    monkeypatch.setattr(fit, "fit", made_up)
    command = ["sweep", "--trials", "7", "--space", "optimizer.lr=log:0.003:0.3", "--folder", str(tmp_path), *TINY]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert [line.split()[1:3] for line in said.splitlines() if line.startswith("trial ")] == [
        [f"{number}:", "pruned" if number == 5 else "complete"] for number in range(7)
    ]
    assert "Best of 6 complete trials: accuracy 0.9500" in said


@pytest.mark.slow
def test_sweep_minimises_ece(tmp_path, capsys):
    command = ["sweep", "--trials", "2", "--space", "optimizer.lr=log:0.003:0.3", "--folder", str(tmp_path), *TINY]
    assert main([*command, "--objective", "ece", "--pruner", "hyperband", "--sampler", "random"]) == 0
    said = capsys.readouterr().out
    values = [float(line.split()[3]) for line in said.splitlines() if line.startswith("trial ") and "complete" in line]
    assert f"ece {min(values):.4f} on 20%" in said


@pytest.mark.parametrize("kind", [UserError, RuntimeError])
def test_sweep_reports_failed_trials_and_continues(tmp_path, capsys, monkeypatch, kind):
    from surelabel.training import fit

    def broken(run, console, watch):
        raise kind("the loss became nan at step 3")

    monkeypatch.setattr(fit, "fit", broken)
    command = ["sweep", "--trials", "2", "--space", "optimizer.lr=log:0.003:0.3", "--folder", str(tmp_path), *TINY]
    assert main(command) == 2
    said = capsys.readouterr()
    assert said.out.count("the loss became nan at step 3") == 2
    assert "Traceback" in (tmp_path / "sweep-0.log").read_text()
    assert "no trial was completed" in said.err


def test_sweep_counts_trials_with_invalid_values(tmp_path, capsys):
    command = ["sweep", "--trials", "2", "--space", "selection.threshold=1.5:2", "--folder", str(tmp_path), *TINY]
    assert main(command) == 2
    assert capsys.readouterr().out.count("(selection.threshold must lie between 0 and 1") == 2


def test_sweep_without_test_set_needs_a_holdout(tmp_path, capsys, digits_file):
    with np.load(digits_file) as stored:
        np.savez(tmp_path / "untested.npz", images=stored["images"], labels=stored["labels"])
    command = ["sweep", "--trials", "1", "--space", "optimizer.lr=log:0.003:0.3", "--folder", str(tmp_path / "sweep"),
               "--data", str(tmp_path / "untested.npz"), "--labels", "40", "--holdout", "none", *TINY]  # fmt: skip
    assert main(command) == 2
    assert "has no test set to tune on" in capsys.readouterr().err
    assert not list(tmp_path.rglob("config.yaml"))


def test_sampler_of_each_sweep_draws_other_values():
    """By chance two draws of one number agree in the first 15 digits with a probability below 1e-14."""
    import optuna

    space = read_space("optimizer.lr=log:0.003:0.3")
    for name in ("tpe", "random"):
        drawn = [space.suggest(optuna.create_study(sampler=_sampler(name)).ask()) for _ in range(2)]
        assert drawn[0] != drawn[1]
