"""The scikit-learn face: fit(X, y) with some of y unknown."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import Tensor

from surelabel.config.methods import find
from surelabel.config.recipes import recipe, table
from surelabel.config.run import CUSTOM, RunConfig, Views
from surelabel.config.settings import with_settings
from surelabel.config.validate import validate
from surelabel.data.source import UNLABELLED
from surelabel.data.tables.frames import is_frame
from surelabel.estimator.inputs import ImageInput, TableInput
from surelabel.estimator.labels import column_of, unlabelled_in, without_gaps
from surelabel.models.heads import BayesianHead
from surelabel.models.network import Network
from surelabel.models.prediction import Prediction
from surelabel.training import build, build_data
from surelabel.training.components import Components
from surelabel.training.fit import fit
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import FolderExists, UserError
from surelabel.utils.literals import Device
from surelabel.utils.rng import generator
from surelabel.utils.signals import Stopped

# Images with fewer pixels a side than this get a smaller network, which does not halve them at once.
SMALL_IMAGE = 16


class SureLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns from labelled and unlabelled samples, and says how sure it is.

    X is a table, [n, d] or a data frame, or images [n, h, w] or [n, h, w, c]; missing numbers of a table are NaN. In y,
    `unlabelled` marks the samples whose class is not known, and so do None, NaN and pandas' NA; among texts, "" too.

    Args:
        method: as for `surelabel fit --method`; "bam-" before a name gives `predict_std` too
        steps: of training; the recipe's number when not given
        settings: any others by their dotted names, such as {"optimizer.lr": 0.01}
        unlabelled: what stands in y for "not known"
        categorical: columns of a table, by name or number, whose numbers are names of categories
        mirror: whether the mirror image of an image is of the same class
        random_state: a number, from which all that is random follows; a numpy RandomState; None for another each time
        device: cpu, cuda, mps, or auto: cuda if there is one, else cpu
        out: a run folder to keep, which must not exist yet; without it, what was written on the way is removed
        verbose: show the progress of the training
    """

    def __init__(
        self,
        method: str = "bam-uda",
        *,
        steps: int | None = None,
        settings: Mapping[str, Any] | None = None,
        unlabelled: Any = UNLABELLED,
        categorical: Sequence[str | int] | None = None,
        mirror: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        device: Device = "auto",
        out: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.steps = steps
        self.settings = settings
        self.unlabelled = unlabelled
        self.categorical = categorical
        self.mirror = mirror
        self.random_state = random_state
        self.device = device
        self.out = out
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> "SureLabelClassifier":
        """Learn from samples X and their classes y [n], of which some are unknown."""
        if y is None:
            raise ValueError("SureLabelClassifier requires y to be passed, but the target y is None")
        X = self._checked(X, reset=True)
        y = column_of(y, warn=True)
        check_consistent_length(X, y)
        known = ~unlabelled_in(y, self.unlabelled)
        given = without_gaps(y[known])
        check_classification_targets(given)
        classes, numbers = np.unique(given, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y names {'one class' if len(classes) else 'no class'}, and at least two are needed")
        self.__dict__.pop("classes_", None)  # if this fit fails, what an earlier one learnt no longer belongs together
        labels = np.full(len(y), UNLABELLED)
        labels[known] = numbers
        with as_value_errors():
            _check_out(self.out)
            self._input = ImageInput.learn(X) if np.ndim(X) > 2 else TableInput.learn(X, self.categorical or ())
            data = self._input.data(X, labels, [str(name) for name in classes])
            self.run_ = self._config(data.train.shape)
            self.task_ = build_data.task_of(data)
            self._network = self._trained(Components(data))
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each sample [n]."""
        probs = self._predicted(X).probs
        chosen: NDArray[Any] = self.classes_[probs.argmax(dim=-1).numpy()]
        return chosen

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class [n, K], in the order of `classes_`."""
        return self._predicted(X).probs.numpy()

    @available_if(lambda self: _has_std(self.method))  # type: ignore[untyped-decorator]
    def predict_std(self, X: Any) -> NDArray[np.float64]:
        """How far the sampled predictions lie apart: the std of each probability [n, K]."""
        std = self._predicted(X).std
        assert std is not None
        return std.numpy()

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy on the samples whose class is known."""
        y = column_of(y)
        known = ~unlabelled_in(y, self.unlabelled)
        if not known.any():
            raise ValueError("y names no class, so there is nothing to score")
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average(self.predict(X)[known] == y[known], weights=weights))

    def _checked(self, X: Any, reset: bool) -> Any:
        """X as an array of numbers, or, if it is a data frame, as it is."""
        if is_frame(X):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        # The values of a data frame that was learnt from may be texts.
        dtype = (
            None if not reset and isinstance(self._input, TableInput) and self._input.trained_on_frame else "numeric"
        )
        X = validate_data(self, X, reset=reset, allow_nd=True, ensure_all_finite="allow-nan", dtype=dtype)
        if X.ndim > 2 and X.dtype.kind == "f" and np.isnan(X).any():
            raise ValueError("Input X contains NaN, which only a table may")
        return X

    def _config(self, shape: tuple[int, ...]) -> RunConfig:
        """The recipe for this kind of data, changed by the parameters."""
        if len(shape) == 1:
            run = table(self.method, CUSTOM)
        else:
            run = recipe(self.method, CUSTOM, "all")
            views = Views() if self.mirror else Views("shift", "shift", "strong-shift")
            run = replace(run, views=views)
            if min(shape[1:]) < SMALL_IMAGE:
                run = replace(run, steps=300, network=replace(run.network, name="wrn-10-1", stem_stride=1))
        threads = None if run.small else torch.get_num_threads()
        run = replace(run, seed=_seed(self.random_state), device=self.device, threads=threads)
        if self.steps is not None:
            run = replace(run, steps=self.steps)
        # There is no test set to look at on the way.
        run = replace(run, evaluation=replace(run.evaluation, every=run.steps))
        run = with_settings(run, dict(self.settings)) if self.settings else validate(run)
        if run.encoder != "none":
            raise UserError("encoder is for folders of pictures: `surelabel fit PICTURES`")
        return build.resolve(replace(run, out=None if self.out is None else str(self.out)))

    def _trained(self, components: Components) -> Network:
        """The network after the run, which leaves nothing behind but the folder that was asked for."""
        console = Console(quiet=not self.verbose)
        with undisturbed():
            trained = fit(self.run_, console=console, components=components, save=self.out is not None)
        return _for_predictions(trained.network)

    def _loaded(self, weights: dict[str, Tensor]) -> Network:
        network = build.build_network(self.run_, self.task_)
        network.load_state_dict(weights)
        return _for_predictions(network)

    def _predicted(self, X: Any) -> Prediction:
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        with as_value_errors():
            source = self._input.source(X)
        size = self.run_.evaluation.batch
        parts = [
            self._network.predict(torch.from_numpy(source.samples(rows)), generator(0, "evaluation"))
            for rows in np.split(np.arange(len(source)), range(size, len(source), size))
        ]
        stds = [part.std for part in parts if part.std is not None]
        return Prediction(torch.cat([part.probs for part in parts]), torch.cat(stds) if stds else None)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        tags.input_tags.categorical = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """The parameters and what was learnt, the weights as bytes."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "_network" in state:
            weights = state.pop("_network").state_dict()
            state["_weights"] = save_tensors({name: tensor.contiguous() for name, tensor in weights.items()})
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        weights = state.pop("_weights", None)
        super().__setstate__(state)
        if weights is not None:
            self._network = self._loaded(load_tensors(weights))


def _check_out(out: str | Path | None) -> None:
    """Before any work, and in the words of Python."""
    if not out:
        return
    folder = RunFolder(out)
    try:
        folder.check_absent()
        folder.check_writable()
    except FolderExists as error:
        raise UserError(f"out={str(out)!r} exists already: choose another folder, or remove it") from error


def _has_std(method: str) -> bool:
    found = find(method)
    return found.head is not None and found.family != "paws"


def _for_predictions(network: Network) -> Network:
    """The network such that a sample's prediction does not depend on the others that it is asked with.

    In double precision, as sums of another batch size round differently in single; and with the same weights drawn for
    all samples, where training draws logits for each.
    """
    if isinstance(network.head, BayesianHead):
        network.head.settings = replace(network.head.settings, sampling="weights")
    return network.cpu().double().eval()


def _seed(random_state: int | np.random.RandomState | None) -> int:
    """None takes a seed from the operating system: numpy's global generator stays as it is."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return int(random_state)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within this block the number of torch's threads may change, and other programs' advice is not shown."""
    threads = torch.get_num_threads()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning_fabric")
            yield
    except Stopped as stopped:
        raise KeyboardInterrupt from stopped
    finally:
        torch.set_num_threads(threads)


@contextmanager
def as_value_errors() -> Iterator[None]:
    """What is a mistake of the user's here is a ValueError there."""
    try:
        yield
    except UserError as error:
        raise ValueError(str(error)) from error
