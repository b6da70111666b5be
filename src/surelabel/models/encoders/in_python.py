"""An encoder that is passed in Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.config.encoders import CUSTOM
from surelabel.models.encoders.base import Batch, Encoder, Preprocessing, dimensions_of, fingerprint_of
from surelabel.utils.errors import UserError


def opened(given: Callable[[Any], Any], side: int | None) -> Encoder:
    """The callable as an encoder; itself if it is one."""
    return given if isinstance(given, Encoder) else PythonEncoder(given, side)


class PythonEncoder(Encoder):
    """A callable that turns uint8 pictures [n, C, H, W] into features [n, D], as an array or a tensor.

    Pictures have the size of its `preprocessing`, where it has that attribute, else the run's image_size, else their
    own. Features are stored where there is a `fingerprint` to know them by, as there is of a torch module.
    """

    reads = "pictures"
    dimensions = 0  # not known before it was called

    def __init__(self, given: Callable[[Any], Any], side: int | None = None) -> None:
        if not callable(given):
            raise UserError(f"the encoder must be a callable, and is a {type(given).__name__}")
        self.name, self.given = CUSTOM, given.eval() if isinstance(given, torch.nn.Module) else given
        plain = None if side is None else Preprocessing(side, (0.0,) * 3, (1.0,) * 3)
        self.preprocessing = getattr(given, "preprocessing", plain)
        if self.preprocessing is not None:  # else nobody knows yet of what size pictures will be
            side = self.preprocessing.side
            self.dimensions = dimensions_of(self.name, self(np.zeros((2, 3, side, side), np.uint8)).shape)
        weights = fingerprint_of(given, self.preprocessing) if isinstance(given, torch.nn.Module) else ""
        self.fingerprint = getattr(given, "fingerprint", weights)

    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        pictures: Any = np.asarray(batch)
        if isinstance(self.given, torch.nn.Module):
            pictures = torch.from_numpy(pictures)
        with torch.inference_mode():
            found = self.given(pictures)
        rows = np.asarray(found.cpu() if isinstance(found, torch.Tensor) else found, dtype=np.float32)
        if rows.ndim == 2:
            self.dimensions = rows.shape[1]
        return rows
