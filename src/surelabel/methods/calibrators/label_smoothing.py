"""Label smoothing (Szegedy et al., 2016): a share ε of each label is spread evenly over all classes."""

from dataclasses import dataclass
from typing import Self

import torch.nn.functional as F
from torch import Tensor

from surelabel.config.run import Calibration, RunConfig
from surelabel.data.batch import Batch
from surelabel.methods.calibrators.base import Calibrator


@dataclass(frozen=True)
class LabelSmoothing(Calibrator):
    """Learn (1 - ε) y + ε / K in place of a label y; pseudo-labels stay as the method makes them."""

    smoothing: float = Calibration.smoothing

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        return cls(config.calibration.smoothing)

    def labelled_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(logits, batch.labels, label_smoothing=self.smoothing)
