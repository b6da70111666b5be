"""Self-training with selected pseudo-labels: Algorithm 1 of the paper, of which each method is a value."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from surelabel.config import Forward, WeakNorm
from surelabel.equations import labelled_cross_entropy, masked_cross_entropy
from surelabel.heads import Bayesian
from surelabel.network import Network, normalised_by
from surelabel.schedules import one_minus_cosine
from surelabel.select import Select, State
from surelabel.targets import Target
from surelabel.types import Batch, Losses, Prediction


@dataclass(frozen=True)
class PriorLoss:
    """What a Bayesian head pays for leaving its prior: the KL term of the ELBO, for a loss that is a mean over samples.

    `form` "elbo" sums the KL over the weights and divides it by the number of training samples, as the ELBO does;
    "mean" takes the mean over weights and the mean over biases, divided by B (released code). The `weight` rises from
    zero as one minus a cosine over `warmup` steps.
    """

    form: Literal["elbo", "mean"] = "elbo"
    weight: float = 1.0
    warmup: int = 0
    samples: int = 1  # distinct training samples

    def __call__(self, kl: tuple[Tensor, Tensor], batch: int) -> Tensor:
        """The loss, before its weight, of the KL of each weight [K, D] and bias [K]."""
        weights, biases = kl
        if self.form == "elbo":
            return (weights.sum() + biases.sum()) / self.samples
        return (weights.mean() + biases.mean()) / batch

    def weight_at(self, step: int) -> float:
        return self.weight * one_minus_cosine(step, self.warmup)


@dataclass(frozen=True)
class SelfTraining:
    """Learn from labels, and from one's own predictions on unlabelled images where they can be trusted.

    `views` names the view to predict on and the view to learn from; without them there is no unlabelled part.
    With a Bayesian `head`, pseudo-labels are averages of sampled predictions, and `prior` is part of the loss.
    `forward` is "split" (labelled and strong views with gradients, weak views without) or "joint" (one pass over all
    three with gradients, as the released code has it). `weak_norm` says what BatchNorm normalises the weak views by in
    the split form: see `network.normalised_by`.
    """

    select: Select
    target: Target
    views: tuple[str, str] | None = ("weak", "strong")
    weight: float = 1.0
    head: Bayesian | None = None
    prior: PriorLoss = PriorLoss()
    forward: Forward = "split"
    weak_norm: WeakNorm = "running"

    def loss(
        self, model: nn.Module, teacher: Network, batch: Batch, selection: State, step: int
    ) -> tuple[Losses, State]:
        """The losses of one step and the new state of the selection rule.

        `model` carries the gradients and may be wrapped; `teacher` is a bare network that makes the pseudo-labels.
        """
        logits, strong_logits, prediction = self._passes(model, teacher, batch)
        labelled_loss = labelled_cross_entropy(logits, batch.labels)
        total, unlabelled_loss, prior_loss, mask = labelled_loss, None, None, None
        if prediction is not None:
            with torch.no_grad():
                mask, selection = self.select(prediction, selection, step)  # whom to trust
                target = self.target(prediction.probs)  # what to learn
            unlabelled_loss = masked_cross_entropy(strong_logits, target, mask)  # Eq. 1
            total = total + self.weight * unlabelled_loss
        if (kl := teacher.head.kl()) is not None:
            prior_loss = self.prior(kl, len(batch.labels))
            total = total + self.prior.weight_at(step) * prior_loss
        return Losses(total, labelled_loss, unlabelled_loss, prior_loss, prediction, mask), selection

    def _passes(self, model: nn.Module, teacher: Network, batch: Batch) -> tuple[Tensor, Tensor, Prediction | None]:
        """Logits of the labelled views [B, K] and of the strong views [U, K], and the prediction on the weak views."""
        noise = teacher.head.noise(batch.draws("weights"))  # one draw of the weights, for all logits of the step
        draws = batch.draws("pseudo-labels")
        if batch.weak is None or batch.strong is None:
            _, logits = model(batch.labelled, noise)
            return logits, logits[:0], None
        sizes = [len(batch.labelled), len(batch.strong)]
        if self.forward == "joint":
            features, logits = model(torch.cat([batch.labelled, batch.strong, batch.weak]), noise)
            prediction = teacher.head.predict(features[sum(sizes) :].detach(), draws)
        else:
            with normalised_by(self.weak_norm, teacher):
                prediction = teacher.predict(batch.weak, draws)
            _, logits = model(torch.cat([batch.labelled, batch.strong]), noise)
        labelled_logits, strong_logits = logits[: sum(sizes)].split(sizes)
        return labelled_logits, strong_logits, prediction
