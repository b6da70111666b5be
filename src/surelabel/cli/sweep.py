"""surelabel sweep: Tune settings on held-out labels.

Tries values from the --space of each setting, chooses the next by the results so far, and stops bad trials early. All
options of `surelabel fit` are allowed too. The objective is computed on held-out labelled samples (--holdout, default
20%), and on the test set only with --holdout none.
"""

import argparse
import itertools
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from surelabel.cli.fit import add_arguments as add_fit_arguments
from surelabel.cli.fit import read_options, train
from surelabel.cli.parser import positive
from surelabel.cli.say import say
from surelabel.cli.sweep_space import Space, check_used, read_space
from surelabel.config.run import RunConfig
from surelabel.config.settings import read_yaml, with_settings
from surelabel.studies.plan import Job, key_of, settings_of
from surelabel.studies.storage import open_storage
from surelabel.utils.errors import UserError, words_of

if TYPE_CHECKING:
    import optuna

OBJECTIVES: dict[str, Literal["maximize", "minimize"]] = {"accuracy": "maximize", "ece": "minimize"}
HOLDOUT = "20%"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    own = parser.add_argument_group("sweep")
    own.add_argument("--trials", type=positive, default=20, metavar="N", help="number of trials in all (default: 20)")
    own.add_argument(
        "--objective", choices=OBJECTIVES, default="accuracy", help="metric to optimise (default: accuracy)"
    )
    own.add_argument(
        "--space", action="append", default=[], metavar="KEY=VALUES",
        help="LOW:HIGH, log:LOW:HIGH or A,B,C for a setting of `surelabel fit`; repeatable",
    )  # fmt: skip
    own.add_argument("--name", default="sweep", help="name of the sweep in its storage (default: sweep)")
    own.add_argument("--folder", default="runs/sweep", metavar="DIR", help="for the runs (default: runs/sweep)")
    own.add_argument("--storage", metavar="URL", help="sqlite:///FILE (default: in DIR) or postgresql://..., shared")
    own.add_argument(
        "--sampler", choices=("tpe", "random"), default="tpe", help="chooses the next values (default: tpe)"
    )
    own.add_argument(
        "--pruner", choices=("median", "hyperband", "none"), default="median",
        help="stops bad trials early (default: median)",
    )  # fmt: skip
    add_fit_arguments(parser)


def run(options: argparse.Namespace) -> int:
    spaces = [read_space(text) for text in options.space]
    if not spaces:
        raise UserError("name at least one setting to tune, such as --space optimizer.lr=log:0.003:0.3")
    keys = [space.key for space in spaces]
    if twice := {key for key in keys if keys.count(key) > 1}:
        raise UserError(f"--space {min(twice)} is given twice")
    given = vars(options)
    if refused := given.keys() & {*keys, "resume", "out", "minutes", "crossfit", "accept", "sets", "all_probabilities"}:
        raise UserError(
            f"--{min(refused).replace('_', '-')} cannot be combined with --space and --folder: leave it out"
        )
    if given.get("holdout") == "none":
        options.holdout = None
    elif "config" not in given or not read_yaml(options.config).get("holdout"):
        given.setdefault("holdout", HOLDOUT)
    asked = read_options(options)
    if asked.print_config:
        return train(asked)
    check_used(asked.config, spaces)
    from surelabel.utils.signals import Stopped

    try:
        sweep(asked.config, spaces, options)
    except Stopped as stopped:
        print("Stopped. The same command continues with the next trial")
        return stopped.exit_code
    return 0


def sweep(config: RunConfig, spaces: list[Space], options: argparse.Namespace) -> "optuna.Study":
    """Run trials until there are --trials, with those of other workers and earlier calls."""
    _check_has_test(config)
    folder = Path(options.folder)
    url = options.storage or f"sqlite:///{(folder / 'sweep.sqlite3').resolve()}"
    storage = open_storage(url)
    import optuna

    study = optuna.create_study(
        storage=storage, study_name=options.name, load_if_exists=True, direction=OBJECTIVES[options.objective],
        pruner=_pruner(options.pruner), sampler=_sampler(options.sampler),
    )  # fmt: skip
    _check_same(study, config, spaces, options)
    say(f"Objective: {options.objective} {where(config)}")

    def stop_when_done(study: optuna.Study, _: optuna.trial.FrozenTrial) -> None:
        if _tried(study) >= options.trials:
            study.stop()

    if _tried(study) < options.trials:
        study.optimize(
            lambda trial: _objective(trial, config, spaces, options, folder),
            callbacks=[_print_trial, stop_when_done],
            catch=(UserError,),
        )
    _conclude(study, options.objective, config)
    return study


def _tried(study: "optuna.Study") -> int:
    """The number of trials that were not interrupted."""
    return sum(
        trial.state.name in ("COMPLETE", "PRUNED") or "error" in trial.user_attrs
        for trial in study.get_trials(deepcopy=False)
    )


def _check_same(study: "optuna.Study", config: RunConfig, spaces: list[Space], options: argparse.Namespace) -> None:
    """Raise if the sweep was started with other settings: results would not be comparable."""
    asked = {
        "run": key_of(settings_of(Job(config))) + f" {config.seed}",
        "spaces": [repr(space) for space in spaces],
        "objective": options.objective,
    }
    if study.user_attrs.get("asked", asked) != asked:
        raise UserError(f"the sweep {options.name!r} was started with other settings: choose another --name")
    study.set_user_attr("asked", asked)


def _check_has_test(config: RunConfig) -> None:
    """Raise if the test set is needed and missing."""
    if config.holdout is None:
        from surelabel.training import build_data

        data, _ = build_data.load_data(config)
        if data.test is None:
            raise UserError(f"{config.data} has no test set to tune on: remove --holdout none")


def where(config: RunConfig) -> str:
    """On which data the objective is computed, as text."""
    if config.holdout:
        return f"on {config.holdout} of the labelled samples, held out from training; not on the test set"
    return "on the TEST SET, which is then no test of the chosen settings (--holdout 20% avoids this)"


def _objective(
    trial: "optuna.Trial", config: RunConfig, spaces: list[Space], options: argparse.Namespace, folder: Path
) -> float:
    import optuna
    from rich.console import Console

    from surelabel.studies import records as results
    from surelabel.training.fit import fit

    values = {space.key: space.suggest(trial) for space in spaces}
    path = _free(folder, f"{options.name}-{trial.number}")

    def watch(row: Mapping[str, Any]) -> None:
        trial.report(row[options.objective], row["step"])
        if trial.should_prune():
            raise optuna.TrialPruned(f"pruned at step {row['step']}")

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.log").open("w", encoding="utf-8") as log:
        try:
            made = with_settings(config, values | {"out": str(path)})
            trained = fit(made, console=Console(file=log, width=120), watch=watch)
            found = float(results.record_of(path)["final"][options.objective])
        except (UserError, RuntimeError, MemoryError) as error:  # RuntimeError: GPU out of memory
            traceback.print_exc(file=log)
            trial.set_user_attr("error", words_of(error))
            raise UserError(words_of(error)) from error
    trial.set_user_attr("folder", str(path))
    assert trained.metrics is not None  # there is a test set
    trial.set_user_attr("samples", trained.metrics["samples"])
    return found


def _free(folder: Path, name: str) -> Path:
    """A new folder of this name, numbered if an earlier sweep has left one or its log."""
    names = itertools.chain([name], (f"{name}-again{number}" for number in itertools.count(1)))
    paths = (folder / one for one in names)
    return next(path for path in paths if not path.exists() and not path.with_name(f"{path.name}.log").exists())


def _print_trial(study: "optuna.Study", trial: "optuna.trial.FrozenTrial") -> None:
    value = "" if trial.value is None else f" {_shown(trial, study.user_attrs['asked']['objective'])}"
    error = f"  ({trial.user_attrs['error']})" if "error" in trial.user_attrs else ""
    say(f"trial {trial.number}: {trial.state.name.lower()}{value}  {_in_words(trial.params)}{error}")


def _shown(trial: "optuna.trial.FrozenTrial", objective: str) -> str:
    """The value of a trial; an accuracy over few samples with its interval."""
    from surelabel.utils.intervals import ENOUGH, wilson

    assert trial.value is not None
    samples = trial.user_attrs.get("samples")  # trials of an earlier version did not store it
    if objective != "accuracy" or samples is None or samples >= ENOUGH:
        return f"{trial.value:.4f}"
    low, high = wilson(trial.value, samples)
    return f"{trial.value:.4f} (95% interval {low:.2f} to {high:.2f}, by {samples} samples)"


def _in_words(params: Mapping[str, Any]) -> str:
    return " ".join(
        f"--{key} {value:.4g}" if isinstance(value, float) else f"--{key} {value}" for key, value in params.items()
    )


def _conclude(study: "optuna.Study", objective: str, config: RunConfig) -> None:
    import optuna

    done = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    if not done:
        raise UserError("no trial was completed: read the .log files of the runs, or widen the --space")
    best = study.best_trial
    say(f"Best of {len(done)} complete trials: {objective} {_shown(best, objective)} {where(config)}")
    say(f"Its settings: {_in_words(best.params)}\nIts run is in {best.user_attrs['folder']}")


def _sampler(name: str) -> "optuna.samplers.BaseSampler":
    """Unseeded: workers that start together, and later calls, must not draw the same values."""
    import optuna

    return optuna.samplers.TPESampler() if name == "tpe" else optuna.samplers.RandomSampler()


def _pruner(name: str) -> "optuna.pruners.BasePruner":
    import optuna

    makers: dict[str, Callable[[], optuna.pruners.BasePruner]] = {
        "median": lambda: optuna.pruners.MedianPruner(n_startup_trials=5),
        "hyperband": optuna.pruners.HyperbandPruner,
        "none": optuna.pruners.NopPruner,
    }
    return makers[name]()
