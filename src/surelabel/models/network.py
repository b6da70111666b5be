"""The whole network: normalisation, backbone, head."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from surelabel.config.run import WeakNorm
from surelabel.data.batch import Task
from surelabel.models.dropout_head import DropoutHead
from surelabel.models.ensemble_head import EnsembleHead
from surelabel.models.heads import BayesianHead, LinearHead
from surelabel.models.laplace_head import LaplaceHead
from surelabel.models.members_head import MembersHead
from surelabel.models.paws_head import PawsHead
from surelabel.models.prediction import Prediction
from surelabel.utils.bounded import Malformed, briefly

EXTRA_STATE = "_extra_state"  # the end of torch's name for what a head stores beside its weights
LARGE = 2**15  # numbers of a weight
Head = LinearHead | DropoutHead | LaplaceHead | EnsembleHead | BayesianHead | PawsHead | MembersHead


class Output(NamedTuple):
    """Features [N, D]; the head's outputs, logits [N, K] or
    [N, E, K], or PAWS's representations; the KL of each
    weight and bias of a Bayesian layer. All carry gradients.
    """

    features: Tensor
    outputs: Tensor
    kl: tuple[Tensor, Tensor] | None


class Network(nn.Module):
    """A backbone (samples -> features) and a head, for samples as they are stored.

    It normalises its input itself, so the statistics are saved with the weights. `forward` is the
    only path that carries gradients: calling the parts would bypass a distributed wrapper. The `temperature`, which
    left-out labels choose once it is trained, is that of `predict`; pseudo-labels are made by the head.
    """

    offset: Tensor
    scale: Tensor
    temperature: float = 1.0

    def __init__(self, backbone: nn.Module, head: Head, task: Task) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.classes = len(task.classes)
        by_channel = (1, -1, *[1] * (len(task.shape) - 1))
        self.register_buffer("offset", torch.tensor(task.offset).view(by_channel))
        self.register_buffer("scale", torch.tensor(task.scale).view(by_channel))

    @cached_property
    def has_large_products(self) -> bool:
        """Whether a weight that is no convolution's is large, so that other products would be worth their overhead."""
        return any(weight.ndim < 4 and weight.numel() >= LARGE for weight in self.parameters())

    def features(self, images: Tensor) -> Tensor:
        """Images [N, C, H, W], or other samples [N, ...] -> features [N, D]."""
        normalised = self.normalised(images)
        features: Tensor = self.backbone(normalised)
        return features.to(normalised.dtype)  # out of mixed precision

    def normalised(self, images: Tensor) -> Tensor:
        """What the backbone takes: each channel with mean 0 and std 1 over the training set."""
        normalised = (images.to(self.scale.dtype) - self.offset) / self.scale
        return normalised.contiguous(memory_format=torch.channels_last) if images.ndim == 4 else normalised

    def forward(self, images: Tensor | Sequence[Tensor], noise: Tensor | None = None) -> Output:
        """Images [N, C, H, W], or batches of several sizes, with the noise of `head.noise`.

        Batches after the first are small crops: BatchNorm normalises each by its own statistics,
        and keeps them out of the running ones, which are for whole images.
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
    def predict(self, images: Tensor, rng: np.random.Generator, first: int = 0) -> Prediction:
        """Class probabilities of images [N, C, H, W]; a Bayesian head draws nothing for them, unlike for pseudo-labels.

        `first` is the position of the first image in the global batch.
        """
        features, head = self.features(images), self.head
        predicted = head.expected(features) if isinstance(head, BayesianHead) else head.predict(features, rng, first)
        return predicted.at(self.temperature)


def load_weights(network: nn.Module, stored: Mapping[str, Tensor]) -> None:
    """Load a `state_dict`; raises `Malformed` if it is of another network."""
    expected = network.state_dict()
    for name, tensor in stored.items():
        if name in expected and not name.endswith(EXTRA_STATE) and tensor.dtype != expected[name].dtype:
            raise Malformed(f"{name} is {tensor.dtype}, not {expected[name].dtype}")
    try:
        network.load_state_dict(stored)
    except (RuntimeError, ValueError) as error:
        raise Malformed(briefly(error)) from error


@contextmanager
def normalised_by(how: WeakNorm, network: nn.Module) -> Iterator[None]:
    """Set which statistics BatchNorm uses in a network in training.

    "batch": those of the batch, and update the running ones, as usual. "batch-kept": those of the
    batch, without the update. "running": the running ones, as in evaluation.
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
