"""Rules that accept, weigh or reject pseudo-labels. A rule is a frozen value; its state is passed in and returned."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from surelabel.config.run import RunConfig, Selection, steps_of
from surelabel.equations import sharpen
from surelabel.methods.base import Pool, PoolPrediction, State
from surelabel.methods.schedules import linear_warmup
from surelabel.utils.errors import UserError

FILLED = ("threshold", "quantile", "decay")  # settings with a published default for each rule
NO_STD = "selection by uncertainty needs a Bayesian head, as a bam- method has: a linear head has no std"
FIRST_LAGGED = 0.02  # the threshold at the first step if the current batch does not count (released code)


@dataclass(frozen=True)
class Select(ABC):
    """A selection rule. Of the settings in `FILLED`, it has those as fields that it reads."""

    reads: ClassVar[frozenset[str]] = frozenset()  # settings
    keeps: ClassVar[frozenset[str]] = frozenset()  # of its state, what a criterion may read
    needs_std: ClassVar[bool] = False  # of the predictions: a Bayesian head
    needs_labelled: ClassVar[bool] = False  # predictions for the labelled samples

    def configured(self, config: RunConfig, temperature: float) -> Self:
        """The rule with the settings of a config, for targets sharpened at this temperature."""
        asked = {name: getattr(config.selection, name) for name in self._filled()}
        return replace(self, **{name: value for name, value in asked.items() if value is not None})

    def fill(self, selection: Selection) -> Selection:
        """The settings with the values of this rule in place of None."""
        filled: dict[str, Any] = dict.fromkeys(FILLED) | {name: getattr(self, name) for name in self._filled()}
        return replace(selection, **filled)

    def _filled(self) -> list[str]:
        return [name for name in FILLED if f"selection.{name}" in self.reads]

    def init(self, pool: Pool) -> State:
        """The state before the first step."""
        return {}

    @abstractmethod
    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[Tensor, State]:
        """How far each prediction [U, K] is accepted, weights [U] in [0, 1] or bool, and the new state."""


@dataclass(frozen=True)
class Confidence(Select):
    """Accept if the largest probability is at least `threshold` (the indicator in Eq. 1).

    `temperature` sharpens the probabilities first, as UDA's released code does; 1 does not change them.
    """

    threshold: float
    temperature: float = 1.0
    reads: ClassVar[frozenset[str]] = frozenset({"selection.threshold", "selection.sharpened"})

    def configured(self, config: RunConfig, temperature: float) -> Self:
        made = super().configured(config, temperature)
        return replace(made, temperature=temperature if config.selection.sharpened else 1.0)

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[Tensor, State]:
        probs = prediction.probs if self.temperature == 1 else sharpen(prediction.probs, self.temperature)
        return probs.amax(dim=-1) >= self.threshold, state


@dataclass(frozen=True)
class Uncertainty(Select):
    """Accept if the std at the predicted class is among the smallest (Algorithm 1).

    The threshold is the mean of the last `window` batches' quantiles; the quantile's level rises linearly from `start`
    to `quantile` over `warmup` steps. `statistic` is the variance (the paper's text) or the std (its pseudocode), which
    differ in the mean over batches. `inclusive` accepts at the threshold too: the std is exactly 0 at large margins,
    and a strict rule would accept nothing once the quantile is 0. `lagged` leaves the current batch out of the
    threshold, which then starts at 0.02.
    """

    quantile: float
    start: float = Selection.start
    warmup: int = int(Selection.warmup)
    window: int = Selection.window
    statistic: Literal["variance", "std"] = Selection.statistic
    inclusive: bool = Selection.inclusive
    lagged: bool = Selection.lagged
    reads: ClassVar[frozenset[str]] = frozenset(
        f"selection.{name}" for name in ("quantile", "start", "warmup", "window", "statistic", "inclusive", "lagged")
    )
    needs_std: ClassVar[bool] = True

    def configured(self, config: RunConfig, temperature: float) -> Self:
        if config.head.samples < 2:
            raise UserError(f"head.samples must be at least 2: {config.method} selects by the std of the samples")
        asked = config.selection
        return replace(
            super().configured(config, temperature),
            start=asked.start,
            warmup=steps_of(asked.warmup, config.steps),
            window=asked.window,
            statistic=asked.statistic,
            inclusive=asked.inclusive,
            lagged=asked.lagged,
        )

    def init(self, pool: Pool) -> State:
        return {"quantiles": torch.empty(0)}

    def __call__(self, prediction: PoolPrediction, state: State, step: int) -> tuple[Tensor, State]:
        if prediction.std is None:
            raise UserError(NO_STD)
        std = prediction.std.gather(-1, prediction.probs.argmax(dim=-1, keepdim=True)).squeeze(-1)
        uncertainty = std.square() if self.statistic == "variance" else std
        level = linear_warmup(self.start, self.quantile, step, self.warmup)
        before = state["quantiles"].to(uncertainty.device)
        after = torch.cat([before, uncertainty.quantile(level)[None]])[-self.window :]
        counted = before if self.lagged else after
        # The mean of equal numbers may round to less than each, and would then reject ties.
        threshold = counted.mean().clamp(min=counted.min()) if len(counted) else FIRST_LAGGED
        mask = uncertainty <= threshold if self.inclusive else uncertainty < threshold
        return mask, {"quantiles": after}
