"""The KL term of a Bayesian layer."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from surelabel.config.run import RunConfig, steps_of
from surelabel.methods.schedules import one_minus_cosine


@dataclass(frozen=True)
class PriorLoss:
    """The KL term of the ELBO, for a loss that is a mean over samples.

    `form` "elbo" divides the sum over the weights by the number of training samples; "mean" divides the mean over
    weights plus the mean over biases by B (released code). The `weight` rises from zero along a cosine over `warmup`
    steps.
    """

    form: Literal["elbo", "mean"] = "elbo"
    weight: float = 1.0
    warmup: int = 0
    samples: int = 1  # distinct training samples

    @classmethod
    def of(cls, config: RunConfig, samples: int) -> "PriorLoss":
        """The term of a config, for this many distinct training samples."""
        return cls(config.head.kl, config.head.kl_weight, steps_of(config.head.kl_warmup, config.steps), samples)

    def __call__(self, kl: tuple[Tensor, Tensor], batch: int) -> Tensor:
        """The unweighted loss from the KL of each weight [K, D] and bias [K]; `batch` is B over all ranks."""
        weights, biases = kl
        if self.form == "elbo":
            return (weights.sum() + biases.sum()) / self.samples
        return (weights.mean() + biases.mean()) / batch

    def weight_at(self, step: int) -> float:
        return self.weight * one_minus_cosine(step, self.warmup)
