"""BatchNorm of a batch that several processes share: its statistics are those of all rows."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.utils.distributed import World, joined


def share_norms(network: nn.Module, device: str) -> nn.Module:
    """The network, whose BatchNorm takes its statistics over all processes: on GPUs torch's own, else `SharedNorm`."""
    if device == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(network)  # type: ignore[no-any-return, no-untyped-call]
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.__class__ = SharedNorm  # its parameters, statistics and hooks stay
    return network


class SharedNorm(nn.modules.batchnorm._BatchNorm):
    """BatchNorm by the mean and variance of the rows of all processes, however many each has.

    In a process alone, and where running statistics normalise, it is torch's. torch's SyncBatchNorm needs GPUs.
    """

    def _check_input_dim(self, rows: Tensor) -> None:
        """Takes whatever has channels."""

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, rows: Tensor) -> Tensor:
        """Rows [N, C, ...] of this process, normalised."""
        world = joined()
        if world.size == 1 or not (self.training or self.running_mean is None):
            return super().forward(rows)
        normalised: Tensor
        normalised, mean, variance, count = _Normalise.apply(rows, self.weight, self.bias, self.eps, world)  # type: ignore[no-untyped-call]
        if self.training and self.running_mean is not None:
            self._track(mean, variance * count / (count - 1))
        return normalised

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics towards these."""
        assert self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), momentum)
        self.running_var.lerp_(variance.to(self.running_var), momentum)


class _Normalise(torch.autograd.Function):
    """Rows normalised by the statistics of all ranks' rows, scaled and shifted; one exchange forward, one backward.

    The kernels are those of torch's BatchNorm in evaluation, which take statistics as given.
    """

    @staticmethod
    def forward(
        context: Any, rows: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, world: World
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        channels = rows.shape[1]
        unused = rows.new_zeros(channels, dtype=torch.promote_types(rows.dtype, torch.float32))
        own = torch.batch_norm_update_stats(rows, unused, unused, 0.0)
        size = unused.new_tensor([rows.numel() / channels])
        every = world.gather(torch.cat([*own, size])[None])  # [ranks, 2 C + 1]
        means, variances, sizes = every[:, :channels], every[:, channels:-1], every[:, -1:]
        count = sizes.sum()
        mean = (sizes * means).sum(0) / count
        # Not the mean square less the squared mean, which would cancel in float32.
        variance = (sizes * (variances + (means - mean).square())).sum(0) / count
        context.save_for_backward(rows, weight, mean, variance, count)
        context.eps, context.world = eps, world
        context.mark_non_differentiable(mean, variance, count)
        return F.batch_norm(rows, mean, variance, weight, bias, eps=eps), mean, variance, count

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight, mean, variance, count = context.saved_tensors
        of_output = gradients[0]
        _, by_weight, by_bias = torch.ops.aten.native_batch_norm_backward(
            of_output, rows, weight, mean, variance, None, None, False, context.eps, [False, True, True]
        )
        sums = context.world.gather(torch.stack([by_weight, by_bias])[None]).sum(0)
        scale = (variance + context.eps).rsqrt() * (1 if weight is None else weight)
        # How the statistics depend on the rows, then as if they did not.
        slope, shift = -scale * sums / count
        by_rows = F.batch_norm(rows, mean, variance, slope, shift, eps=context.eps)
        if rows.dtype == scale.dtype:
            by_rows.addcmul_(of_output, scale.view(-1, *[1] * (rows.ndim - 2)))
        else:  # bfloat16, whose products with float32 are slow but in this kernel
            by_rows += F.batch_norm(of_output, torch.zeros_like(mean), torch.ones_like(mean), scale, eps=0.0)
        if weight is None:
            return by_rows, None, None, None, None
        return by_rows, by_weight, by_bias, None, None
