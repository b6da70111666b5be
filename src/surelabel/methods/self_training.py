"""Self-training with selected pseudo-labels: Algorithm 1 of the paper."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from surelabel.config.run import Forward, RunConfig, WeakNorm
from surelabel.data.batch import Batch
from surelabel.data.loader import Loader
from surelabel.data.source import DataSet, Source
from surelabel.data.views import View
from surelabel.equations import masked_cross_entropy
from surelabel.methods.base import Losses, State
from surelabel.methods.calibrators import calibrator_of
from surelabel.methods.calibrators.base import Calibrator
from surelabel.methods.kl_term import PriorLoss
from surelabel.methods.selection import Select
from surelabel.methods.targets import Hard, Sharpen, Target
from surelabel.models.heads import Bayesian, BayesianHead
from surelabel.models.network import Head, Network, Output, normalised_by
from surelabel.models.prediction import Prediction
from surelabel.utils.distributed import World

Role = Literal["weak", "strong"]


@dataclass(frozen=True)
class SelfTraining:
    """Learn from labels and from accepted pseudo-labels of unlabelled samples.

    `views` names the view to predict on and the view to learn from; None ignores the unlabelled samples. With a
    Bayesian `head`, pseudo-labels are means of sampled predictions, and `prior` is part of the loss;
    `sampled_temperature` sharpens each sampled prediction, while `target` sharpens their mean (the released code does
    both). `forward` is "split" (labelled and strong views with gradients, weak views without) or "joint" (one pass
    with gradients over all three, as in the released code). `weak_norm` is how BatchNorm normalises the weak views in
    the split form: see `network.normalised_by`. The `calibrator` may change the head, the batch and the loss.
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
    ratio: int = 7
    calibrator: Calibrator = Calibrator()

    family: ClassVar[str] = "self-training"
    averaged: ClassVar[bool] = True

    @property
    def reads(self) -> frozenset[str]:
        read = {"batch.labelled", "views.labelled", "fidelity"}
        if self.views:
            read |= {"batch.ratio", "target.temperature", "weight", "forward", "weak_norm", *self.select.reads}
            read |= {f"views.{role}" for role in self.views}
        return frozenset(read | ({"head.", "target.sharpen_samples"} if self.head else set()))

    def configured(self, config: RunConfig, samples: int = 1) -> "SelfTraining":
        config.check_divisible("batch.labelled", config.batch.labelled)
        target, asked = self.target, config.target.temperature
        if asked is not None:
            target = Sharpen(asked) if asked > 0 else Hard()
        temperature = target.temperature or 1.0
        calibrator = calibrator_of(config)
        return replace(
            self,
            select=self.select.configured(config, temperature),
            target=target,
            weight=self.weight if config.weight is None else config.weight,
            head=None if calibrator.has_head else self.head and Bayesian.of(config.head),
            sampled_temperature=temperature if config.target.sharpen_samples else 1.0,
            prior=PriorLoss.of(config, samples),
            # A separate teacher cannot be part of the student's pass.
            forward="split" if config.teaches else config.forward or self.forward,
            weak_norm=self._weak_norm(config),
            calibrator=calibrator,
        )

    def _weak_norm(self, config: RunConfig) -> WeakNorm:
        """A teacher's running statistics are averages of the student's: its passes must not update them."""
        asked = config.weak_norm or self.weak_norm
        return "batch-kept" if config.teaches and asked == "batch" else asked

    def fill(self, config: RunConfig) -> RunConfig:
        return replace(
            config,
            target=replace(config.target, temperature=self.target.temperature),
            selection=self.select.fill(config.selection),
            weight=self.weight,
            forward=self.forward,
            weak_norm=self.weak_norm,
        )

    def build_head(self, config: RunConfig, features: int, classes: int) -> Head:
        if self.head is not None:
            return BayesianHead(features, classes, self.head)
        return self.calibrator.build_head(features, classes)

    def build_loader(
        self,
        config: RunConfig,
        data: DataSet,
        labelled: NDArray[np.int64],
        device: torch.device,
        view: Callable[[str], View],
        world: World,
    ) -> Loader:
        weak, strong = map(view, self.views) if self.views else (None, None)
        size, ratio = config.batch.labelled, config.batch.ratio
        return self.calibrator.wrapped(
            Loader(data.train, labelled, config.seed, size, ratio, device, view("labelled"), weak, strong, world)
        )

    def before_training(self, network: Network, loader: Loader) -> None:
        self.calibrator.check(network, len(loader.labelled))

    def before_evaluation(self, network: Network, source: Source, labelled: NDArray[np.int64], batch: int) -> None:
        self.calibrator.before_evaluation(network, source, labelled, batch)

    def init(self) -> State:
        return self.select.init()

    def loss(
        self, model: nn.Module, teacher: Network, batch: Batch, selection: State, step: int
    ) -> tuple[Losses, State]:
        batch = self.calibrator.prepared(batch)
        out, prediction = self._passes(model, teacher, batch)
        logits, strong_logits, _ = out.outputs.tensor_split([len(batch.labels), len(batch.labels) + batch.unlabelled])
        labelled_loss = self.calibrator.labelled_loss(logits, batch)
        total, parts, mask = labelled_loss, {"labelled": labelled_loss}, None
        if prediction is not None:
            with torch.no_grad():
                mask, selection = self.select(_gathered(prediction, batch.world), selection, step)
                mask = mask[batch.world.rows(len(mask))]
                target = self.target(prediction.probs)
            parts["unlabelled"] = masked_cross_entropy(strong_logits, target, mask)  # Eq. 1
            total = total + self.weight * parts["unlabelled"]
        if (penalty := self.calibrator.penalty(torch.cat([logits, strong_logits]))) is not None:
            parts["penalty"], weight = penalty
            total = total + weight * parts["penalty"]
        if out.kl is not None:
            parts["prior"] = self.prior(out.kl, len(batch.labels) * batch.world.size)
            total = total + self.prior.weight_at(step) * parts["prior"]
        return Losses(total, parts, prediction, mask), selection

    def _passes(self, model: nn.Module, teacher: Network, batch: Batch) -> tuple[Output, Prediction | None]:
        """The model's output for the labelled, then the strong views; the teacher's prediction for the weak ones."""
        noise = self.calibrator.noise(teacher.head, batch, self.forward == "joint")
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


def _gathered(prediction: Prediction, world: World) -> Prediction:
    """The prediction for the global batch."""
    std = None if prediction.std is None else world.gather(prediction.std)
    return Prediction(world.gather(prediction.probs), std)
