"""What the members of an ensemble see of a sample: its principal components."""

import torch
from torch import Tensor, nn

from surelabel.utils.errors import UserError


class Projection(nn.Module):
    """Samples [N, d] -> components [N, p]: along at most `components` directions, or the samples themselves.

    It is not trained: it is set to `principal_components` of the pool.
    """

    projection: Tensor

    def __init__(self, shape: tuple[int, ...], components: int) -> None:
        super().__init__()
        check_shape(shape)
        self.features = min(shape[0], components)
        self.register_buffer("projection", torch.eye(shape[0], self.features))

    def forward(self, samples: Tensor) -> Tensor:
        return samples @ self.projection


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise unless samples are rows of numbers."""
    if len(shape) != 1:
        raise UserError(
            f"members are for tables, embeddings and features of pictures, but the samples have the shape {shape}: "
            "choose an encoder, or another method"
        )


def principal_components(rows: Tensor, components: int, always: bool = False) -> Tensor:
    """The projection [d, p] of rows [N, d] of mean 0 to p of their directions, scaled to a mean square of 1.

    The identity if rows have no more numbers than `components`, unless it is `always` wanted.
    """
    inputs = rows.shape[1]
    if inputs <= components and not always:
        return torch.eye(inputs)
    _, directions = torch.linalg.eigh((rows.T @ rows).double())
    chosen: Tensor = directions.flip(1)[:, :components].float()
    return chosen / (rows @ chosen).square().mean().sqrt().clamp_min(1e-12)
