"""The whole network: raw images -> normalised -> features -> logits."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from surelabel.backbones import ResNet, WideResNet
from surelabel.config import WeakNorm
from surelabel.heads import BayesianHead, LinearHead
from surelabel.types import Prediction, Task


class Network(nn.Module):
    """A backbone and a head, fed with images as they are stored.

    Normalisation happens inside, so that weights and the scale they were trained on never part. `forward` is the only
    path that carries gradients: calling the parts would bypass a distributed wrapper around the whole.
    """

    offset: Tensor
    scale: Tensor

    def __init__(self, backbone: WideResNet | ResNet, head: LinearHead | BayesianHead, task: Task) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.register_buffer("offset", torch.tensor(task.offset).view(1, -1, 1, 1))
        self.register_buffer("scale", torch.tensor(task.scale).view(1, -1, 1, 1))

    def features(self, images: Tensor) -> Tensor:
        """Images [N, C, H, W] -> features [N, D]."""
        normalised = (images.to(self.scale.dtype) - self.offset) / self.scale
        features: Tensor = self.backbone(normalised.contiguous(memory_format=torch.channels_last))
        return features

    def forward(self, images: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Images [N, C, H, W] -> features [N, D], logits [N, K]; `noise` is what `head.noise` drew."""
        features = self.features(images)
        logits: Tensor = self.head(features, noise)
        return features, logits

    @torch.no_grad()
    def predict(self, images: Tensor, draws: np.random.Generator) -> Prediction:
        """Class probabilities of images [N, C, H, W], without gradients; a Bayesian head samples by `draws`."""
        return self.head.predict(self.features(images), draws)


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
