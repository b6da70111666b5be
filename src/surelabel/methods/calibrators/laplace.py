"""Last-layer Laplace (Daxberger et al., 2021): after training, average over the posterior of the last layer."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.config.methods import find
from surelabel.config.run import Calibration, RunConfig
from surelabel.data.source import Source, in_batches
from surelabel.methods.calibrators.base import Calibrator
from surelabel.models.laplace import MOST, eigenvectors_held
from surelabel.models.laplace_head import LaplaceHead
from surelabel.models.network import Network
from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class Laplace(Calibrator):
    """Train with a linear layer; before each evaluation, fit the posterior of its weights to the labelled samples."""

    precision: float | None = Calibration.prior_precision

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        if find(config.method).head is not None:
            raise UserError(
                f"calibrator laplace is fitted to a linear last layer after training, and {config.method} trains a "
                "Bayesian one: choose the method without bam-"
            )
        return cls(config.calibration.prior_precision)

    def build_head(self, features: int, classes: int) -> LaplaceHead:
        return LaplaceHead(features, classes, self.precision)

    def check(self, network: Network, labels: int) -> None:
        assert isinstance(network.head, LaplaceHead)
        classes, features = network.head.weight.shape
        if eigenvectors_held(labels, classes, features) > MOST:
            raise UserError(
                f"calibrator laplace needs the Hessian of the last layer, and {classes} classes, {features} features "
                f"and {labels} labels are too many for it: use fewer labels, a smaller network or another calibrator"
            )

    @torch.no_grad()
    def before_evaluation(self, network: Network, source: Source, labelled: NDArray[np.int64], batch: int) -> None:
        assert isinstance(network.head, LaplaceHead)
        device, training = network.scale.device, network.training
        network.eval()
        parts = [network.features(torch.from_numpy(some).to(device)) for some in in_batches(source, labelled, batch)]
        network.train(training)
        network.head.fit(torch.cat(parts))
