"""Self-training with selected pseudo-labels: Algorithm 1 of the paper, of which each method is a value."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surelabel.config import Forward, WeakNorm
from surelabel.equations import labelled_cross_entropy, masked_cross_entropy
from surelabel.network import Network, normalised_by
from surelabel.select import Select, State
from surelabel.targets import Target
from surelabel.types import Batch, Losses, Prediction


@dataclass(frozen=True)
class SelfTraining:
    """Learn from labels, and from one's own predictions on unlabelled images where they can be trusted.

    `views` names the view to predict on and the view to learn from; without them there is no unlabelled part.
    `forward` is "split" (labelled and strong views with gradients, weak views without) or "joint" (one pass over all
    three with gradients, as the released code has it). `weak_norm` says what BatchNorm normalises the weak views by in
    the split form: see `network.normalised_by`.
    """

    select: Select
    target: Target
    views: tuple[str, str] | None = ("weak", "strong")
    weight: float = 1.0
    forward: Forward = "split"
    weak_norm: WeakNorm = "running"

    def loss(
        self, model: nn.Module, teacher: Network, batch: Batch, selection: State, step: int
    ) -> tuple[Losses, State]:
        """The losses of one step and the new state of the selection rule.

        `model` carries the gradients and may be wrapped; `teacher` is a bare network that makes the pseudo-labels.
        """
        if batch.weak is None or batch.strong is None:
            _, logits = model(batch.labelled)
            labelled_loss = labelled_cross_entropy(logits, batch.labels)
            return Losses(labelled_loss, labelled_loss), selection

        logits, strong_logits, prediction = self._passes(model, teacher, batch.labelled, batch.weak, batch.strong)
        with torch.no_grad():
            mask, selection = self.select(prediction, selection, step)  # whom to trust
            target = self.target(prediction.probs)  # what to learn
        labelled_loss = labelled_cross_entropy(logits, batch.labels)
        unlabelled_loss = masked_cross_entropy(strong_logits, target, mask)  # Eq. 1
        total = labelled_loss + self.weight * unlabelled_loss
        return Losses(total, labelled_loss, unlabelled_loss, prediction, mask), selection

    def _passes(
        self, model: nn.Module, teacher: Network, labelled: Tensor, weak: Tensor, strong: Tensor
    ) -> tuple[Tensor, Tensor, Prediction]:
        """Logits of the labelled views [B, K] and of the strong views [U, K], and the prediction on the weak views."""
        sizes = [len(labelled), len(strong)]
        if self.forward == "joint":
            features, logits = model(torch.cat([labelled, strong, weak]))
            prediction = teacher.head.predict(features[-len(weak) :].detach())
            sizes.append(len(weak))
        else:
            with normalised_by(self.weak_norm, teacher):
                prediction = teacher.predict(weak)
            _, logits = model(torch.cat([labelled, strong]))
        labelled_logits, strong_logits, *_ = logits.split(sizes)
        return labelled_logits, strong_logits, prediction
