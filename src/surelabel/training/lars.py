"""LARS: layer-wise adaptive rate scaling with SGD with momentum, as PAWS uses it (arXiv:1708.03888)."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from torch.optim.sgd import sgd

from surelabel.utils.errors import UserError

EPS = 1e-8  # keeps the ratio finite; far below any gradient norm that matters


class LARS(torch.optim.SGD):
    """SGD with steps proportional to each parameter's norm, in groups with `trust` > 0.

    A group with `trust` 0 gets plain SGD: for biases, norms and ρ, with `weight_decay` 0.
    """

    def __init__(
        self, params: ParamsT, lr: float, momentum: float = 0.9, weight_decay: float = 0.0, trust: float = 0.001
    ) -> None:
        super().__init__(params, lr, momentum=momentum, weight_decay=weight_decay)
        self.defaults["trust"] = trust
        for number, group in enumerate(self.param_groups):
            if group.setdefault("trust", trust) < 0:
                raise UserError(
                    f"LARS: the trust of parameter group {number} is {group['trust']}. "
                    "Give a positive number (0.001 is usual), or 0 for plain SGD"
                )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient; returns the closure's loss, if one is given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        # Not SGD's step: it would apply the decay after the scaling, and run step hooks twice.
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            grads, decay = [p.grad for p in params], group["weight_decay"]
            if params and group["trust"] > 0:
                grads, decay = scaled(params, grads, decay, group["trust"]), 0.0
            buffers = [self.state[p].get("momentum_buffer") for p in params]
            rest = {name: group[name] for name in ("lr", "momentum", "dampening", "nesterov", "maximize", "foreach")}
            sgd(params, grads, buffers, weight_decay=decay, **rest)
            for p, buffer in zip(params, buffers, strict=True):
                self.state[p]["momentum_buffer"] = buffer
        return loss


def scaled(params: list[Tensor], grads: list[Tensor], decay: float, trust: float) -> list[Tensor]:
    """(g + λw) · trust · |w| / (|g| + λ|w| + ε) for each parameter w with gradient g and decay λ.

    If |w| or |g| is 0, g + λw is not scaled: otherwise a weight of 0 would stay 0.
    """
    w, g = (torch.stack(torch._foreach_norm(tensors)) for tensors in (params, grads))
    ratio = torch.where((w > 0) & (g > 0), trust * w / (g + decay * w + EPS), 1.0)
    decayed = list(torch._foreach_add(grads, params, alpha=decay))
    torch._foreach_mul_(decayed, ratio.unbind())
    return decayed
