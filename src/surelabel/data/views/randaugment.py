"""RandAugment: a few random operations per image, at random strengths."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from surelabel.data.views import colour
from surelabel.data.views.geometry import GEOMETRIC, move
from surelabel.data.views.pixels import check_bytes, whole_number
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
    """`ops` times: draw one of 14 operations and a level in 1..9, and apply it with `probability`.

    Rotations, shears and translations have a random sign.
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
        """images [B, C, H, W] uint8 with C = 1 or 3, u [B, 4 ops]: which, level, whether, sign."""
        check_bytes(images, "the strong view", "choose another for views.strong or views.labelled")
        for which, level, whether, sign in u.reshape(len(u), self.ops, 4).permute(1, 2, 0):
            operation = whole_number(which, len(OPERATIONS)).masked_fill_(whether >= self.probability, 0)
            images = _apply(images, operation, 1 + whole_number(level, 9), sign < 0.5)
        return images


def _apply(images: Tensor, operation: Tensor, level: Tensor, negative: Tensor) -> Tensor:
    """Apply one operation per image: sort by operation, apply by group, restore the order."""
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
