"""surelabel fit: Train a classifier from a few labels and many unlabelled samples.

  surelabel fit PICTURES --labels labels.csv        a folder of pictures, and the classes of some of its files
  surelabel fit PICTURES --minutes 10               a sub-folder for each class, and one named unlabelled
  surelabel fit table.csv --label-column species    rows of a table
  surelabel fit mails.csv --text-column body        texts in a table, a .jsonl file or a folder of .txt files
  surelabel fit cifar10 --labels 250 --data-dir DIR --method bam-uda

--method, DATA, --labels and --size choose a recipe, which sets everything else; a --config file and any option change
it. Your own data get the method sure and all labels unless you choose; where there is no pretrained
network for pictures, bam-uda. --print-config shows what a run would have.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surelabel.cli.fit_recipe import check_beside, check_together, chosen_recipe, from_run, number_of, read_folder
from surelabel.cli.parser import Once, add_settings, settings_given
from surelabel.config.benchmarks import NAMED_DATA
from surelabel.config.methods import FILLED, find
from surelabel.config.recipes import RELEASED, SIZES, parse
from surelabel.config.run import MACHINE, MORE_STEPS, RunConfig
from surelabel.config.settings import CONFIG, convert, read_yaml, to_yaml, with_settings
from surelabel.config.validate import ignored_settings
from surelabel.utils.errors import UserError, suggestion

# Options that are not settings of the run itself.
EXTRA = {
    "recipe": "a benchmark by name, such as cifar10-250 or uda-cifar10-250; `surelabel recipes` lists them",
    "size": "laptop (the default): a small network, minutes on a CPU; paper: the paper's size",
    "config": "a YAML file of settings, such as the config.yaml of a run folder",
    "resume": "continue the run in this folder; auto: the one that these options name, if it was begun",
    "minutes": "how long to train, instead of --steps",
    "from": "a run folder: its settings and labels, and those that --labels adds",
    "accept": "with sure or --crossfit: write the samples of which this share should be right, such as 0.95, to "
    "accepted.csv, and the others, the most useful first, to to_label.csv",
    "sets": "with sure: add to each prediction a set of classes that holds the right one with this probability, such "
    "as 0.9",
    "crossfit": "for methods other than sure: train this many times more, each time without a fold of the labels; "
    "calibrates the run and tells how far to trust it",
    "all_probabilities": "add a column p_CLASS for each class to predictions.csv",
    "print_config": "print the complete config and stop",
}
SHOWN = {
    "data": (
        "labels", "label_column", "text_column", "group_column", "drawn", "data_dir", "holdout", "image_size",
        "encoder",
    ),
    "run": ("method", "steps", "seed", "out", "init", "fidelity"),
    "machine": ("device", "threads", "devices", "nodes", "precision"),
    "often changed": ("network.name", "optimizer.lr", "batch.labelled", "batch.ratio", "evaluation.every"),
}  # fmt: skip
# What methods of different families have different values of.
FAMILY = ("paws", "optimizer", "teacher", "average", "head", "views", "batch", "align", "selection", "target")


@dataclass(frozen=True)
class Options:
    """What to train, and how it is asked for."""

    config: RunConfig
    resume: bool
    minutes: float | None = None
    crossfit: int | None = None
    accept: float | None = None
    sets: float | None = None
    all_probabilities: bool = False
    print_config: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "positional", metavar="DATA", nargs="?", help="a folder, a file, or a data set by name (--data)"
    )
    extra = parser.add_argument_group("recipe and time")
    for name, text in EXTRA.items():
        if name == "print_config":
            extra.add_argument("--print-config", action="store_true", help=text)
        elif name == "all_probabilities":
            extra.add_argument("--all-probabilities", action="store_true", default=argparse.SUPPRESS, help=text)
        else:
            extra.add_argument(f"--{name}", action=Once, default=argparse.SUPPRESS, metavar=name.upper(), help=text)
    add_settings(parser, SHOWN)


def run(options: argparse.Namespace) -> int:
    return train(read_options(options))


def train(options: Options, labels_of: str | None = None) -> int:
    """Train what the options say, and write what a run on the user's own data leaves."""
    if options.print_config:
        print(to_yaml(options.config), end="")
        return 0
    from surelabel.inference.trained_run import fit
    from surelabel.utils.distributed import is_rank_zero, shut_down
    from surelabel.utils.signals import Stopped

    folder = options.config.folder
    try:
        trained = fit(
            options.config,
            resume=options.resume,
            labels_of=labels_of,
            minutes=options.minutes,
            crossfit=options.crossfit,
            sets=options.sets,
        )
        first = is_rank_zero()
        shut_down()
        if first and (options.config.data not in NAMED_DATA or options.crossfit or options.accept):
            from surelabel.cli.fit_outputs import write_fit_outputs

            write_fit_outputs(trained, options.accept, options.sets, options.all_probabilities)
    except Stopped as stopped:
        if is_rank_zero():
            again = f" --crossfit {options.crossfit}" if options.crossfit else ""
            again += f" --accept {options.accept}" if options.accept else ""
            again += f" --sets {options.sets}" if options.sets else ""
            again += " --all-probabilities" if options.all_probabilities else ""
            print(f"Stopped by {stopped} and saved. Resume with: surelabel fit --resume {folder}{again}")
        return stopped.exit_code
    if first:
        print(f"The run is in {folder}")
    return 0


def read_options(options: argparse.Namespace) -> Options:
    """What a parsed command line means."""
    given = settings_given(options)
    extra = {key: getattr(options, key) for key in EXTRA if key in vars(options) and key != "print_config"}
    if options.positional is not None:
        given = _with_data(options.positional, given)
    check_together(given, extra)
    if "from" in extra:
        given, extra = from_run(given, extra)
    made = _resumed(given, extra) if extra.get("resume", "auto") != "auto" else _begun(_config(given, extra), extra)
    check_beside(made.config, extra)
    return replace(
        made,
        minutes=number_of(extra, "minutes", 0.01),
        crossfit=number_of(extra, "crossfit", 2),
        accept=number_of(extra, "accept", 0.5, 1.0),
        sets=number_of(extra, "sets", 0.5, 1.0),
        all_probabilities="all_probabilities" in extra,
        print_config=options.print_config,
    )


def _with_data(data: str, given: dict[str, Any]) -> dict[str, Any]:
    """`surelabel fit PICTURES ...` is short for `surelabel fit --data PICTURES ...`."""
    if "data" in given:
        raise UserError("--data is given twice")
    if not Path(data).exists() and data not in NAMED_DATA:
        raise UserError(f"there is no file or folder {data!r}, nor a data set so named.{suggestion(data, NAMED_DATA)}")
    return {"data": convert("data", data)} | given


def _config(given: dict[str, Any], extra: dict[str, str]) -> RunConfig:
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
    choice: dict[str, Any] = {key: asked[key] for key in ("method", "data", "labels") if key in asked}
    if "size" in extra and extra["size"] not in SIZES:
        raise UserError(f"there is no size {extra['size']!r}.{suggestion(extra['size'], SIZES)}")
    config = chosen_recipe(choice, asked, extra)
    if asked.get("fidelity") == "released":
        config = with_settings(config, RELEASED)
    config = with_settings(with_settings(config, from_file), given)
    check_used(config, given)
    return config


def check_used(config: RunConfig, given: dict[str, Any]) -> None:
    """Raise where a setting that the run never reads would look as if it did something."""
    ignored = ignored_settings(config)
    for key in given:
        if key in ("label_column", "text_column", "group_column") and not config.has_columns:
            option = key.replace("_", "-")
            raise UserError(f"--{option} is of tables, .csv, .parquet or .jsonl files, and {config.data} is none")
        if key in ignored:
            raise UserError(f"--{key.replace('_', '-')} has no effect on this run ({config.method}): leave it out")


def _begun(config: RunConfig, extra: dict[str, str]) -> Options:
    """A new run; or, with --resume auto, the same one again if its folder is there."""
    return Options(config, resume="resume" in extra and (config.folder / CONFIG).is_file())


def _resumed(given: dict[str, Any], extra: dict[str, str]) -> Options:
    """The run in the folder that --resume names, with its own settings."""
    folder = Path(extra["resume"])
    if "steps" in given:
        raise UserError(f"--resume {folder} cannot change --steps: {MORE_STEPS}")
    if set(given) - MACHINE or set(extra) - {"resume", "crossfit", "accept", "sets", "all_probabilities"}:
        raise UserError("--resume RUN continues with that run's own settings: leave the other options out")
    return Options(with_settings(replace(read_folder(folder, "--resume"), out=str(folder)), given), resume=True)


def read_assignments(words: Sequence[str], option: str) -> dict[str, Any]:
    """KEY=VALUE words as settings."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.replace("-", "_")
        if not equals:
            raise UserError(f"{option} {word}: write it as KEY=VALUE, such as {option} steps=500")
        if key in found:
            raise UserError(f"{option} {key} is given twice")
        found[key] = value if key in EXTRA else convert(key, value)
    return found
