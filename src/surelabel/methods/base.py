"""What a method is: the training loop and the builders ask nothing else of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from surelabel.config.run import RunConfig
from surelabel.data.source import DataSet, Source
from surelabel.data.views import View
from surelabel.models.network import Head, Network
from surelabel.models.prediction import Prediction
from surelabel.utils.distributed import World

if TYPE_CHECKING:
    from surelabel.models.heads import Bayesian

State = dict[str, Tensor]  # what a method remembers between steps


@dataclass(frozen=True)
class Losses:
    """What one step of a method computes: the loss, its parts by name, and what was taken from unlabelled samples."""

    total: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)  # unweighted
    prediction: Prediction | None = None  # of the unlabelled samples, which made the pseudo-labels
    mask: Tensor | None = None  # [U], whose pseudo-label was accepted


class StepLoader(Protocol):
    """Makes the batch of a step, as a function of the run's seed and the step alone."""

    source: Source
    labelled: NDArray[np.int64]
    world: World

    def __call__(self, step: int) -> Any: ...


class Method(Protocol):
    """A frozen value that knows how to learn, and which settings, head and batches it needs for that."""

    family: ClassVar[str]  # whose recipes it takes
    ratio: int  # unlabelled samples for each labelled one, as published
    averaged: ClassVar[bool]  # whether a running average of the network is evaluated
    head: "Bayesian | None"

    @property
    def reads(self) -> frozenset[str]:
        """The settings that it reads of those which methods own (`config.methods.OWNED`)."""

    def configured(self, config: RunConfig, samples: int = 1) -> Self:
        """The method with the settings of a run; the ELBO divides by the number of distinct training `samples`."""

    def fill(self, config: RunConfig) -> RunConfig:
        """The config with this method's values where it leaves them open."""

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
        """Its batches; `view` gives the view of a role: labelled, weak or strong."""

    def before_evaluation(self, network: Network, source: Source, labelled: NDArray[np.int64], batch: int) -> None:
        """Make a network ready to predict, where that takes more than its weights."""

    def init(self) -> State:
        """What the method remembers before the first step."""

    def loss(self, model: nn.Module, teacher: Network, batch: Any, state: State, step: int) -> tuple[Losses, State]:
        """The losses of one step, and what the method remembers after it.

        `model` carries the gradients and may be wrapped; `teacher` is a bare network that makes the pseudo-labels.
        """
