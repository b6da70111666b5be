"""Mixup (Zhang et al., 2018) of the labelled samples: learn between two of them."""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from surelabel.config.run import Calibration, RunConfig
from surelabel.data.batch import Batch
from surelabel.equations import labelled_cross_entropy
from surelabel.methods.calibrators.base import Calibrator


@dataclass(frozen=True, kw_only=True)
class MixedBatch(Batch):
    """A batch whose labelled samples are λ of one and 1 - λ of another."""

    others: Tensor  # [B], the labels of the others
    share: float  # λ


@dataclass(frozen=True)
class Mixup(Calibrator):
    """In each step learn λ x_i + (1 - λ) x_j with the labels λ y_i + (1 - λ) y_j; λ ~ Beta(α, α), j a permutation.

    Only labelled samples are mixed: the pseudo-labels of two unlabelled ones may both be wrong, and each method
    selects them one by one.
    """

    alpha: float = Calibration.mixup_alpha
    mixes: ClassVar[bool] = True

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        return cls(config.calibration.mixup_alpha)

    def prepared(self, batch: Batch) -> MixedBatch:
        draws, world = batch.draws("mixup"), batch.world
        share = float(draws.beta(self.alpha, self.alpha))
        order = draws.permutation(world.total(len(batch.labels)))  # over the samples of all processes
        mine = torch.from_numpy(order[world.rows(len(order))]).to(batch.labels.device)
        # Samples are stored as bytes, and must not be rounded to them again.
        samples = batch.labelled.to(torch.promote_types(batch.labelled.dtype, torch.float32))
        mixed = share * samples + (1 - share) * world.gather(samples)[mine]
        changed = vars(batch) | {"labelled": mixed}
        return MixedBatch(**changed, others=world.gather(batch.labels)[mine], share=share)

    def labelled_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        assert isinstance(batch, MixedBatch)
        one, other = (labelled_cross_entropy(logits, labels) for labels in (batch.labels, batch.others))
        return batch.share * one + (1 - batch.share) * other
