"""The scikit-learn interface: fit(X, y) with some of y unlabelled."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

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

from surelabel.config.methods import find
from surelabel.config.run import AVERAGING
from surelabel.data.groups import group_numbers
from surelabel.data.source import UNLABELLED, Source
from surelabel.data.tables.frames import is_frame
from surelabel.estimator.inputs import EmbeddingInput, ImageInput, TableInput
from surelabel.estimator.labels import column_of, unlabelled_in, without_gaps
from surelabel.estimator.recipe import config_of
from surelabel.models.network import Network
from surelabel.models.prediction import Prediction
from surelabel.training import build, build_data
from surelabel.training.components import Components
from surelabel.training.fit import fit
from surelabel.utils.errors import UserError
from surelabel.utils.literals import Device
from surelabel.utils.rng import generator
from surelabel.utils.signals import Stopped

KINDS = ("auto", "embeddings", "table")


class SureLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A semi-supervised classifier whose confidence can be trusted.

    X is a table, [n, d] or a data frame, or images [n, h, w] or [n, h, w, c]; missing numbers of a table are NaN. In y,
    `unlabelled`, None, NaN and pandas' NA mark samples without label; among texts, "" too.

    Args:
        method: "auto" is "sure" for tables, embeddings and images described by an encoder, and "bam-uda" for other
            images; or another, such as "uda". `predict_std` is available for these two and any other with "bam-"
        kind: "table", whose columns are quantities of their own; "embeddings", whose columns are directions of one
            space; "auto" takes rows for a table, and more axes for images
        encoder: the pretrained network that describes images, such as "efficientnet-lite2", or a callable (images
            [n, c, h, w] -> features [n, d]); "auto": where efficientnet-lite2 is installed, suits the images, and
            `method` is "auto" or "sure"; "none": the network learns from their pixels
        steps: of training; the recipe's default if None
        settings: other settings by their dotted names, such as {"optimizer.lr": 0.01}
        unlabelled: the label in y that means "unlabelled"
        categorical: columns of a table, by name or index, whose numbers are categories
        mirror: whether a mirrored image has the same class, for a network that learns from pixels
        random_state: a seed, a numpy RandomState, or None for another seed each time
        device: cpu, cuda, mps, or auto: cuda if there is one, else cpu
        out: a new run folder; if None, nothing is written
        verbose: show the progress of the training
    """

    def __init__(
        self,
        method: str = "auto",
        *,
        kind: Literal["auto", "embeddings", "table"] = "auto",
        encoder: str | Callable[[Any], Any] = "auto",
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
        self.kind = kind
        self.encoder = encoder
        self.steps = steps
        self.settings = settings
        self.unlabelled = unlabelled
        self.categorical = categorical
        self.mirror = mirror
        self.random_state = random_state
        self.device = device
        self.out = out
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> "SureLabelClassifier":
        """Train on samples X and their labels y [n], of which some are unlabelled.

        Samples with equal `groups` [n], such as those of one patient, are never labelled on both sides of a fold; one
        whose group is missing is a group of its own.
        """
        if y is None:
            raise ValueError("SureLabelClassifier requires y to be passed, but the target y is None")
        X = self._checked(X, reset=True)
        y = column_of(y, warn=True)
        check_consistent_length(X, y, groups)
        known = ~unlabelled_in(y, self.unlabelled)
        targets = without_gaps(y[known])
        check_classification_targets(targets)
        classes, numbers = np.unique(targets, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has {'one class' if len(classes) else 'no class'}: label at least two")
        self.__dict__.pop("classes_", None)  # a failed fit leaves the estimator unfitted
        labels = np.full(len(y), UNLABELLED)
        labels[known] = numbers
        with as_value_errors():
            self._input = self._learn_input(X)
            data = self._input.data(X, labels, [str(name) for name in classes])
            self.config_ = config_of(self, data.train.shape, len(y))
            if groups is not None:
                data.train.groups = self._groups(groups)
            console, components = Console(quiet=not self.verbose), replace(self._components(), data=data)
            with undisturbed():
                trained = fit(self.config_, console=console, components=components, save=self.out is not None)
            self.task_ = trained.task
            self._network = _for_predictions(trained.network)
            encoder = build_data.encoder_of(self.config_, components)
            self._fingerprint = None if encoder is None else encoder.fingerprint
        self.classes_ = classes
        return self

    def _learn_input(self, X: Any) -> EmbeddingInput | ImageInput | TableInput:
        """How X is read."""
        if self.kind not in KINDS:
            raise UserError(f"kind {self.kind!r}: choose one of {', '.join(KINDS)}")
        if self.kind != "auto" and np.ndim(X) > 2:
            raise UserError(f"kind {self.kind!r} is for rows [n, d], and X has the shape {np.shape(X)}")
        if self.kind == "embeddings":
            if self.categorical:
                raise UserError("categorical names columns of a table, and kind is 'embeddings': leave one out")
            return EmbeddingInput()
        return ImageInput.learn(X) if np.ndim(X) > 2 else TableInput.learn(X, self.categorical or ())

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class of each sample [n]."""
        probs = self._predicted(X).probs  # first, as it checks that the estimator is fitted
        classes: NDArray[Any] = self.classes_[probs.argmax(dim=-1).numpy()]
        return classes

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class [n, K], in the order of `classes_`."""
        return self._predicted(X).probs.numpy()

    @available_if(lambda self: _has_std(self.method, self.settings))  # type: ignore[untyped-decorator]
    def predict_std(self, X: Any) -> NDArray[np.float64]:
        """The std of each probability [n, K], under a Bayesian last layer or over what is averaged."""
        std = self._predicted(X).std
        assert std is not None
        return std.numpy()

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy on the labelled samples."""
        y = column_of(y)
        known = ~unlabelled_in(y, self.unlabelled)
        if not known.any():
            raise ValueError("y has no labels: there is nothing to score")
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average(self.predict(X)[known] == y[known], weights=weights))

    def _checked(self, X: Any, reset: bool) -> Any:
        """X, validated: an array or a data frame."""
        if is_frame(X) and self.kind != "embeddings":
            return validate_data(self, X, reset=reset, skip_check_array=True)
        if self.kind == "embeddings":
            return validate_data(self, X, reset=reset, allow_nd=True, dtype="numeric")
        # After training on a data frame, its values may include texts.
        texts = not reset and isinstance(self._input, TableInput) and self._input.trained_on_frame
        dtype = None if texts else "numeric"
        X = validate_data(self, X, reset=reset, allow_nd=True, ensure_all_finite="allow-nan", dtype=dtype)
        if X.ndim > 2 and X.dtype.kind == "f" and np.isnan(X).any():
            raise ValueError("Input X contains NaN, which is allowed only in a table")
        return X

    def _groups(self, groups: Any) -> NDArray[np.int64]:
        """The number of each sample's group."""
        if not self.config_.leaves_labels_out and self.config_.holdout is None:
            raise UserError(f"groups have no effect on method {self.config_.method}, which leaves no labels out")
        names = column_of(groups)
        missing = unlabelled_in(names, None)
        return group_numbers(names.astype(np.str_) if names.dtype == object else names, missing)

    def _components(self) -> Components:
        return Components(encoder=self.encoder if callable(self.encoder) else None)

    def _seen(self, X: Any) -> Source:
        """X as the network takes it."""
        encoder = build_data.encoder_of(replace(self.config_, device="auto"), self._components())
        if encoder is not None and encoder.fingerprint != self._fingerprint:
            raise UserError(
                f"encoder {encoder.name} has other weights than the one that this was fitted with: fit again"
            )
        return build_data.as_seen(self._input.source(X), encoder, keep=False, trained=self.config_.train_encoder)

    def _predicted(self, X: Any) -> Prediction:
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        with as_value_errors():
            source = self._seen(X)
        size = self.config_.evaluation.batch
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
        """The parameters and the fitted state, with the weights as bytes."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "_network" in state:
            weights = state.pop("_network").state_dict()
            state["_weights"] = save_tensors({name: tensor.contiguous() for name, tensor in weights.items()})
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        weights = state.pop("_weights", None)
        super().__setstate__(state)
        if weights is not None:
            network = build.build_network(self.config_, self.task_)
            network.load_state_dict(load_tensors(weights))
            self._network = _for_predictions(network)


def _has_std(method: str, settings: Mapping[str, Any] | None) -> bool:
    if method in ("auto", "sure") or (settings or {}).get("calibrator") in AVERAGING:
        return True
    found = find(method)
    return found.head is not None and found.family != "paws"


def _for_predictions(network: Network) -> Network:
    """Make each prediction independent of the rest of the batch: the rounding of float32 depends on its size."""
    return network.cpu().double().eval()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Restore torch's number of threads, hide Lightning's warnings, and turn a stop into KeyboardInterrupt."""
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
    """Raise `UserError`s as `ValueError`s, as scikit-learn does."""
    try:
        yield
    except UserError as error:
        raise ValueError(str(error)) from error
