"""Last-layer ensemble: several linear layers on one backbone (deep ensembles: Lakshminarayanan et al., 2017)."""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.config.run import Calibration, RunConfig
from surelabel.data.batch import Batch
from surelabel.data.loader import Loader
from surelabel.methods.calibrators.base import Calibrator
from surelabel.models.ensemble_head import EnsembleHead
from surelabel.utils.rng import generator


@dataclass(frozen=True, kw_only=True)
class WeighedBatch(Batch):
    """A batch in which each label counts differently for each member."""

    weights: Tensor  # [B, E]


@dataclass(frozen=True, kw_only=True)
class WeighedLoader(Loader):
    """A loader that adds the weights of the labels."""

    weights: Tensor  # [N, E], of the whole pool

    def __call__(self, step: int) -> WeighedBatch:
        drawn = torch.from_numpy(self.indices(step)[0])
        return WeighedBatch(**vars(super().__call__(step)), weights=self.weights[drawn].to(self.device))


@dataclass(frozen=True)
class LastLayerEnsemble(Calibrator):
    """The mean of E linear layers, each with initial weights and a loss of its own; the loss is the mean of theirs.

    With `bootstrap`, each weighs the labels by draws of its own from Exp(1), over their mean: the Bayesian bootstrap
    (Rubin, 1981), which loses no label, as drawing few labels with replacement would. Pseudo-labels are means too.
    """

    members: int = Calibration.members
    bootstrap: bool = Calibration.bootstrap
    has_head: ClassVar[bool] = True

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        return cls(config.calibration.members, config.calibration.bootstrap)

    def build_head(self, features: int, classes: int) -> EnsembleHead:
        return EnsembleHead(features, classes, self.members)

    def wrapped(self, loader: Loader) -> WeighedLoader:
        weights = torch.ones(len(loader.source), self.members)
        if self.bootstrap:
            drawn = generator(loader.seed, "bootstrap").exponential(size=(len(loader.labelled), self.members))
            weights[torch.from_numpy(loader.labelled)] = torch.from_numpy(drawn / drawn.mean(0)).float()
        return WeighedLoader(**vars(loader), weights=weights)

    def labelled_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """The mean over members of their weighted cross-entropies; logits [B, E, K]."""
        assert isinstance(batch, WeighedBatch)
        labels = batch.labels[:, None].expand(-1, logits.shape[1])
        losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
        return (batch.weights.to(losses.dtype) * losses).mean()
