"""The whole network: raw samples -> normalised -> features -> what its head makes of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from surelabel.config.run import WeakNorm
from surelabel.data.batch import Task
from surelabel.models.heads import BayesianHead, LinearHead
from surelabel.models.paws_head import PawsHead
from surelabel.models.prediction import Prediction

Head = LinearHead | BayesianHead | PawsHead


class Output(NamedTuple):
    """All that carries gradients: features [N, D], the head's outputs (logits [N, K], or PAWS's representations), and
    the KL of each weight and bias of a Bayesian layer.
    """

    features: Tensor
    outputs: Tensor
    kl: tuple[Tensor, Tensor] | None


class Network(nn.Module):
    """A backbone (samples -> features) and a head, fed with samples as they are stored.

    Normalisation happens inside, so that weights and the scale they were trained on never part. `forward` is the only
    path that carries gradients: calling the parts would bypass a distributed wrapper around the whole.
    """

    offset: Tensor
    scale: Tensor

    def __init__(self, backbone: nn.Module, head: Head, task: Task) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        each = (1, -1, *[1] * (len(task.shape) - 1))
        self.register_buffer("offset", torch.tensor(task.offset).view(each))
        self.register_buffer("scale", torch.tensor(task.scale).view(each))

    def features(self, images: Tensor) -> Tensor:
        """Images [N, C, H, W], or samples of another shape -> features [N, D]."""
        normalised = (images.to(self.scale.dtype) - self.offset) / self.scale
        if images.ndim == 4:
            normalised = normalised.contiguous(memory_format=torch.channels_last)
        features: Tensor = self.backbone(normalised)
        return features.to(normalised.dtype)  # out of mixed precision

    def forward(self, images: Tensor | Sequence[Tensor], noise: Tensor | None = None) -> Output:
        """Images [N, C, H, W], or several batches of different sizes; `noise` is what `head.noise` drew.

        Batches after the first are small views: they are normalised by their own statistics and do not move the running
        ones, by which whole images will be evaluated.
        """
        first, *others = [images] if isinstance(images, Tensor) else images
        features, outputs = self._pass(first, noise)
        if others:
            with normalised_by("batch-kept", self):
                passes = [(features, outputs), *(self._pass(other, noise) for other in others)]
            features, outputs = (torch.cat(parts) for parts in zip(*passes, strict=True))
        return Output(features, outputs, self.head.kl())

    def _pass(self, images: Tensor, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        features = self.features(images)
        return features, self.head(features, noise).to(features.dtype)

    @torch.no_grad()
    def predict(self, images: Tensor, draws: np.random.Generator, first: int = 0) -> Prediction:
        """Class probabilities of images [N, C, H, W], without gradients; a Bayesian head samples by `draws`.

        `first` is the number of the first image in the batch that the draws are for.
        """
        return self.head.predict(self.features(images), draws, first)


def running_statistics(network: nn.Module) -> list[Tensor]:
    """BatchNorm's running means and variances, as far as each process has its own: SyncBatchNorm has those of all."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    norms = [module for module in network.modules() if isinstance(module, kinds)]
    held = [statistic for norm in norms for statistic in (norm.running_mean, norm.running_var)]
    return [statistic for statistic in held if statistic is not None]


@contextmanager
def normalised_by(how: WeakNorm, network: nn.Module) -> Iterator[None]:
    """Within this block, what BatchNorm in a network in training normalises by.

    "batch": the batch's own statistics, which move the running ones, as ever. "batch-kept": the same, but the running
    ones stay. "running": the running ones, which stay, as in evaluation.
    """
    norms = [module for module in network.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    before = [(norm.training, norm.momentum) for norm in norms]
    try:
        for norm in norms:
            norm.training = norm.training and how != "running"
            norm.momentum = norm.momentum if how == "batch" else 0.0
        yield
    finally:
        for norm, (training, momentum) in zip(norms, before, strict=True):
            norm.training, norm.momentum = training, momentum
