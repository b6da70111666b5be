"""What an encoder is: a pretrained network that describes pictures or texts by numbers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from surelabel.data.images.scaling import PLAIN, Scaling
from surelabel.utils.errors import UserError

Reads = Literal["pictures", "texts"]
Batch = NDArray[np.uint8] | list[str]


@dataclass(frozen=True)
class Preprocessing:
    """What pictures become: `side` × `side` pixels, from 0 to 255, of which a network sees (pixel - mean) / std.

    `mean` and `std` are of the three colours.
    """

    side: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scaling: Scaling = PLAIN

    def at(self, side: int | None) -> "Preprocessing":
        """The same for another side, where one is given."""
        return self if side is None else replace(self, side=side)


class Encoder(ABC):
    """Describes samples: a call turns n of them into features [n, `dimensions`].

    `name` is the one that it was asked for by. `preprocessing` is of pictures. `fingerprint` is a hash of weights and
    preprocessing: it is part of the key of stored features, and a run folder keeps it. It is empty where the weights
    cannot be known; features are then not stored.
    """

    name: str
    reads: Reads
    preprocessing: Preprocessing | None
    dimensions: int
    fingerprint: str
    revision: str | None = None  # the commit on a hub that the weights are of
    ranked = False  # features are directions by falling size, which tells how much each counts

    def fitted(self, texts: Sequence[str]) -> "Encoder":
        """This encoder or, of one that knows nothing by itself, what these texts make of it."""
        return self

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What a run folder must keep of it: nothing, if it can be opened again."""
        return {}

    @abstractmethod
    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        """Features [n, D] of uint8 pictures [n, 1 or 3, side, side], or of n texts."""


class Normalised(nn.Module):
    """Pixels from 0 to 255 [N, 1 or 3, H, W] -> features [N, D], by a network that takes normalised colours."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(preprocessing.mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(preprocessing.std).view(1, -1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.network((in_colour(images).to(self.mean.dtype) - self.mean) / self.std)
        return features


class TorchEncoder(Encoder):
    """An encoder of pictures by a torch module: normalised colours [N, 3, side, side] -> features [N, D]."""

    reads: Reads = "pictures"
    preprocessing: Preprocessing

    def __init__(self, name: str, network: nn.Module, preprocessing: Preprocessing, device: str = "cpu") -> None:
        self.name, self.preprocessing = name, preprocessing
        self.network = network.eval().requires_grad_(False)
        self.module = Normalised(self.network, preprocessing).eval().to(device)
        self.device = device
        side = preprocessing.side
        try:
            with torch.inference_mode():
                shape = self.module(torch.zeros((2, 3, side, side), device=device)).shape
        except UserError:
            raise
        except Exception as error:  # whatever a network raises of a size that it was not made for
            raise UserError(f"encoder {name} cannot read pictures of {side} × {side} pixels: {error}") from error
        self.dimensions = dimensions_of(name, shape)
        self.fingerprint = fingerprint_of(network, preprocessing)

    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        with torch.inference_mode():
            found: Tensor = self.module(torch.from_numpy(np.asarray(batch)).to(self.device))
        return found.float().cpu().numpy()


def in_colour(images: Tensor) -> Tensor:
    """Grey pictures [N, 1, H, W] as ones in colour."""
    return images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images


def dimensions_of(name: str, shape: Sequence[int]) -> int:
    """How many features there are of each sample, if two samples became an array of this shape; else an error."""
    if len(shape) != 2 or shape[0] != 2 or not shape[1]:
        raise UserError(
            f"encoder {name} turns 2 samples into an array {tuple(shape)}: it must give features [2, D], one row for "
            "each. Choose a model with a pooled output"
        )
    return shape[1]


def fingerprint_of(network: nn.Module, preprocessing: object) -> str:
    """A hash of all weights and of how samples are prepared."""
    digest = blake2b(repr(preprocessing).encode(), digest_size=16)
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
