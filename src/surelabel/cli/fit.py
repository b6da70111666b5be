"""The options of `surelabel fit`: a recipe, then a YAML file, then the command line, each over the one before."""

import dataclasses
import difflib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surelabel.cli.fit_help import fit_help
from surelabel.cli.fit_recipe import check_beside, check_together, chosen_recipe, from_run, number_of
from surelabel.config.benchmarks import NAMED_DATA
from surelabel.config.methods import FILLED, find
from surelabel.config.recipes import RELEASED, SIZES, finetune, parse
from surelabel.config.run import MACHINE, MORE_STEPS, RunConfig
from surelabel.config.settings import (
    CONFIG,
    check_key,
    flatten,
    from_namespace,
    keys,
    parser,
    read_run,
    read_yaml,
    to_yaml,
    with_settings,
    wrong_type,
)
from surelabel.config.validate import ignored_settings
from surelabel.utils.errors import UserError, suggestion

FINETUNE = """usage: surelabel finetune RUN [--SETTING VALUE ...]

Teach a linear head, and the backbone of RUN under it, by RUN's labels: 50 passes over them, SGD with learning rate 0.02
falling to zero. For PAWS, whose representations have no classifier of their own. The result is a run folder,
RUN-finetuned unless --out names another; any setting of `surelabel fit` can be changed, such as --steps or
--optimizer.lr."""

# Options that are not settings of the run itself.
EXTRA = {
    "recipe": "a benchmark by name, such as cifar10-250 or uda-cifar10-250; `surelabel recipes` lists them",
    "size": "laptop, unless you say otherwise: a small network for some minutes on a CPU; paper: the paper's size",
    "config": "a YAML file of settings, such as the config.yaml of a run folder",
    "resume": "go on with the run in this folder; auto: with the one that these options name, if it was begun",
    "minutes": "how long to train, instead of --steps: some steps are timed first",
    "from": "a run folder: its settings and its labels, beside those that --labels adds",
    "cv": "after training, train as many times again, each time without one such part of the labels, and test on that",
    "print_config": "print the complete configuration and stop",
}

# For a folder or a file of the user's own, where the command line leaves them out.
OWN_DATA: dict[str, Any] = {"method": "bam-uda", "labels": "all"}

# What self-training and PAWS have different values of.
FAMILY = ("paws", "optimizer", "teacher", "average", "head", "views", "batch", "selection", "target")


@dataclass(frozen=True)
class Options:
    """What to run, and whether to go on with what its folder holds."""

    run: RunConfig
    resume: bool
    minutes: float | None = None
    folds: int | None = None


def read_options(arguments: list[str]) -> Options | None:
    """The options that these arguments mean; None where they only ask for something to be printed."""
    given = split(_with_data(arguments))
    if "help" in given:
        print(fit_help(RunConfig(), EXTRA), end="")
        return None
    extra = {key: given.pop(key) for key in EXTRA if key in given}
    for key, value in given.items():
        check_key(key, value)
    check_together(given, extra)
    if "from" in extra:
        given, extra = from_run(given, extra)
    options = _resumed(given, extra) if extra.get("resume", "auto") != "auto" else _begun(_run(given, extra), extra)
    options = replace(options, minutes=number_of(extra, "minutes", 0.01), folds=number_of(extra, "cv", 2))
    check_beside(options.run, extra)
    if "print_config" in extra:
        print(to_yaml(options.run), end="")
        return None
    return options


def _with_data(arguments: list[str]) -> list[str]:
    """`surelabel fit PICTURES ...` is short for `surelabel fit --data PICTURES ...`."""
    if not arguments or arguments[0].startswith("-"):
        return arguments
    data, *rest = arguments
    if not Path(data).exists() and data not in NAMED_DATA:
        raise UserError(f"there is no file or folder {data!r}, nor a data set so named.{suggestion(data, NAMED_DATA)}")
    return ["--data", data, *rest]


def finetune_options(arguments: list[str]) -> Options | None:
    """RUN and the settings to change, as options of `surelabel finetune`."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(FINETUNE)
        return None
    folder, *rest = arguments
    given = split(rest)
    for key in set(given) - set(EXTRA):
        check_key(key, given[key])
    if refused := set(given) & (set(EXTRA) | {"method", "init", "labels", "seed"}):
        raise UserError(
            f"surelabel finetune takes the labels and the network of {folder}: --{min(refused)} has no place"
        )
    base = read_run(folder)
    try:
        labelled = len(json.loads((Path(folder) / "split.json").read_text(encoding="utf-8"))["labelled"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"cannot read {Path(folder) / 'split.json'}: {error!r}") from error
    run = parsed(finetune(base, folder, labelled), given)
    _check_used(run, given)
    return Options(run, resume=False)


def split(arguments: list[str]) -> dict[str, str]:
    """'--key value' and '--key=value' pairs; in a key, a dash and an underscore are the same."""
    given: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            return {"help": ""}
        if not word.startswith("--"):
            raise UserError(f"{word!r} is not an option: give settings as --key value")
        key, equals, value = word[2:].partition("=")
        key = key.replace("-", "_")
        if not equals and key != "print_config":
            if not rest or rest[0].startswith("--"):
                raise UserError(f"--{key} needs a value")
            value = rest.pop(0)
        if key in given:
            raise UserError(f"--{key} is given twice")
        if key not in EXTRA:
            _check_option(key)
        given[key] = value
    return given


def _check_option(key: str) -> None:
    near = difflib.get_close_matches(key, [*dict(keys()), *EXTRA], n=1)
    if near and near[0] in EXTRA:
        raise UserError(f"there is no option --{key}. Did you mean --{near[0]}?")
    check_key(key)


def _run(given: dict[str, str], extra: dict[str, str]) -> RunConfig:
    """The recipe, changed by the file, changed by the command line."""
    from_file: dict[str, Any] = read_yaml(extra["config"]) if "config" in extra else {}
    if "method" in from_file and given.get("method", from_file["method"]) != from_file["method"]:
        # The file's constants are those of its own method, and would turn another into it.
        from_file = {key: value for key, value in from_file.items() if key not in (*FILLED, "out")}
        if find(given["method"]).family != find(from_file["method"]).family:
            from_file = {key: value for key, value in from_file.items() if key.partition(".")[0] not in FAMILY}
    chosen: dict[str, Any] = {}
    if "recipe" in extra:
        method, data, labels = parse(extra["recipe"])
        chosen = {"data": data, "labels": labels} | ({"method": method} if method else {})
    asked = chosen | from_file | given
    if asked.get("data", "phc") not in NAMED_DATA:
        # Whoever brings own data brings few labels, and wants all of them used.
        asked = OWN_DATA | asked
    choice: dict[str, Any] = {key: asked[key] for key in ("method", "data", "labels") if key in asked}
    if "size" in extra and extra["size"] not in SIZES:
        raise UserError(f"there is no size {extra['size']!r}.{suggestion(extra['size'], SIZES)}")
    chosen_run = chosen_recipe(choice, asked, extra)
    if asked.get("fidelity") == "released":
        chosen_run = with_settings(chosen_run, RELEASED)
    run = parsed(with_settings(chosen_run, from_file), given)
    _check_used(run, given)
    return run


def _check_used(run: RunConfig, given: dict[str, str]) -> None:
    """A setting that the method never reads must not look as if it did something."""
    for key in given:
        if key == "label_column" and not run.tabular:
            raise UserError(f"--label-column is of tables, .csv or .parquet files, and {run.data} is none")
        if key in ignored_settings(run):
            raise UserError(f"--{key} has no effect on this run ({run.method}): leave it out")


def parsed(run: RunConfig, given: dict[str, str]) -> RunConfig:
    """The run with settings replaced that are given as text, each checked for its type."""
    from jsonargparse import ArgumentError

    made = parser()
    made.set_defaults(flatten(dataclasses.asdict(run)))
    try:
        return from_namespace(made.parse_args([f"--{key}={value}" for key, value in given.items()]))
    except ArgumentError as error:
        raise wrong_type(error, dict(given)) from None


def _begun(run: RunConfig, extra: dict[str, str]) -> Options:
    """A new run; or, with --resume auto, the same one again if its folder is there."""
    return Options(run, resume="resume" in extra and (run.folder / CONFIG).is_file())


def _resumed(given: dict[str, str], extra: dict[str, str]) -> Options:
    """The run in the folder that --resume names, with its own settings."""
    folder = Path(extra["resume"])
    if "steps" in given:
        raise UserError(f"--resume {folder} cannot change --steps: {MORE_STEPS}")
    if set(given) - MACHINE or set(extra) - {"resume", "print_config", "cv"}:
        raise UserError("--resume RUN goes on with that run's own settings: leave the other options out")
    return Options(parsed(replace(read_run(folder, "--resume "), out=str(folder)), given), resume=True)
