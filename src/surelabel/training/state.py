"""TrainState: everything that changes in training, and so what a checkpoint holds."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

from surelabel.methods.base import State
from surelabel.models.network import Network
from surelabel.utils.distributed import ALONE, World


@dataclass
class TrainState:
    """The network, its average, the optimizers, what the method remembers (`selection`), and the step.

    With `average_teaches`, the average makes the pseudo-labels, else the network does. The average is evaluated, or
    the network if there is none.
    """

    network: Network
    average: AveragedModel | None
    optimizers: list[Optimizer]
    selection: State
    average_teaches: bool = False
    step: int = 0
    # This rank's sums since the last evaluation, of losses and of accepted pseudo-labels: [1, ...].
    running_sums: dict[str, Tensor] = field(default_factory=dict)
    # One row per evaluation, as in metrics.jsonl.
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def evaluated(self) -> Network:
        """The network that is evaluated: the average if there is one."""
        module = self.network if self.average is None else self.average.module
        assert isinstance(module, Network)
        return module

    @property
    def teacher(self) -> Network:
        """The network that makes the pseudo-labels."""
        return self.evaluated if self.average_teaches else self.network

    @property
    def networks(self) -> list[Network]:
        """The network and its average, if any."""
        return [self.network] if self.average is None else [self.network, self.evaluated]

    def accumulate(self, **sums: Tensor) -> None:
        """Add to the running sums, without waiting for the device."""
        for name, value in sums.items():
            row = value[None]
            self.running_sums[name] = self.running_sums[name] + row if name in self.running_sums else row.clone()

    def state_dict(self) -> dict[str, Any]:
        """Tensors, numbers, strings, lists and dictionaries only."""
        return {
            "network": self.network.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "selection": self.selection,
            "step": self.step,
            "running_sums": self.running_sums,
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any], world: World = ALONE) -> None:
        """Load a `state_dict`; of running sums with one entry per rank, take this rank's."""
        self.network.load_state_dict(state["network"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        for optimizer, stored in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(stored)
        device = next(self.network.parameters()).device
        self.selection = {name: tensor.to(device) for name, tensor in state["selection"].items()}
        self.running_sums = {
            name: world.local_sum(tensor.to(device))[None] for name, tensor in state["running_sums"].items()
        }
        self.step = state["step"]
        self.history = state["history"]
