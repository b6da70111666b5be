"""LARS: layer-wise adaptive rate scaling over SGD with momentum, as PAWS uses it (arXiv:1708.03888)."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from torch.optim.sgd import sgd

from surelabel.utils.errors import UserError

# Keeps a vanishing gradient from giving an endless ratio; far below any gradient's norm that matters.
EPS = 1e-8


class LARS(torch.optim.SGD):
    """SGD whose step on each parameter of a group with `trust` > 0 is in proportion to that parameter's norm.

    A group with `trust` 0 is plain SGD: for biases, norms and deviations, with a `weight_decay` of 0 of its own.
    As with SGD, a step leaves the gradients as they are.
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
        """One update of every parameter that has a gradient; returns the closure's loss where one is given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        # Not SGD's own step: it would decay after the scaling, and run the hooks of a step twice.
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
    """(g + λw) · trust · |w| / (|g| + λ|w| + ε) for each parameter w and its gradient g, λ being the decay.

    Where |w| or |g| is 0 the ratio says nothing, and g + λw is left unscaled: else a weight of 0 would stay there.
    """
    w, g = (torch.stack(torch._foreach_norm(tensors)) for tensors in (params, grads))
    ratio = torch.where((w > 0) & (g > 0), trust * w / (g + decay * w + EPS), 1.0)
    decayed = list(torch._foreach_add(grads, params, alpha=decay))
    torch._foreach_mul_(decayed, ratio.unbind())
    return decayed
