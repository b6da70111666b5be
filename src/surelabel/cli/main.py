"""The command line. Heavy libraries are imported by the command that needs them: --help must not wait for torch."""

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surelabel import __version__
from surelabel.utils.errors import FolderExists, UserError, suggestion

if TYPE_CHECKING:
    from surelabel.cli.fit import Options
    from surelabel.inference.calibration import Calibration
    from surelabel.inference.trained_run import TrainedRun

DESCRIPTION = "Train a classifier from a few labels and many unlabelled samples, with a confidence worth trusting."


def main(arguments: list[str] | None = None) -> int:
    """Run a command; a user's mistake is one clear message and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return _dispatch(arguments)
    except UserError as error:
        print(f"surelabel: {in_options(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("surelabel: interrupted", file=sys.stderr)
        return 130


def in_options(error: UserError) -> str:
    """What an error says, with the options that mend it."""
    if not isinstance(error, FolderExists):
        return str(error)
    resume = f"resume that run with --resume {error.path}, " if error.begun else ""
    return f"{error.path} exists already: {resume}choose another --out, or remove it"


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    name, *rest = arguments
    if name == "--version":
        print(f"surelabel {__version__}")
        return 0
    if name not in COMMANDS:
        raise UserError(f"there is no command {name!r}.{suggestion(name, COMMANDS)}")
    return COMMANDS[name][0](rest)


def _help() -> str:
    commands = "\n".join(f"  {name:<10} {what}" for name, (_, what) in COMMANDS.items())
    return (
        f"usage: surelabel COMMAND [OPTION ...]\n\n{DESCRIPTION}\n\ncommands:\n{commands}\n\n"
        "options:\n  --help     this text; after a command, that command's options\n  --version  the version\n\n"
        "With no option at all, `surelabel fit` trains on the photonic crystals that come with the package."
    )


def _fit(arguments: list[str]) -> int:
    from surelabel.cli.fit import read_options

    return _run(read_options(arguments))


def _finetune(arguments: list[str]) -> int:
    from surelabel.cli.fit import finetune_options

    options = finetune_options(arguments)
    return _run(options, labels_of=None if options is None else options.run.init)


def _run(options: "Options | None", labels_of: str | None = None) -> int:
    if options is None:
        return 0
    from surelabel.config.benchmarks import NAMED_DATA
    from surelabel.inference.trained_run import fit
    from surelabel.utils.distributed import is_rank_zero, shut_down
    from surelabel.utils.signals import Stopped

    folder = options.run.folder
    try:
        run = fit(options.run, resume=options.resume, labels_of=labels_of, minutes=options.minutes)
        first = is_rank_zero()
        shut_down()
        if first and (options.run.data not in NAMED_DATA or options.folds):
            from surelabel.cli.fit_outputs import write_fit_outputs

            write_fit_outputs(run, options.folds)
    except Stopped as stopped:
        if is_rank_zero():
            again = f" --cv {options.folds}" if options.folds else ""
            print(f"Stopped by {stopped} and saved. Go on with: surelabel fit --resume {folder}{again}")
        return stopped.exit_code
    if first:
        print(f"The run is in {folder}")
    return 0


def _evaluate(arguments: list[str]) -> int:
    options = _parse("evaluate", "The figures of a run on its whole test set, or on other data with labels, computed "
                     "anew from its weights.", [
        (("folder",), {"metavar": "RUN", "help": "a run folder"}),
        (("data",), {"metavar": "DATA", "nargs": "?", "help": "instead of the test set, samples with labels that the "
                     "run has not learnt: a folder, .npz, .npy, .csv or .parquet file, or a data set by name; their "
                     "test part, where there is one. For a run on pictures, a .csv file names files in the folder that "
                     "the run was trained on, and their classes"}),
        (("--data-dir",), {"metavar": "DIR", "help": "where the files of a named data set are"}),
        (("--bound",), {"action": "store_true", "help": "also the paper's generalisation bound, for a bam- method"}),
        (("--s2",), {"type": float, "default": 1.0, "help": "the bound's variance factor s² (default: 1)"}),
        (("--delta",), {"type": float, "default": 0.05, "help": "the bound's probability to fail (default: 0.05)"}),
    ], arguments)  # fmt: skip
    if options.data is not None and options.bound:
        raise UserError("--bound is of the run's own test set: leave DATA out")
    if options.data is None and options.data_dir is not None:
        raise UserError("--data-dir is of the DATA to evaluate on: name a data set, or leave it out")
    from rich.console import Console

    from surelabel.inference.bound import bound_of
    from surelabel.inference.held_out import evaluate_on
    from surelabel.inference.trained_run import load
    from surelabel.training.display import PLAIN, describe_skipped, show_bound, show_result

    console, run = Console(), load(options.folder)
    if options.data is None:
        if run.data.test is None:
            raise UserError(
                f"{run.config.data} has no test set to evaluate on: give data with labels, by "
                f"surelabel evaluate {options.folder} DATA"
            )
        show_result(console, run.metrics)
    else:
        result, skipped = evaluate_on(run, options.data, options.data_dir)
        if skipped:
            console.print(describe_skipped(skipped), **PLAIN)
        show_result(console, result, of=f"labelled samples of {options.data}")
    if options.bound:
        show_bound(console, asdict(bound_of(run, options.s2, options.delta)))
    return 0


def _predict(arguments: list[str]) -> int:
    options = _parse("predict", "The class and its probability for each sample, as CSV.", [
        (("folder",), {"metavar": "RUN", "help": "a run folder"}),
        (("data",), {"metavar": "DATA", "help": "a folder, .npz, .npy, .csv or .parquet file, or a data set by name; "
                     "of arrays, tar shards and named sets their test part, where there is one"}),
        (("-o", "--out"), {"required": True, "metavar": "FILE", "help": "the CSV file to write"}),
        (("--data-dir",), {"metavar": "DIR", "help": "where the files of a named data set are"}),
        (("--calibrate",), {"metavar": "HELD_OUT", "help": "correct the confidence by samples with labels that the run "
                            "has not seen, data like DATA, a .csv file that names pictures in DATA and their "
                            "classes, or test:N for N samples of the run's test set; and add to each "
                            "image a set of classes that holds the right one with the probability --coverage"}),
        (("--coverage",), {"type": float, "metavar": "SHARE", "help": "of the sets of classes (default: 0.9)"}),
    ], arguments)  # fmt: skip
    coverage = _coverage(options)
    from surelabel.inference.trained_run import load
    from surelabel.training.display import describe_skipped

    run = load(options.folder)
    calibration = None if options.calibrate is None else _calibrated(run, options, coverage)
    predictions = run.predict(options.data, options.data_dir)
    for note in predictions.notes:
        print(note)
    predictions.save(options.out, calibration)
    print(f"{len(predictions)} predictions in {options.out}")
    if predictions.skipped:
        print(describe_skipped(predictions.skipped))
    return 0


def _coverage(options: argparse.Namespace) -> float:
    if options.coverage is not None and options.calibrate is None:
        raise UserError("--coverage needs --calibrate HELD_OUT: sets of classes are made by held-out labels")
    return 0.9 if options.coverage is None else float(options.coverage)


def _calibrated(run: "TrainedRun", options: argparse.Namespace, coverage: float) -> "Calibration":
    from rich.console import Console

    from surelabel.training.display import describe_skipped, show_calibration

    calibration, report = run.calibrate(options.calibrate, coverage, options.data_dir, options.data)
    if report.skipped:
        print(f"Of the held-out samples, {describe_skipped(report.skipped)}")
    show_calibration(Console(), asdict(report))
    return calibration


def _suggest(arguments: list[str]) -> int:
    options = _parse("suggest", "Which unlabelled samples of a run's pool to label next: uncertain ones that differ.", [
        (("folder",), {"metavar": "RUN", "help": "a run folder"}),
        (("-n", "--number"), {"type": int, "default": 20, "metavar": "N", "help": "how many (default: 20)"}),
        (("-o", "--out"), {"default": "suggest.csv", "metavar": "FILE", "help": "the CSV file (default: suggest.csv)"}),
    ], arguments)  # fmt: skip
    from surelabel.inference.suggest import suggest_to_csv
    from surelabel.inference.trained_run import load

    found = suggest_to_csv(load(options.folder), options.number, Path(options.out))
    print(f"{len(found)} samples to label next, in {options.out}")
    return 0


def _export(arguments: list[str]) -> int:
    options = _parse("export", "A run's network as one ONNX file, which needs neither torch nor surelabel.", [
        (("folder",), {"metavar": "RUN", "help": "a run folder"}),
        (("--onnx",), {"required": True, "metavar": "FILE", "help": "the ONNX file to write"}),
    ], arguments)  # fmt: skip
    from surelabel.inference.trained_run import load

    difference = load(options.folder).export(options.onnx)
    print(f"The network is in {options.onnx}; on samples of the run it differs from torch by {difference:.0e} at most")
    return 0


def _report(arguments: list[str]) -> int:
    options = _parse("report", "One self-contained HTML page about a run, or several side by side.", [
        (("folders",), {"metavar": "RUN", "nargs": "+", "help": "a run folder; the page compares several"}),
        (("-o", "--out"), {"default": "report.html", "metavar": "FILE", "help": "the page (default: report.html)"}),
        (("--calibrate",), {"metavar": "HELD_OUT", "help": "show what held-out labels say; as in predict"}),
        (("--coverage",), {"type": float, "metavar": "SHARE", "help": "of the sets of classes shown (default: 0.9)"}),
    ], arguments)  # fmt: skip
    coverage = _coverage(options)
    from surelabel.inference.trained_run import load
    from surelabel.report import check_page, write_report
    from surelabel.report.sections import sections

    check_page([Path(folder) for folder in options.folders], Path(options.out))
    runs = [load(folder) for folder in options.folders]
    for note in write_report(runs, options.out, sections(runs, options.calibrate, coverage)):
        print(note)
    print(f"The report is in {options.out}")
    return 0


def _recipes(arguments: list[str]) -> int:
    _parse("recipes", "The recipes: the paper's benchmarks, for each method.", [], arguments)
    from surelabel.config.benchmarks import BENCHMARKS
    from surelabel.config.methods import METHODS, TEACHERS
    from surelabel.config.recipes import SIZES

    print(f"surelabel fit --recipe [METHOD-]BENCHMARK --size {'|'.join(SIZES)}\n")
    print("benchmarks: " + ", ".join(BENCHMARKS))
    print("methods:    " + ", ".join(METHODS))
    print("            each also with +" + " or +".join(TEACHERS) + ": an averaged network makes the pseudo-labels")
    return 0


def _make_shards(arguments: list[str]) -> int:
    options = _parse("data make-shards", "Turn a folder of images into tar shards, for sets larger than the memory.", [
        (("folder",), {"metavar": "FOLDER", "help": "a folder with a sub-folder for each class, or a labels.csv"}),
        (("-o", "--out"), {"required": True, "metavar": "SHARDS", "help": "the folder to write; it must not exist"}),
        (("--size-mb",), {"type": int, "default": 256, "help": "size of a shard in MiB (default: 256)"}),
        (("--seed",), {"type": int, "default": 0, "help": "of the shuffle (default: 0)"}),
    ], arguments)  # fmt: skip
    from surelabel.cli.data import make_shards

    make_shards(Path(options.folder), Path(options.out), size_mb=options.size_mb, seed=options.seed)
    return 0


def _data(arguments: list[str]) -> int:
    if arguments[:1] == ["make-shards"]:
        return _make_shards(arguments[1:])
    from jsonargparse import auto_cli

    from surelabel.cli import data as shard_commands
    from surelabel.cli import phc as commands

    named: Any = {
        "make-shards": shard_commands.make_shards,
        "make-phc": commands.make_phc,
        "audit-phc": commands.audit_phc,
        "phc-pictures": commands.phc_pictures,
    }
    # Options are named after the functions' arguments; --min-delta-eps and --min_delta_eps are the same.
    words = [re.sub(r"(?<=\w)-", "_", word) if re.match(r"--[\w-]+$", word) else word for word in arguments]
    auto_cli(named, args=words, prog="surelabel data", as_positional=False)
    return 0


def _study(arguments: list[str]) -> int:
    from surelabel.cli.study import main as study

    return study(arguments)


def _sweep(arguments: list[str]) -> int:
    from surelabel.cli.sweep import main as sweep

    return sweep(arguments)


COMMANDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "fit": (_fit, "train a classifier, and evaluate it"),
    "finetune": (_finetune, "teach a linear head on a run's backbone by the same labels"),
    "evaluate": (_evaluate, "the figures of a finished run, on its test set or on other data with labels"),
    "predict": (_predict, "classes and confidences for new samples, as CSV"),
    "suggest": (_suggest, "which samples to label next, as CSV"),
    "export": (_export, "a run's network as an ONNX file"),
    "report": (_report, "a page about a run, or several side by side, to open in a browser"),
    "study": (_study, "make a table or figure of the paper, by one worker or many"),
    "sweep": (_sweep, "tune the settings of a run"),
    "recipes": (_recipes, "the settings of the paper's benchmarks"),
    "data": (_data, "make tar shards of images; make and check the photonic-crystal data set"),
}


def _parse(
    command: str, description: str, options: list[tuple[tuple[str, ...], dict[str, Any]]], arguments: list[str]
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"surelabel {command}", description=description, allow_abbrev=False)
    for names, settings in options:
        parser.add_argument(*names, **settings)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
