"""What a run on somebody's own data leaves beside its weights: predictions, an estimate, and a page to look at."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from surelabel.data.source import UNLABELLED, Images, Source
from surelabel.inference import cross_validation as estimate
from surelabel.inference import trust, trust_words
from surelabel.inference.cross_validation import Estimate
from surelabel.inference.learners import label_scores, leaves_out
from surelabel.inference.near_duplicates import near_duplicates
from surelabel.inference.prediction_sets import promise
from surelabel.inference.predictions import Predictions
from surelabel.inference.trained_run import TrainedRun
from surelabel.inference.unnamed import describe_unnamed
from surelabel.report.sections import ESTIMATE, stored_estimate
from surelabel.training.display import PLAIN
from surelabel.utils.console import Screen
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write
from surelabel.utils.words import words_alone

PREDICTIONS, PAGE = "predictions.csv", "report.html"
ACCEPTED, TO_LABEL = "accepted.csv", "to_label.csv"
MOST_COMPARED = 20_000  # test pictures and labelled ones


def write_fit_outputs(
    run: TrainedRun,
    accept: float | None = None,
    sets: float | None = None,
    all_probabilities: bool = False,
    console: Console | None = None,
) -> None:
    """Predict every unlabelled sample, estimate the accuracy, warn of what to doubt, and write the page."""
    console, promised = console or Screen(), None
    written = "No predictions: every sample has a label. surelabel predict takes new ones"
    if (run.data.train.labels == UNLABELLED).any():
        predictions, promised = _with_sets(run, sets)
        predictions.save(run.path / PREDICTIONS, all_probabilities=all_probabilities)
        written = f"{len(predictions):,} predictions in {run.path / PREDICTIONS}"
    # What is known first, and then where it was written.
    for words in (*data_warnings(run), *_estimated(run, accept, promised), written):
        console.print(words, **PLAIN)
    _write_page(run, console)


def _with_sets(run: TrainedRun, coverage: float | None) -> tuple[Predictions, str | None]:
    """The predictions for the pool, with sets of classes if they are asked for, and what these promise."""
    if coverage is None:
        return run.predict_pool(), None
    try:
        made = run.predict_pool(coverage)
    except UserError as error:  # too few labels that could be left out after all: nothing else need be lost
        return run.predict_pool(), f"No sets of classes: {error}"
    assert made.sets is not None
    return made, promise(label_scores(run), coverage, made.set_sizes)


def _estimated(run: TrainedRun, accept: float | None, promised: str | None) -> list[str]:
    """How accurate it is, as far as that can be told, in words; they are kept for the page."""
    data = run.data
    if data.test is None and not data.train.at_random(run.labelled).any():
        return ["How accurate is it? All labels are of suggested samples, which are hard ones: label some at random"]
    if leaves_out(run):
        return _trusted(run, accept, promised)
    if data.test is not None:
        return [f"Metrics on the {len(data.test)} test samples are in {run.path / 'result.json'}"]
    if data.train.kind != "features":
        return [f"How accurate is it? surelabel fit --resume {run.path} --crossfit 5 trains five times more to tell"]
    found = estimate.linear_probe(data.train, run.labelled, run.config.seed)
    words = format_estimate(found)
    _store(run, asdict(found) | {"words": words})
    return [words]


def _store(run: TrainedRun, estimate: dict[str, Any]) -> None:
    with atomic_write(run.path / ESTIMATE) as file:
        json.dump(estimate, file, indent=1)


def _trusted(run: TrainedRun, accept: float | None, promised: str | None) -> list[str]:
    """How far the confidence can be trusted; the samples to accept and the others go to their files."""
    try:
        found = run.trust
    except UserError as error:  # no label could be left out
        return [str(error), *([promised] if promised else [])]
    earlier = stored_estimate(run).get("accept")
    _store(run, {"accept": accept or earlier, "sets": promised})
    precision = accept or earlier or trust.PRECISION
    words = trust_words.describe(found, precision, run.data.train.names(found.known.index), run.task.classes)
    words += [promised] if promised else []
    if accept is not None and len(found.confidence):
        accepted, rest = run.path / ACCEPTED, run.path / TO_LABEL
        chosen = trust.write_accepted(run, found, accept, accepted, rest)
        words.append(
            f"{chosen.count:,} accepted, at least {accept:.0%} of them right, in {accepted}, the others in {rest}"
        )
    return words


def format_estimate(found: Estimate) -> str:
    """'Right for about 83 % of samples (95 % interval 74 to 90), by cross-validation of ... over the 60 labels'."""
    low, high = found.interval
    return (
        f"Right for about {found.accuracy:.0%} of samples like the labelled ones (95% interval {low:.0%} to {high:.0%})"
        f", by cross-validation of a linear classifier on the same features over the {found.labels} labels"
    )


def data_warnings(run: TrainedRun) -> list[str]:
    """What should make one doubt: samples that no label seems to name, and test pictures that are in training."""
    data, labelled = run.data, run.labelled
    notes = [describe_unnamed(run.unnamed)] if run.unnamed else []
    if (texts := data.train.texts(labelled)) is not None:
        return notes if data.test is None else [*notes, *_copied_texts(data.test, texts)]
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


def _copied_texts(test: Source, learnt: Sequence[str]) -> list[str]:
    """A warning of test texts that are labelled ones too."""
    known = {words_alone(text) for text in learnt} - {""}
    copies = [place for place, text in enumerate(test.texts(np.arange(len(test))) or ()) if words_alone(text) in known]
    if not copies:
        return []
    (name,) = test.names(np.array(copies[:1]))
    return [f"Warning: {len(copies)} test texts are labelled ones too (such as {name}): the figures flatter"]


def _batches(source: Source, index: NDArray[np.int64], batch: int = 256) -> Iterator[Images]:
    """These pictures, some at a time."""
    return (source.pictures(index[start : start + batch]) for start in range(0, len(index), batch))


def _write_page(run: TrainedRun, console: Console) -> None:
    if not find_spec("jinja2") or not find_spec("matplotlib"):
        console.print("For a page with pictures: pip install 'surelabel[report]', then surelabel report", **PLAIN)
        return
    run.report(run.path / PAGE)
    console.print(f"A page to look at: {run.path / PAGE}", **PLAIN)
