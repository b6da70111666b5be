"""Distribution alignment: the classes of the pseudo-labels are brought to their shares in the pool, before selection.

An alignment is a frozen value; its state is passed in and returned. All see the predictions of the global batch.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import isfinite
from typing import ClassVar, Literal, Self, cast, get_args

import torch
from torch import Tensor

from surelabel.config.run import Align as Settings
from surelabel.config.run import Alignment, Prior
from surelabel.methods.base import Pool, PoolPrediction, State, moving_mean
from surelabel.utils.errors import UserError

EPSILON = 1e-6  # added to prior and mean, as in ReMixMatch: a class that is never predicted must not explode
ROUNDING = 0.005  # by which shares may miss 1
ROUNDS = 20  # of Sinkhorn-Knopp
FEWEST = 10  # predictions per class for Sinkhorn-Knopp


class Align(ABC):
    """An alignment. What it remembers has names that begin with "align."."""

    rule: ClassVar[Alignment]
    reads: ClassVar[frozenset[str]] = frozenset(f"align.{name}" for name in ("rule", "prior", "decay", "queue"))
    keeps: ClassVar[frozenset[str]] = frozenset()  # of its state, what a criterion may read
    for_selection_only: bool = False  # the targets are then made of the predictions as they were

    @property
    def needs_labelled(self) -> bool:
        """Whether it reads the predictions for labelled samples."""
        return False

    def configured(self, asked: Settings) -> "Align":
        """The alignment with these settings; another one, if they name its rule."""
        kinds: dict[str, Align] = {"none": NoAlignment(), "mean": MovingMean(), "sinkhorn": Sinkhorn()}
        chosen = self if asked.rule in (None, self.rule) else kinds[str(asked.rule)]
        return chosen._with(asked)

    def _with(self, asked: Settings) -> Self:
        return self

    def fill(self, asked: Settings) -> Settings:
        """The settings with the values of this alignment in place of None."""
        return asked

    def init(self, pool: Pool) -> State:
        """The state before the first step."""
        return {}

    @abstractmethod
    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[PoolPrediction, State]:
        """The aligned prediction, and the new state."""


@dataclass(frozen=True)
class NoAlignment(Align):
    """Predictions stay as they are."""

    rule = "none"

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[PoolPrediction, State]:
        return prediction, state


@dataclass(frozen=True)
class _ToPrior(Align):
    """Aligns with a prior: uniform, the shares of the labels, those of the predictions for them, or given shares."""

    prior: Prior | tuple[float, ...] = "uniform"
    rule: ClassVar[Literal["mean", "sinkhorn"]]

    def __post_init__(self) -> None:
        if isinstance(self.prior, str):
            if self.prior not in get_args(Prior):
                raise _no_prior(self.prior)
        elif not all(isfinite(share) and share >= 0 for share in self.prior):
            raise UserError(f"align.prior: a class has a negative share in {_listed(self.prior)}")
        elif abs(sum(self.prior) - 1) > ROUNDING:
            raise UserError(
                f"align.prior: the shares of the classes must sum to 1, but {_listed(self.prior)} sum to "
                f"{sum(self.prior):g}"
            )

    @property
    def needs_labelled(self) -> bool:
        return self.prior == "labelled-predictions"

    def _with(self, asked: Settings) -> Self:
        return self if asked.prior is None else replace(self, prior=_parsed(asked.prior))

    def fill(self, asked: Settings) -> Settings:
        prior = self.prior if isinstance(self.prior, str) else _listed(self.prior)
        return replace(asked, rule=self.rule, prior=prior)

    def init(self, pool: Pool) -> State:
        uniform = torch.full((pool.classes,), 1 / pool.classes)
        if self.prior == "labels":
            # As if each class had one label more: one without any may still be in the pool.
            return {"align.prior": (pool.labels + 1) / (pool.labels.sum() + pool.classes)}
        if isinstance(self.prior, str):
            return {"align.prior": uniform}
        if len(self.prior) != pool.classes:
            raise UserError(f"align.prior has {len(self.prior)} shares, but there are {pool.classes} classes")
        return {"align.prior": torch.tensor(self.prior) / sum(self.prior)}


@dataclass(frozen=True)
class MovingMean(_ToPrior):
    """p ← norm(p π / p̄): p̄ is the moving mean of the predictions for the pool, π the prior (ReMixMatch, AdaMatch).

    The first batch is the first mean.
    """

    decay: float = 0.999
    for_selection_only: bool = False
    rule = "mean"

    def _with(self, asked: Settings) -> Self:
        made = super()._with(asked)
        return made if asked.decay is None else replace(made, decay=asked.decay)

    def fill(self, asked: Settings) -> Settings:
        return replace(super().fill(asked), decay=self.decay)

    def init(self, pool: Pool) -> State:
        return super().init(pool) | {"align.mean": torch.full((pool.classes,), 1 / pool.classes)}

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[PoolPrediction, State]:
        decay = self.decay if step else 0.0
        mean, prior = moving_mean(state["align.mean"], prediction.probs.mean(0), decay), state["align.prior"]
        if self.needs_labelled:
            assert prediction.labelled is not None
            prior = moving_mean(prior, prediction.labelled.mean(0), decay)
        probs = normalised(prediction.probs * (prior + EPSILON) / (mean + EPSILON))
        return replace(prediction, probs=probs), state | {"align.mean": mean, "align.prior": prior}


@dataclass(frozen=True)
class Sinkhorn(_ToPrior):
    """The last `queue` predictions for the pool, scaled by Sinkhorn-Knopp until their classes have the prior's shares.

    A batch alone would be too small: with fewer predictions than classes, no shares can be met. Until the queue holds
    ten for each class, predictions stay as they are; a batch that is larger than the queue is taken whole.
    """

    queue: int = 2048
    rule = "sinkhorn"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.needs_labelled:
            raise UserError("align.prior labelled-predictions moves, and goes with align.rule mean only: choose labels")

    def _with(self, asked: Settings) -> Self:
        made = super()._with(asked)
        return made if asked.queue is None else replace(made, queue=asked.queue)

    def fill(self, asked: Settings) -> Settings:
        return replace(super().fill(asked), queue=self.queue)

    def init(self, pool: Pool) -> State:
        if self.queue < FEWEST * pool.classes:
            raise UserError(
                f"align.queue {self.queue} is too short for {pool.classes} classes: it takes {FEWEST} predictions for "
                f"each, {FEWEST * pool.classes}"
            )
        return super().init(pool) | {"align.queue": torch.empty(0, pool.classes)}

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[PoolPrediction, State]:
        probs = prediction.probs
        queue = torch.cat([state["align.queue"].to(probs.dtype), probs])[-max(self.queue, len(probs)) :]
        if len(queue) >= FEWEST * probs.shape[1]:
            prediction = replace(prediction, probs=balanced(queue, state["align.prior"])[-len(probs) :])
        return prediction, state | {"align.queue": queue}


def balanced(probs: Tensor, prior: Tensor) -> Tensor:
    """Distributions [n, K] scaled by class until their mean is near the prior [K] (Sinkhorn-Knopp)."""
    for _ in range(ROUNDS):
        probs = normalised(probs * (prior + EPSILON) / (probs.mean(0) + EPSILON))
    return probs


def normalised(rows: Tensor) -> Tensor:
    """Rows [n, K] that sum to one."""
    return rows / rows.sum(1, keepdim=True)


def _parsed(prior: str) -> Prior | tuple[float, ...]:
    """'uniform' and its like, or '0.5,0.3,0.2' as numbers."""
    if prior in get_args(Prior):
        return cast("Prior", prior)
    try:
        return tuple(float(share) for share in prior.split(","))
    except ValueError:
        raise _no_prior(prior) from None


def _listed(prior: tuple[float, ...]) -> str:
    return ",".join(f"{share:g}" for share in prior)


def _no_prior(prior: str) -> UserError:
    return UserError(
        f"align.prior must be {', '.join(get_args(Prior))}, or the share of each class, separated by commas, not "
        f"{prior!r}"
    )
