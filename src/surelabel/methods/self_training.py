"""Self-training with selected pseudo-labels: Algorithm 1 of the paper, of which each method is a value."""

from dataclasses import dataclass
from typing import Literal

import torch
from numpy.random import Generator
from torch import Tensor, nn

from surelabel.config.run import Forward, WeakNorm
from surelabel.data.batch import Batch
from surelabel.equations import labelled_cross_entropy, masked_cross_entropy
from surelabel.methods.base import Losses
from surelabel.methods.kl_term import PriorLoss
from surelabel.methods.selection import Select, State
from surelabel.methods.targets import Target
from surelabel.models.heads import Bayesian, BayesianHead
from surelabel.models.network import Network, Output, normalised_by
from surelabel.models.prediction import Prediction
from surelabel.utils.distributed import World

Role = Literal["weak", "strong"]


@dataclass(frozen=True)
class SelfTraining:
    """Learn from labels, and from one's own predictions on unlabelled images where they can be trusted.

    `views` names the view to predict on and the view to learn from; without them there is no unlabelled part.
    With a Bayesian `head`, pseudo-labels are averages of sampled predictions, and `prior` is part of the loss;
    `sampled_temperature` sharpens each of these predictions, beside `target`, which sharpens their mean (the released
    code does both).
    `forward` is "split" (labelled and strong views with gradients, weak views without) or "joint" (one pass over all
    three with gradients, as the released code has it). `weak_norm` says what BatchNorm normalises the weak views by in
    the split form: see `network.normalised_by`.
    """

    select: Select
    target: Target
    views: tuple[Role, Role] | None = ("weak", "strong")
    weight: float = 1.0
    head: Bayesian | None = None
    prior: PriorLoss = PriorLoss()
    sampled_temperature: float = 1.0
    forward: Forward = "split"
    weak_norm: WeakNorm = "running"

    def init(self) -> State:
        """What the method remembers before the first step."""
        return self.select.init()

    def loss(
        self, model: nn.Module, teacher: Network, batch: Batch, selection: State, step: int
    ) -> tuple[Losses, State]:
        """The losses of one step and the new state of the selection rule.

        `model` carries the gradients and may be wrapped; `teacher` is a bare network that makes the pseudo-labels.
        """
        out, prediction = self._passes(model, teacher, batch)
        logits, strong_logits, _ = out.outputs.tensor_split([len(batch.labels), len(batch.labels) + batch.unlabelled])
        labelled_loss = labelled_cross_entropy(logits, batch.labels)
        total, unlabelled_loss, prior_loss, mask = labelled_loss, None, None, None
        if prediction is not None:
            with torch.no_grad():
                mask, selection = self.select(everyone(prediction, batch.world), selection, step)  # whom to trust
                mask = mask[batch.world.rows(len(mask))]
                target = self.target(prediction.probs)  # what to learn
            unlabelled_loss = masked_cross_entropy(strong_logits, target, mask)  # Eq. 1
            total = total + self.weight * unlabelled_loss
        if out.kl is not None:
            prior_loss = self.prior(out.kl, len(batch.labels) * batch.world.size)
            total = total + self.prior.weight_at(step) * prior_loss
        return Losses(total, labelled_loss, unlabelled_loss, prior_loss, None, prediction, mask), selection

    def _passes(self, model: nn.Module, teacher: Network, batch: Batch) -> tuple[Output, Prediction | None]:
        """What the model makes of the labelled, then the strong views; the teacher's prediction on the weak ones."""
        noise = teacher.head.noise(batch.draws("weights"))  # one draw of the weights, for all logits of the step
        draws = batch.draws("pseudo-labels")
        first = batch.world.first(batch.unlabelled)
        if batch.weak is None or batch.strong is None:
            return model(batch.labelled, noise), None
        learnt = torch.cat([batch.labelled, batch.strong])
        if self.forward == "joint":
            out = model(torch.cat([learnt, batch.weak]), noise)
            return out, self._predict(teacher, out.features[len(learnt) :].detach(), draws, first)
        with torch.no_grad(), normalised_by(self.weak_norm, teacher):
            prediction = self._predict(teacher, teacher.features(batch.weak), draws, first)
        return model(learnt, noise), prediction

    def _predict(self, teacher: Network, features: Tensor, draws: Generator, first: int) -> Prediction:
        if isinstance(teacher.head, BayesianHead):
            return teacher.head.predict(features, draws, first, self.sampled_temperature)
        return teacher.head.predict(features, draws, first)


def everyone(prediction: Prediction, world: World) -> Prediction:
    """The prediction for the whole batch, of which each process made a part."""
    std = None if prediction.std is None else world.gather(prediction.std)
    return Prediction(world.gather(prediction.probs), std)
