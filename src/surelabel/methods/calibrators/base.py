"""The interface of a calibrator: where it can change a self-training method."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from surelabel.config.run import RunConfig
from surelabel.data.batch import Batch
from surelabel.data.loader import Loader
from surelabel.data.source import Source
from surelabel.equations import labelled_cross_entropy
from surelabel.models.heads import LinearHead
from surelabel.models.network import Head, Network


@dataclass(frozen=True)
class Calibrator:
    """None: it changes nothing. A calibrator overrides what it changes."""

    has_head: ClassVar[bool] = False  # which takes the place of the method's
    mixes: ClassVar[bool] = False  # labelled samples, which then have two labels

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        """The calibrator with the constants of a config; raises a `UserError` where it cannot be combined."""
        return cls()

    def build_head(self, features: int, classes: int) -> Head:
        """The last layer, where the method has no Bayesian one."""
        return LinearHead(features, classes)

    def wrapped(self, loader: Loader) -> Loader:
        """The loader, with what the losses need."""
        return loader

    def check(self, network: Network, labels: int) -> None:
        """Raise a `UserError` if so many labels are too many, before the training."""

    def prepared(self, batch: Batch) -> Batch:
        """The batch that is learnt from."""
        return batch

    def noise(self, head: Head, batch: Batch, joint: bool) -> Tensor | None:
        """What the head is given for the labelled and strong views and, in a `joint` pass, the weak ones."""
        return head.noise(batch.draws("weights"))  # one draw of the weights for all logits of the step

    def labelled_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """The loss on the labels; logits [B, K]."""
        return labelled_cross_entropy(logits, batch.labels)

    def penalty(self, logits: Tensor) -> tuple[Tensor, float] | None:
        """A further term of the loss and its weight; logits of the labelled and strong views."""
        return None

    def before_evaluation(self, network: Network, source: Source, labelled: NDArray[np.int64], batch: int) -> None:
        """Fit what is fitted to trained weights."""
