"""TrainState: everything that changes in training, and so what a checkpoint holds."""

from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer
from torch.optim.swa_utils import AveragedModel

from surelabel.methods.base import State
from surelabel.models.network import Network, load_weights
from surelabel.training.metrics import SelectionSums
from surelabel.utils.bounded import Malformed
from surelabel.utils.distributed import ALONE, World
from surelabel.utils.typed import typed

# What optimizers remember of a parameter.
SGD, ADAM = {"momentum_buffer"}, {"step", "exp_avg", "exp_avg_sq"}


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
            "optimizers": [optimizer.state_dict()["state"] for optimizer in self.optimizers],
            "selection": self.selection,
            "step": self.step,
            "running_sums": self.running_sums,
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any], world: World = ALONE) -> None:
        """Load a `state_dict`; of running sums with one entry per rank, take this rank's.

        Raises `Malformed` if it is not the state of such a run.
        """
        stored: Stored = typed(state, Stored, "the state")
        load_weights(self.network, stored.network)
        if self.average is not None:
            load_weights(self.average, stored.average or {})
        if len(stored.optimizers) != len(self.optimizers):
            raise Malformed(f"it has {len(stored.optimizers)} optimizers, and the run {len(self.optimizers)}")
        for optimizer, remembered in zip(self.optimizers, stored.optimizers, strict=True):
            _load_optimizer(optimizer, remembered)
        _check_selection(stored.selection, self.selection)
        _check_sums(stored.running_sums, self.network.classes)
        device = next(self.network.parameters()).device
        self.selection = {name: tensor.to(device) for name, tensor in stored.selection.items()}
        self.running_sums = {
            name: world.local_sum(tensor.to(device))[None] for name, tensor in stored.running_sums.items()
        }
        self.step = stored.step
        self.history = stored.history


@dataclass(frozen=True)
class Stored:
    """What a checkpoint holds, by its types."""

    network: dict[str, Tensor]
    average: dict[str, Tensor] | None
    optimizers: list[dict[int, dict[str, Tensor | None]]]  # by the number of the parameter
    selection: dict[str, Tensor]
    step: int
    running_sums: dict[str, Tensor]
    history: list[dict[str, Any]]

    def __post_init__(self) -> None:
        steps = [self.step, *(row.get("step") for row in self.history)]
        if not all(isinstance(step, int) and step >= 0 for step in steps):
            raise ValueError("its steps are not those of a run")
        if not all(value is None or isinstance(value, int | float) for row in self.history for value in row.values()):
            raise ValueError("its evaluations are not numbers")


def _load_optimizer(optimizer: Optimizer, stored: dict[int, dict[str, Tensor | None]]) -> None:
    """Load what an optimizer remembers of each parameter; its settings are those of the config."""
    groups = optimizer.state_dict()["param_groups"]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    names = ADAM if isinstance(optimizer, Adam) else SGD
    for number, remembered in stored.items():
        if not 0 <= number < len(parameters) or remembered.keys() != names:
            raise Malformed("what its optimizers remember is not of this network")
        parameter = parameters[number]
        for name, tensor in remembered.items():
            expected = torch.tensor(0.0) if name == "step" else parameter
            if tensor is not None and not _alike(tensor, expected):
                raise Malformed(f"{name} of its parameter {number} is {_form(tensor)}, not {_form(expected)}")
    optimizer.load_state_dict({"state": stored, "param_groups": groups})


def _check_selection(stored: dict[str, Tensor], before: dict[str, Tensor]) -> None:
    """Raise unless it can have come of what a method remembers before its first step: what is empty then may grow."""
    if stored.keys() != before.keys():
        raise Malformed("what its method remembers is of another method")
    for name, first in before.items():
        now = stored[name]
        alike = now.ndim == first.ndim and all(n in (0, m) for m, n in zip(now.shape, first.shape, strict=True))
        if not alike or now.is_floating_point() != first.is_floating_point():
            raise Malformed(f"its {name!r} is {_form(now)}, not {_form(first)}")


def _check_sums(sums: dict[str, Tensor], classes: int) -> None:
    """Raise unless these are sums of losses and of selections, each with one entry per rank."""
    of_selection = {field.name for field in fields(SelectionSums)}
    for name, tensor in sums.items():
        known = name in of_selection or name == "steps" or name.endswith("_loss")
        entry = (classes,) if name == "accepted" else ()
        if not known or not tensor.ndim or not len(tensor) or tensor.shape[1:] != entry:
            raise Malformed(f"its running sum {name!r} is {_form(tensor)}")


def _alike(tensor: Tensor, expected: Tensor) -> bool:
    return (tensor.shape, tensor.dtype) == (expected.shape, expected.dtype)


def _form(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
