"""A random number for each column of a row from a single draw: a piece of a long array that never changes.

Drawing a number for each of a thousand columns takes longer than a small network's pass over them. Two rows have the
same numbers only if their pieces begin at the same of 2²⁰ places; where pieces overlap, the same number is in another
column of each.
"""

from functools import lru_cache

import torch
from torch import Tensor

from surelabel.data.views.pixels import whole_number
from surelabel.utils.rng import generator

PLACES = 2**20


@lru_cache(maxsize=4)
def normals(columns: int, device: torch.device) -> Tensor:
    """Standard normal numbers, for pieces of so many columns."""
    drawn = generator(0, "normal numbers").standard_normal(PLACES + columns - 1, dtype="float32")
    return torch.from_numpy(drawn).to(device)


def chances(probability: float, columns: int, device: torch.device) -> Tensor:
    """Ones with this probability, else zeros, for pieces of so many columns."""
    drawn = generator(0, "chances").random(PLACES + columns - 1, dtype="float32") < probability
    return torch.from_numpy(drawn).to(device, torch.float32)


def pieces(numbers: Tensor, columns: int, u: Tensor) -> Tensor:
    """The pieces [B, columns] that begin where u [B] says."""
    return numbers.unfold(0, columns, 1).index_select(0, whole_number(u, PLACES))
