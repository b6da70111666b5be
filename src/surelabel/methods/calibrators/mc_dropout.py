"""MC dropout (Gal and Ghahramani, 2016): features are left out in training, and when predicting too."""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from surelabel.config.run import Calibration, RunConfig
from surelabel.data.batch import Batch
from surelabel.methods.calibrators.base import Calibrator
from surelabel.models.dropout_head import DropoutHead
from surelabel.models.network import Head
from surelabel.utils.rng import uniforms


@dataclass(frozen=True)
class MCDropout(Calibrator):
    """Dropout before the last layer; predictions, those of pseudo-labels too, are means of `samples` such passes.

    They have a std, so a bam- method selects by it as it does with its Bayesian head.
    """

    dropout: float = Calibration.dropout
    samples: int = Calibration.samples
    has_head: ClassVar[bool] = True

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        return cls(config.calibration.dropout, config.calibration.samples)

    def build_head(self, features: int, classes: int) -> DropoutHead:
        return DropoutHead(features, classes, self.dropout, self.samples)

    def noise(self, head: Head, batch: Batch, joint: bool) -> Tensor:
        """A mask [N, D] for each row that is learnt from, and ones for the weak views of a joint pass."""
        assert isinstance(head, DropoutHead)

        def masks(role: str, rows: int) -> Tensor:
            rows = batch.world.total(rows)
            drawn = uniforms(batch.seed, f"dropout, {role}", batch.step, rows, head.in_features)
            return head.kept(drawn[batch.world.rows(rows)])

        made = [masks("labelled", len(batch.labels)), masks("strong", batch.unlabelled)]
        return torch.cat([*made, torch.ones_like(made[1])] if joint else made)
