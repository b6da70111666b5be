"""The process group: this rank's rows of a batch, and sums and gathers over all ranks.

Random numbers and indices are drawn for the global batch, and each rank takes its rows, so N
processes see exactly the samples, views and weight draws that one would. What depends on the whole
batch is gathered first. A loss is a mean over this rank's rows, times `World.weight`: the mean over
the ranks is then the loss of the global batch, and so are the gradients.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class World:
    """The rank of this process and the world size. Alone, every method returns its argument.

    What is shared out has `units`, such as the labelled samples of a batch, each with its unlabelled ones; each rank
    gets whole units, as equally many as they go. Without a number of units, each rank has one.
    """

    rank: int = 0
    size: int = 1
    units: int | None = None

    def divided(self, units: int) -> "World":
        """The same processes, which share out so many units: at least one for each."""
        return replace(self, units=units)

    @property
    def shares(self) -> list[int]:
        """The units of each rank."""
        units = self.units or self.size
        return [end - start for start, end in pairwise(rank * units // self.size for rank in range(self.size + 1))]

    @property
    def weight(self) -> float:
        """This rank's share of the units, over the mean share."""
        return self.shares[self.rank] * self.size / sum(self.shares)

    def rows(self, count: int) -> slice:
        """This rank's rows of `count`, which are equally many for each unit."""
        before, own = sum(self.shares[: self.rank]), self.shares[self.rank]
        each = count // sum(self.shares)
        return slice(before * each, (before + own) * each)

    def total(self, own: int) -> int:
        """The number of rows of all ranks, of which this one has `own`."""
        return own // self.shares[self.rank] * sum(self.shares)

    def first(self, own: int) -> int:
        """The position in the global batch of the first of this rank's `own` rows."""
        return own // self.shares[self.rank] * sum(self.shares[: self.rank])

    def gather(self, own: Tensor, sizes: list[int] | None = None) -> Tensor:
        """The rows of all ranks, in order; gradients flow back to the rank of each row.

        `sizes` says how many each rank has, where that does not follow from its units.
        """
        if self.size == 1:
            return own
        each = len(own) // self.shares[self.rank]
        return _Gather.apply(own, self, sizes or [each * share for share in self.shares])  # type: ignore[no-any-return, no-untyped-call]

    def sum(self, own: Tensor) -> Tensor:
        """The sum over the ranks, with gradients."""
        return own if self.size == 1 else _Sum.apply(own)  # type: ignore[no-untyped-call]

    def mean(self, own: Tensor) -> Tensor:
        """The mean over the rows of all ranks, with gradients; `own` is that over the rows of this one."""
        return self.sum(own * self.weight) / self.size

    def local_sum(self, parts: Tensor) -> Tensor:
        """This rank's part [...] of a sum that n ranks, perhaps more or fewer than now, saved as [n, ...]."""
        return parts[self.rank] if len(parts) == self.size else parts.sum(0) / self.size

    def max(self, flag: int) -> int:
        """The largest flag of all ranks."""
        if self.size == 1:
            return flag
        # NCCL does not take CPU tensors.
        largest = torch.tensor(flag, device="cuda" if dist.get_backend() == "nccl" else "cpu")
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest)


class _Gather(torch.autograd.Function):
    """All-gather of rows; the gradient of a row is summed over the ranks."""

    @staticmethod
    def forward(context: Any, own: Tensor, world: World, sizes: list[int]) -> Tensor:
        context.world, context.sizes = world, sizes
        # Collectives exchange tensors of one shape.
        padded = torch.cat([own, own.new_zeros(max(sizes) - len(own), *own.shape[1:])]).contiguous()
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        total = context.world.sum(gradients[0].contiguous())
        return total.split(context.sizes)[context.world.rank], None, None


class _Sum(torch.autograd.Function):
    """The sum over the ranks, as are the gradients."""

    @staticmethod
    def forward(context: Any, own: Tensor) -> Tensor:
        total = own.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return _Sum.forward(context, gradients[0].contiguous())


ALONE = World()


def joined() -> World:
    """The processes of the group that this one has joined, if any."""
    return World(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else ALONE


@contextmanager
def explain_lost_process(folder: object) -> Iterator[None]:
    """Turn the death of another rank into a readable error."""
    try:
        yield
    except RuntimeError as error:
        words = str(error)
        if not (isinstance(error, dist.DistError) or "gloo" in words or "NCCL" in words):
            raise
        raise UserError(
            f"another process of this run died, so this one stopped too ({words[:100]}...). "
            f"See its output, then resume the run in {folder}"
        ) from error


def is_rank_zero() -> bool:
    """Whether this process prints and writes files."""
    return not dist.is_initialized() or dist.get_rank() == 0


def shut_down() -> None:
    """Leave the process group, together with all ranks: rank 0 has work left to do alone."""
    if dist.is_initialized():
        dist.barrier()
        gc.collect()  # a wrapped network that is freed after its process group can deadlock
        dist.destroy_process_group()
