"""What a run on somebody's own data leaves beside its weights: predictions, an estimate, and a page to look at."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from surelabel.config.run import RunConfig
from surelabel.config.settings import CONFIG
from surelabel.data.source import UNLABELLED, Images, Source
from surelabel.inference import cross_validation as estimate
from surelabel.inference import trust
from surelabel.inference.cross_validation import Estimate
from surelabel.inference.near_duplicates import near_duplicates
from surelabel.inference.trained_run import TrainedRun, fit
from surelabel.inference.unnamed import describe_unnamed
from surelabel.report.sections import ESTIMATE
from surelabel.training.display import PLAIN
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write

PREDICTIONS, PAGE = "predictions.csv", "report.html"
ACCEPTED, TO_LABEL = "accepted.csv", "to_label.csv"
MOST_COMPARED = 20_000  # test pictures and labelled ones


def write_fit_outputs(
    run: TrainedRun, folds: int | None = None, accept: float | None = None, console: Console | None = None
) -> None:
    """Predict every unlabelled sample, estimate the accuracy, warn of what to doubt, and write the page."""
    console = console or Console()
    if (run.data.train.labels == UNLABELLED).any():
        predictions = run.predict_pool()
        predictions.save(run.path / PREDICTIONS)
        console.print(f"{len(predictions):,} predictions in {run.path / PREDICTIONS}", **PLAIN)
    else:
        console.print("No predictions: every sample has a label. surelabel predict takes new ones", **PLAIN)
    for note in data_warnings(run):
        console.print(note, **PLAIN)
    for words in _estimated(run, folds, accept, console):
        console.print(words, **PLAIN)
    _write_page(run, console)


def _estimated(run: TrainedRun, folds: int | None, accept: float | None, console: Console) -> list[str]:
    """How accurate it is, as far as that can be told, in words; they are kept for the page."""
    data = run.data
    if folds is not None:
        found, of = estimate.retrain(run, folds, partial(_fold, console=console)), "the run itself"
    elif run.config.method == "sure":
        return _trusted(run, accept)
    elif data.test is None and data.train.features is not None:
        found = estimate.linear_probe(data.train, run.labelled, run.config.seed)
        of = "a linear classifier on the same features"
    elif data.test is None:
        return [f"How accurate is it? surelabel fit --resume {run.path} --cv 5 trains five times more to tell"]
    else:
        return [f"Metrics on the {len(data.test)} test samples are in {run.path / 'result.json'}"]
    words = format_estimate(found, of)
    with atomic_write(run.path / ESTIMATE) as file:
        json.dump(asdict(found) | {"words": words}, file, indent=1)
    return [words]


def _trusted(run: TrainedRun, accept: float | None) -> list[str]:
    """How far the confidence can be trusted; the samples to accept and the others go to their files."""
    try:
        found = run.trust
    except UserError as error:  # no label could be left out
        return [str(error)]
    names = run.data.train.names(found.known.index)
    words = trust.describe(found, accept or trust.PRECISION, names, run.task.classes, run.unnamed is None)
    if accept is not None and len(found.confidence):
        accepted, rest = run.path / ACCEPTED, run.path / TO_LABEL
        chosen = trust.write_accepted(run, found, accept, accepted, rest)
        words.append(f"{chosen.count:,} accepted in {accepted}, the others in {rest}")
    return words


def format_estimate(found: Estimate, of: str) -> str:
    """'Right for about 83 % of new samples (95 % interval 74 to 90), by cross-validation of ... over the 60 labels'."""
    low, high = found.interval
    sure = "" if found.ece is None else f", calibration error (ECE) {found.ece:.3f}"
    return (
        f"Right for about {found.accuracy:.0%} of samples like the labelled ones (95% interval {low:.0%} to {high:.0%})"
        f"{sure}, by cross-validation of {of} over the {found.labels} labels"
    )


def data_warnings(run: TrainedRun) -> list[str]:
    """What should make one doubt: samples that no label seems to name, and test pictures that are in training."""
    data, labelled = run.data, run.labelled
    notes = [describe_unnamed(run.unnamed)] if run.unnamed else []
    pictures = data.train.pictures(np.arange(1)).ndim == 4
    if data.test is not None and pictures and len(data.test) + len(labelled) <= MOST_COMPARED:
        pairs = near_duplicates(_batches(data.train, labelled), _batches(data.test, np.arange(len(data.test))))
        if len(pairs):
            (a,), (b,) = data.train.names(labelled[pairs[:1, 0]]), data.test.names(pairs[:1, 1])
            notes.append(
                f"Warning: {len(pairs)} test pictures are nearly the same as labelled ones (such as {b} and {a}): the "
                "figures flatter"
            )
    return notes


def _batches(source: Source, index: NDArray[np.int64], batch: int = 256) -> Iterator[Images]:
    """These pictures, some at a time."""
    return (source.pictures(index[start : start + batch]) for start in range(0, len(index), batch))


def _fold(config: RunConfig, console: Console) -> TrainedRun:
    """Train without one fold of the labels, or resume that where it was begun; only the fold is shown."""
    begun = (config.folder / CONFIG).is_file()
    console.print(f"Cross-validation: {'resuming' if begun else 'training without'} part {config.holdout}", **PLAIN)
    return fit(config, resume=begun, console=Console(quiet=True))


def _write_page(run: TrainedRun, console: Console) -> None:
    if not find_spec("jinja2") or not find_spec("matplotlib"):
        console.print("For a page with pictures: pip install 'surelabel[report]', then surelabel report", **PLAIN)
        return
    run.report(run.path / PAGE)
    console.print(f"A page to look at: {run.path / PAGE}", **PLAIN)
