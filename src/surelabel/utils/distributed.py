"""Which part of the work is this process's, and how the parts come together again.

Random numbers and indices are drawn for the global batch, and each process takes its rows: so N processes see exactly
the samples, views and weight draws that one would. What depends on the whole batch is gathered first.
"""

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
    """Process number `rank` of so many. Without others, every method gives back what it is given."""

    rank: int = 0
    size: int = 1

    def rows(self, count: int) -> slice:
        """This process's rows of `count`, which the processes divide evenly."""
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def first(self, own: int) -> int:
        """The number of the first of this process's `own` rows in the global batch."""
        return self.rank * own

    def gather(self, own: Tensor) -> Tensor:
        """The rows of all processes, in order; gradients flow back to whoever had the row."""
        return own if self.size == 1 else _Gather.apply(own, self)  # type: ignore[no-untyped-call]

    def mean(self, own: Tensor) -> Tensor:
        """The mean over the processes, with gradients."""
        return own if self.size == 1 else self.gather(own[None]).mean(0)

    def sum(self, own: Tensor) -> Tensor:
        """The sum over the processes, without gradients."""
        if self.size == 1:
            return own
        total = own.detach().clone()
        dist.all_reduce(total)
        return total

    def average_(self, own: list[Tensor]) -> None:
        """Make these the means over the processes, in place."""
        if self.size == 1 or not own:
            return
        mean = self.sum(torch.cat([tensor.flatten() for tensor in own])) / self.size
        for tensor, part in zip(own, torch.split(mean, [tensor.numel() for tensor in own]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def local_sum(self, parts: Tensor) -> Tensor:
        """This process's part of a sum, of the parts [n] that n processes had: as many as now, or others."""
        return parts[self.rank] if len(parts) == self.size else parts.sum() / self.size

    def max(self, flag: int) -> int:
        """The largest flag of all processes."""
        if self.size == 1:
            return flag
        # NCCL takes no tensors of the CPU.
        largest = torch.tensor(flag, device="cuda" if dist.get_backend() == "nccl" else "cpu")
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest)


class _Gather(torch.autograd.Function):
    """All processes' rows one after another; a row's gradient is the sum of what all processes made of it."""

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
    """Within this block, the loss of another process is told in words, with what to do."""
    try:
        yield
    except RuntimeError as error:
        words = str(error)
        if not (isinstance(error, dist.DistError) or "gloo" in words or "NCCL" in words):
            raise
        raise UserError(
            f"another process of this run was lost, so this one stopped too ({words[:100]}...). "
            f"See what that one said; then go on with: surelabel fit --resume {folder}"
        ) from error


def is_rank_zero() -> bool:
    """Whether this is the process that speaks for all."""
    return not dist.is_initialized() or dist.get_rank() == 0


def shut_down() -> None:
    """End the connection to the other processes, together with them: the first one still has work to do alone."""
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
