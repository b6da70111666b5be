"""The hidden layers of an ensemble of small networks, side by side in one matrix product."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from surelabel.utils.errors import UserError


class Members(nn.Module):
    """Samples [N, d] -> features [N, E h + p]: a projection to p components, and for each of E members h features.

    These are linear, LayerNorm, ReLU; the components are there for linear models beside the members. The projection to
    at most `components` directions is not trained: it is set to `principal_components` of the pool.
    """

    projection: Tensor

    def __init__(self, shape: tuple[int, ...], members: int, width: int, components: int) -> None:
        super().__init__()
        check_shape(shape)
        inputs = min(shape[0], components)
        self.members, self.width, self.features = members, width, members * width + inputs
        self.register_buffer("projection", torch.eye(shape[0], inputs))
        self.hidden = nn.Linear(inputs, members * width)
        nn.init.normal_(self.hidden.weight, std=(2 / inputs) ** 0.5)
        nn.init.zeros_(self.hidden.bias)

    def forward(self, samples: Tensor) -> Tensor:
        components = samples @ self.projection
        hidden: Tensor = self.hidden(components)
        normed = functional.layer_norm(hidden.view(-1, self.members, self.width), (self.width,))
        return torch.cat([functional.relu(normed).flatten(1), components], dim=1)


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
