"""Which part of the work is this process's, and how the parts come together again.

Random numbers and indices are drawn for the global batch, and each process takes its rows: so N processes see exactly
the samples, views and weight draws that one would. What depends on the whole batch is gathered first.
"""

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather, all_reduce


@dataclass(frozen=True)
class Share:
    """Process number `rank` of so many. Without others, every method gives back what it is given."""

    rank: int = 0
    of: int = 1

    def rows(self, count: int) -> slice:
        """This process's rows of `count`, which the processes divide evenly."""
        each = count // self.of
        return slice(self.rank * each, (self.rank + 1) * each)

    def first(self, own: int) -> int:
        """The number of the first of this process's `own` rows in the global batch."""
        return self.rank * own

    def gather(self, own: Tensor) -> Tensor:
        """The rows of all processes, in order; gradients flow back to whoever had the row."""
        return own if self.of == 1 else torch.cat(all_gather(own.contiguous()))  # type: ignore[no-untyped-call]

    def mean(self, own: Tensor) -> Tensor:
        """The mean over the processes, with gradients."""
        return own if self.of == 1 else all_reduce(own) / self.of  # type: ignore[no-untyped-call]

    def sum(self, own: Tensor) -> Tensor:
        """The sum over the processes, without gradients."""
        if self.of == 1:
            return own
        total = own.detach().clone()
        dist.all_reduce(total)
        return total

    def any(self, flag: int) -> int:
        """The largest flag of all processes."""
        if self.of == 1:
            return flag
        largest = torch.tensor(flag)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return int(largest)


ALONE = Share()


def is_first() -> bool:
    """Whether this is the process that speaks for all."""
    return not dist.is_initialized() or dist.get_rank() == 0
