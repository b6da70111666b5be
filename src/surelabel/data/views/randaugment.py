"""The strong view's heart: a few operations, drawn at random for each image, at random strengths."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from surelabel.data.views import colour
from surelabel.data.views.geometry import GEOMETRIC, move
from surelabel.data.views.pixels import whole_number
from surelabel.utils.errors import UserError

COLOUR: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "AutoContrast": colour.auto_contrast,
    "Brightness": colour.brightness,
    "Color": colour.colour,
    "Contrast": colour.contrast,
    "Equalize": colour.equalize,
    "Posterize": colour.posterize,
    "Sharpness": colour.sharpness,
    "Solarize": colour.solarize,
}
OPERATIONS = ("Identity", *COLOUR, *GEOMETRIC)
_FIRST_GEOMETRIC = len(OPERATIONS) - len(GEOMETRIC)


@dataclass(frozen=True)
class RandAugment:
    """`ops` times: draw one of 14 operations and a level in 1..9, and apply it with the given probability.

    Rotations, shears and translations go either way with probability 1/2.
    """

    ops: int = 2
    probability: float = 0.5

    def __post_init__(self) -> None:
        if self.ops < 1 or not 0 <= self.probability <= 1:
            raise UserError(f"{self} is not possible: ops must be at least 1 and probability from 0 to 1")

    @property
    def draws(self) -> int:
        return 4 * self.ops

    def __call__(self, images: Tensor, u: Tensor) -> Tensor:
        """images [B, C, H, W] uint8 with C = 1 or 3, u [B, 4 ops]: per operation which, level, whether, sign."""
        if images.dtype != torch.uint8 or images.shape[1] not in (1, 3):
            raise UserError(
                "the strong view needs uint8 images with 1 or 3 channels, but these are "
                f"{str(images.dtype).removeprefix('torch.')} with {images.shape[1]}: "
                "choose another by --views.strong, or --views.labelled"
            )
        for which, level, whether, sign in u.reshape(len(u), self.ops, 4).permute(1, 2, 0):
            operation = whole_number(which, len(OPERATIONS)).masked_fill_(whether >= self.probability, 0)
            images = _apply(images, operation, 1 + whole_number(level, 9), sign < 0.5)
        return images


def _apply(images: Tensor, operation: Tensor, level: Tensor, negative: Tensor) -> Tensor:
    """Each image changed by its own operation: sort by operation, change group by group, restore the order."""
    order = operation.argsort()
    counts = operation.bincount(minlength=len(OPERATIONS)).tolist()
    sizes = [*counts[:_FIRST_GEOMETRIC], sum(counts[_FIRST_GEOMETRIC:])]
    unchanged, *recoloured, moved = torch.split(images.index_select(0, order), sizes)
    _, *levels, _ = torch.split(level[order], sizes)
    last = order[len(order) - len(moved) :]
    changed = [
        unchanged,
        *(change(*group) for change, *group in zip(COLOUR.values(), recoloured, levels, strict=True) if len(group[0])),
        move(moved, operation[last] - _FIRST_GEOMETRIC, level[last], negative[last]),
    ]
    return torch.cat(changed).index_select(0, order.argsort())
