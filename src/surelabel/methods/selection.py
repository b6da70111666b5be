"""Whom to trust: rules that accept or refuse pseudo-labels.

A rule is a frozen value. What it remembers between steps is explicit: `init` makes it, each call returns it anew.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from surelabel.config.run import RunConfig, Selection, steps_of
from surelabel.equations import sharpen
from surelabel.methods.base import State
from surelabel.methods.schedules import linear_warmup
from surelabel.models.prediction import Prediction
from surelabel.utils.errors import UserError

# The threshold before any batch was seen, where the present one does not count (released code).
FIRST_LAGGED = 0.02


class Select(ABC):
    """A selection rule."""

    reads: ClassVar[frozenset[str]] = frozenset()  # settings

    def configured(self, config: RunConfig, temperature: float) -> Self:
        """The rule with the settings of a run, whose targets are sharpened at this temperature."""
        return self

    def fill(self, selection: Selection) -> Selection:
        """The settings with this rule's values where they leave them open."""
        return replace(selection, threshold=None, quantile=None)

    @abstractmethod
    def init(self) -> State:
        """What the rule remembers before the first step."""

    @abstractmethod
    def __call__(self, prediction: Prediction, state: State, step: int) -> tuple[Tensor, State]:
        """Which of the predictions [U, K] to accept, as a mask [U], and the new state."""


@dataclass(frozen=True)
class Confidence(Select):
    """Accept where the largest probability is at least `threshold` (the indicator in Eq. 1).

    `temperature` sharpens the probabilities first, as the released code of UDA does; 1 leaves them as they are.
    """

    threshold: float
    temperature: float = 1.0
    reads: ClassVar[frozenset[str]] = frozenset({"selection.threshold", "selection.sharpened"})

    def configured(self, config: RunConfig, temperature: float) -> Self:
        asked = config.selection
        threshold = self.threshold if asked.threshold is None else asked.threshold
        return replace(self, threshold=threshold, temperature=temperature if asked.sharpened else 1.0)

    def fill(self, selection: Selection) -> Selection:
        return replace(selection, threshold=self.threshold, quantile=None)

    def init(self) -> State:
        return {}

    def __call__(self, prediction: Prediction, state: State, step: int) -> tuple[Tensor, State]:
        probs = prediction.probs if self.temperature == 1 else sharpen(prediction.probs, self.temperature)
        return probs.amax(dim=-1) >= self.threshold, state


@dataclass(frozen=True)
class Uncertainty(Select):
    """Accept where the deviation at the predicted class is among the smallest (Algorithm 1).

    The threshold is the mean of the last `window` batches' quantiles; the quantile's level rises in a straight line
    from `start` to `quantile` over `warmup` steps. `statistic` is the variance (the paper's text) or its root (its
    pseudocode): the mean over batches tells them apart. `inclusive` accepts at the threshold too: deviations are
    exactly 0 at large margins, and once a share of the batch as large as the quantile ties there, a strict rule would
    accept nothing. `lagged` leaves the present batch out of the threshold, which then starts at 0.02.
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

    def configured(self, config: RunConfig, temperature: float) -> Self:
        if config.head.samples < 2:
            raise UserError(
                f"head.samples must be at least 2: {config.method} selects by how far samples lie apart, and one has "
                "no other"
            )
        asked = config.selection
        return replace(
            self,
            quantile=self.quantile if asked.quantile is None else asked.quantile,
            start=asked.start,
            warmup=steps_of(asked.warmup, config.steps),
            window=asked.window,
            statistic=asked.statistic,
            inclusive=asked.inclusive,
            lagged=asked.lagged,
        )

    def fill(self, selection: Selection) -> Selection:
        return replace(selection, threshold=None, quantile=self.quantile)

    def init(self) -> State:
        return {"quantiles": torch.empty(0)}

    def __call__(self, prediction: Prediction, state: State, step: int) -> tuple[Tensor, State]:
        if prediction.std is None:
            raise UserError("selection by uncertainty needs a Bayesian head: a point head has no deviation")
        std = prediction.std.gather(-1, prediction.probs.argmax(dim=-1, keepdim=True)).squeeze(-1)
        uncertainty = std.square() if self.statistic == "variance" else std
        level = linear_warmup(self.start, self.quantile, step, self.warmup)
        before = state["quantiles"].to(uncertainty.device)
        after = torch.cat([before, uncertainty.quantile(level)[None]])[-self.window :]
        counted = before if self.lagged else after
        # Of equal numbers the mean may round to less than each of them, and would refuse all that tie there.
        threshold = counted.mean().clamp(min=counted.min()) if len(counted) else FIRST_LAGGED
        mask = uncertainty <= threshold if self.inclusive else uncertainty < threshold
        return mask, {"quantiles": after}
