"""The process group: this rank's rows of a batch, and sums and gathers over all ranks.

Random numbers and indices are drawn for the global batch, and each rank takes its rows, so N
processes see exactly the samples, views and weight draws that one would. What depends on the whole
batch is gathered first.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class World:
    """The rank of this process and the world size. Alone, every method returns its argument."""

    rank: int = 0
    size: int = 1

    def rows(self, count: int) -> slice:
        """This rank's rows of `count`, which must be divisible by the world size."""
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def first(self, own: int) -> int:
        """The position in the global batch of the first of this rank's `own` rows."""
        return self.rank * own

    def gather(self, own: Tensor) -> Tensor:
        """The rows of all ranks, in order; gradients flow back to the rank of each row."""
        return own if self.size == 1 else _Gather.apply(own, self)  # type: ignore[no-untyped-call]

    def mean(self, own: Tensor) -> Tensor:
        """The mean over the ranks, with gradients."""
        return own if self.size == 1 else self.gather(own[None]).mean(0)

    def sum(self, own: Tensor) -> Tensor:
        """The sum over the ranks, without gradients."""
        if self.size == 1:
            return own
        total = own.detach().clone()
        dist.all_reduce(total)
        return total

    def average_(self, own: list[Tensor]) -> None:
        """Replace these tensors by their means over the ranks, in place."""
        if self.size == 1 or not own:
            return
        mean = self.sum(torch.cat([tensor.flatten() for tensor in own])) / self.size
        for tensor, part in zip(own, torch.split(mean, [tensor.numel() for tensor in own]), strict=True):
            tensor.copy_(part.view_as(tensor))

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
    def forward(context: Any, own: Tensor, world: World) -> Tensor:
        context.world = world
        parts = [torch.empty_like(own, memory_format=torch.contiguous_format) for _ in range(world.size)]
        dist.all_gather(parts, own.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = context.world.sum(gradients[0].contiguous())
        return total[context.world.rows(len(total))], None


ALONE = World()


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
