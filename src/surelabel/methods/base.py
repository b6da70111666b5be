"""The interface of a method: all that the training loop and the builders use."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from surelabel.config.run import Alignment, RunConfig
from surelabel.data.source import DataSet, Source
from surelabel.data.views import View
from surelabel.models.network import Head, Network
from surelabel.models.prediction import Prediction
from surelabel.utils.distributed import World

if TYPE_CHECKING:
    from surelabel.models.heads import Bayesian

State = dict[str, Tensor]  # what a method remembers between steps


def moving_mean(old: Tensor, latest: Tensor, decay: float) -> Tensor:
    """An exponential moving mean after its latest value."""
    return decay * old + (1 - decay) * latest


@dataclass(frozen=True)
class PoolPrediction(Prediction):
    """The prediction for the unlabelled samples of the global batch, with what a rule may know beside it."""

    positions: Tensor | None = None  # [U], of the samples in the pool
    labelled: Tensor | None = None  # [B, K], the probabilities for the labelled samples, if a rule needs them
    labels: Tensor | None = None  # [B]


@dataclass(frozen=True)
class Losses:
    """The loss of one step, its terms by name, and the predictions for unlabelled samples."""

    total: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)  # unweighted
    prediction: Prediction | None = None  # of the unlabelled samples, for the pseudo-labels
    accepted: Tensor | None = None  # [U], how far each pseudo-label was: weights in [0, 1], or bool


class StepLoader(Protocol):
    """Makes the batch of a step, as a function of the seed and the step only."""

    source: Source
    labelled: NDArray[np.int64]
    world: World

    def __call__(self, step: int) -> Any: ...


@dataclass(frozen=True)
class Pool:
    """What a method may know of the data before the first step."""

    samples: int
    labels: Tensor  # [K], how many of each class

    @classmethod
    def of(cls, loader: StepLoader) -> "Pool":
        source = loader.source
        counts = np.bincount(source.labels[loader.labelled], minlength=len(source.classes))
        return cls(len(source), torch.from_numpy(counts))

    @property
    def classes(self) -> int:
        return len(self.labels)


class Method(Protocol):
    """A frozen value: the loss of a method, and the settings, head and batches that it needs."""

    family: ClassVar[str]  # of recipes
    ratio: int  # unlabelled samples per labelled one, as published
    averaged: ClassVar[bool]  # whether a running average of the network is evaluated
    alignment: Alignment  # how it aligns its pseudo-labels by itself
    head: "Bayesian | None"

    @property
    def reads(self) -> frozenset[str]:
        """Which of the settings in `config.methods.OWNED` it reads."""

    def configured(self, config: RunConfig, samples: int = 1) -> Self:
        """The method with the settings of a config; `samples` is the number of distinct training samples."""

    def fill(self, config: RunConfig) -> RunConfig:
        """The config with the values of this method in place of None."""

    def build_head(self, config: RunConfig, features: int, classes: int) -> Head:
        """The last layer of its network."""

    def build_loader(
        self,
        config: RunConfig,
        data: DataSet,
        labelled: NDArray[np.int64],
        device: torch.device,
        view: Callable[[str], View],
        world: World,
    ) -> StepLoader:
        """The loader of its batches; `view` maps a role (labelled, weak or strong) to its view."""

    def before_training(self, network: Network, loader: Any) -> None:
        """Set what a new network takes from the pool before it is trained."""

    def before_evaluation(self, network: Network, source: Source, labelled: NDArray[np.int64], batch: int) -> None:
        """Make a network ready to predict, if its weights are not enough."""

    def init(self, pool: Pool) -> State:
        """The state before the first step."""

    def loss(self, model: nn.Module, teacher: Network, batch: Any, state: State, step: int) -> tuple[Losses, State]:
        """The losses of one step and the new state.

        `model` gets the gradients and may be wrapped; `teacher` is a bare network that makes the pseudo-labels.
        """
