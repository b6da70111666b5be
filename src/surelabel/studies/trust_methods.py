"""What the study `trust` compares: methods that turn rows and a few labels into probabilities for the whole pool."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from threadpoolctl import threadpool_limits

from surelabel.config.recipes import pictures, recipe, table
from surelabel.config.run import CUSTOM, RunConfig
from surelabel.config.settings import with_settings
from surelabel.data.arrays.source import SampleSource
from surelabel.data.open import open_data
from surelabel.data.source import UNLABELLED, DataSet, Source
from surelabel.inference.trained_run import TrainedRun, fit
from surelabel.models.frozen_features import FeatureSource
from surelabel.studies.trust_cells import Cell, Labels, Rows
from surelabel.training.components import Components
from surelabel.utils.errors import UserError

Scores = dict[str, float | None]
CRYSTAL, STEPS = (1, 32, 32), 100


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
        config = (pictures if cell.is_pictures else table)(method, CUSTOM, "all")
        if method == "sure":
            config = replace(config, drawn=cell.drawn)
        run = train_on_rows(with_settings(config, settings), rows, truth, labelled, number)
        return _probs(run), claims(run, truth) if method == "sure" else {}

    return probs


def train_on_rows(config: RunConfig, rows: Rows, truth: Labels, labelled: Labels, number: int) -> TrainedRun:
    """Train on rows of which only those at `labelled` have a class, with a seed; nothing is written."""
    spread = rows.std(0)
    normal = tuple(rows.mean(0).tolist()), tuple(np.where(spread > 0, spread, 1).tolist())
    source = FeatureSource(_source(rows, truth, labelled), rows)
    config = replace(config, encoder="none", image_size=None)
    return _trained(config, number, Components(DataSet("rows", source, None, normal)))


def of_pixels(method: str, crossfit: int | None = None) -> Callable[..., Any]:
    """A method of this library on the pictures of crystals, with few steps, so that a draw takes minutes."""

    def probs(rows: Rows, truth: Labels, labelled: Labels, number: int, cell: Cell) -> tuple[NDArray[Any], Scores]:
        source = _source(rows.reshape(-1, *CRYSTAL), truth, labelled)
        config = replace(recipe(method, cell.data, "all"), steps=STEPS)
        normal = open_data(cell.data).normalisation
        components = Components(DataSet(cell.data, source, None, normal))
        with TemporaryDirectory() as folder:
            run = _trained(replace(config, out=f"{folder}/run"), number, components, crossfit)
            return _probs(run), claims(run, truth) if crossfit else {}

    return probs


def _source(samples: Rows, truth: Labels, labelled: Labels) -> Source:
    known = np.full(len(samples), UNLABELLED)
    known[labelled] = truth[labelled]
    return SampleSource(samples, known, [str(k) for k in np.unique(truth)])


def _trained(config: RunConfig, number: int, components: Components, crossfit: int | None = None) -> TrainedRun:
    config = replace(config, seed=number, device="cpu", threads=1, precision="32")
    config = replace(config, evaluation=replace(config.evaluation, every=config.steps))
    quiet = Console(quiet=True)
    return fit(config, console=quiet, components=components, save=crossfit is not None, crossfit=crossfit)


def _probs(run: TrainedRun) -> NDArray[np.float64]:
    """The probabilities [N, K] of the pool; zeros for labelled samples."""
    found = np.zeros((len(run.data.train), len(run.task.classes)))
    found[run.unlabelled] = run.pool_prediction.probs.double().numpy()
    return found


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
    if run.config.method == "sure":
        found |= _sets(run, pool)
    return found


def _sets(run: TrainedRun, pool: Labels) -> Scores:
    """How often sets of classes that should hold the right one in 90 % of cases do, and how large they are."""
    try:
        sets = run.predict_pool(0.9).sets
    except UserError:  # too few labels
        return {}
    assert sets is not None
    return {"coverage_0.9": float(sets[np.arange(len(pool)), pool].mean()), "set_size_0.9": float(sets.sum(1).mean())}


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
    "AdaMatch": of_surelabel("adamatch"),
    "BAM, FineSSL margin": of_surelabel("bam-finessl-margin"),
}
IN_LARGE = ("sure", "logistic regression", "calibrated logistic regression", "self-training", "supervised")
CROSSFITTED = "BAM-UDA, --crossfit 5"
ON_CRYSTALS: dict[str, Callable[..., Any]] = {
    CROSSFITTED: of_pixels("bam-uda", 5),
    **{name: METHODS[name] for name in tuple(METHODS)[1:5]},
    "supervised": of_pixels("supervised"),
    "FixMatch": of_pixels("fixmatch"),
    "UDA": of_pixels("uda"),
    "BAM-UDA": of_pixels("bam-uda"),
}
