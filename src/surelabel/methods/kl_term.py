"""What a Bayesian layer pays for leaving its prior."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from surelabel.config.run import RunConfig, steps_of
from surelabel.methods.schedules import one_minus_cosine


@dataclass(frozen=True)
class PriorLoss:
    """The KL term of the ELBO, for a loss that is a mean over samples.

    `form` "elbo" sums the KL over the weights and divides it by the number of training samples, as the ELBO does;
    "mean" takes the mean over weights and the mean over biases, divided by B (released code). The `weight` rises from
    zero as one minus a cosine over `warmup` steps.
    """

    form: Literal["elbo", "mean"] = "elbo"
    weight: float = 1.0
    warmup: int = 0
    samples: int = 1  # distinct training samples

    @classmethod
    def of(cls, config: RunConfig, samples: int) -> "PriorLoss":
        """The term that a run asks for, with so many distinct training samples."""
        return cls(config.head.kl, config.head.kl_weight, steps_of(config.head.kl_warmup, config.steps), samples)

    def __call__(self, kl: tuple[Tensor, Tensor], batch: int) -> Tensor:
        """The loss, before its weight, of the KL of each weight [K, D] and bias [K]; `batch` is B of all processes."""
        weights, biases = kl
        if self.form == "elbo":
            return (weights.sum() + biases.sum()) / self.samples
        return (weights.mean() + biases.mean()) / batch

    def weight_at(self, step: int) -> float:
        return self.weight * one_minus_cosine(step, self.warmup)
