"""Self-training with selected pseudo-labels: Algorithm 1 of the paper, and what others put between its steps.

Predict on the weak views, align, select, make targets, learn them on the strong views: each part is a value.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from surelabel.config.run import Alignment, Forward, RunConfig, WeakNorm
from surelabel.data.batch import Batch
from surelabel.data.loader import Loader
from surelabel.data.source import DataSet, Source
from surelabel.data.views import View
from surelabel.methods.alignment import Align, NoAlignment
from surelabel.methods.base import Losses, Pool, PoolPrediction, State
from surelabel.methods.calibrators import calibrator_of
from surelabel.methods.calibrators.base import Calibrator
from surelabel.methods.criterion import CrossEntropy
from surelabel.methods.kl_term import PriorLoss
from surelabel.methods.selection import NO_STD, Select
from surelabel.methods.targets import Hard, Sharpen, Target
from surelabel.models.heads import Bayesian, BayesianHead
from surelabel.models.network import Head, Network, Output, normalised_by
from surelabel.models.prediction import Prediction
from surelabel.utils.distributed import World
from surelabel.utils.errors import UserError

Role = Literal["weak", "strong"]


@dataclass(frozen=True)
class SelfTraining:
    """Learn from labels and from accepted pseudo-labels of unlabelled samples.

    `views` names the view to predict on and the view to learn from; None ignores the unlabelled samples. With a
    Bayesian `head`, pseudo-labels are means of sampled predictions, and `prior` is part of the loss;
    `sampled_temperature` sharpens each sampled prediction, while `target` sharpens their mean (the released code does
    both). `forward` is "split" (labelled and strong views with gradients, weak views without) or "joint" (one pass
    with gradients over all three, as in the released code). `weak_norm` is how BatchNorm normalises the weak views in
    the split form: see `network.normalised_by`. With `interpolate`, labels are learnt on random mixtures of the logits
    that the whole batch's statistics give and those of the labelled samples alone (AdaMatch). The `calibrator` may
    change the head, the batch and the loss.
    """

    select: Select
    target: Target
    align: Align = NoAlignment()
    criterion: CrossEntropy = CrossEntropy()
    interpolate: bool = False
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
            read |= {"batch.ratio", "target.temperature", "weight", "forward", "weak_norm"}
            read |= self.align.reads | self.select.reads
            read |= {f"views.{role}" for role in self.views}
        return frozenset(read | ({"head.", "target.sharpen_samples"} if self.head else set()))

    @property
    def alignment(self) -> Alignment:
        return self.align.rule

    def configured(self, config: RunConfig, samples: int = 1) -> "SelfTraining":
        config.check_shared("batch.labelled", config.batch.labelled)
        calibrator = calibrator_of(config)
        self._check_parts()
        target, asked = self.target, config.target.temperature
        if asked is not None:
            target = Sharpen(asked) if asked > 0 else Hard()
        temperature = target.temperature or 1.0
        made = replace(
            self,
            align=self.align.configured(config.align) if self.views else self.align,
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
        made._check_mixing(config.method)
        return made

    def _check_parts(self) -> None:
        """Raise where parts do not go together."""
        if self.select.needs_std and self.head is None:
            raise UserError(NO_STD)
        if missing := self.criterion.needs - self.align.keeps - self.select.keeps:
            raise UserError(
                f"the criterion {type(self.criterion).__name__} reads {', '.join(sorted(missing))}, which neither "
                f"{type(self.align).__name__} nor {type(self.select).__name__} keeps: change one of them"
            )

    def _check_mixing(self, method: str) -> None:
        """Raise where a part wants to know the label of a sample that is made of two."""
        of_label = type(self.criterion).labelled is not CrossEntropy.labelled
        if self.calibrator.mixes and (of_label or self._needs_labelled):
            raise UserError(
                f"calibrator mixup cannot be combined with {method} as it is configured: it compares predictions for "
                "labelled samples with their labels, and mixed ones have two. Choose another calibrator or method"
            )

    def _weak_norm(self, config: RunConfig) -> WeakNorm:
        """A teacher's running statistics are averages of the student's: its passes must not update them."""
        asked = config.weak_norm or self.weak_norm
        return "batch-kept" if config.teaches and asked == "batch" else asked

    def fill(self, config: RunConfig) -> RunConfig:
        return replace(
            config,
            target=replace(config.target, temperature=self.target.temperature),
            align=self.align.fill(config.align),
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

    def init(self, pool: Pool) -> State:
        return self.align.init(pool) | self.select.init(pool)

    def loss(self, model: nn.Module, teacher: Network, batch: Batch, state: State, step: int) -> tuple[Losses, State]:
        batch = self.calibrator.prepared(batch)
        out, predicted = self._passes(model, teacher, batch)
        prediction, weights = None, None
        if predicted is not None:
            with torch.no_grad():
                aligned, state = self.align(predicted, state, step)
                weights, kept = self.select(aligned, state, step)
                state = state | kept
                rows = batch.world.rows(len(weights))
                used = predicted if self.align.for_selection_only else aligned
                prediction = Prediction(used.probs[rows], None if used.std is None else used.std[rows])
                weights, target = weights[rows], self.target(prediction.probs)
        logits = self._labelled_logits(out.outputs, batch)
        made = [self.criterion.labelled(of_one, batch.labels, state) for of_one in members_of(logits)]
        logits = torch.stack(made, dim=1).view_as(logits)
        labelled_loss = self.calibrator.labelled_loss(logits, batch)
        total, parts = labelled_loss, {"labelled": labelled_loss}
        if weights is not None:
            strong_logits = out.outputs[len(batch.labels) :][: batch.unlabelled]
            members = members_of(strong_logits)
            each = [self.criterion.unlabelled(of_one, target, weights, state) for of_one in members]
            parts["unlabelled"] = torch.stack(each).mean()
            total = total + self.weight * parts["unlabelled"]
            for of_one in members:
                for name, (weight, term) in self.criterion.further(of_one, weights, state, batch.world).items():
                    parts[name] = parts.get(name, 0) + term / len(members)
                    total = total + weight * term / len(members)
        learnt = out.outputs[: len(batch.labels) + batch.unlabelled]
        if (penalty := self.calibrator.penalty(learnt)) is not None:
            parts["penalty"], weight = penalty
            total = total + weight * parts["penalty"]
        if out.kl is not None:
            parts["prior"] = self.prior(out.kl, batch.world.total(len(batch.labels)))
            total = total + self.prior.weight_at(step) * parts["prior"]
        return Losses(total, parts, prediction, weights), state

    def _passes(self, model: nn.Module, teacher: Network, batch: Batch) -> tuple[Output, PoolPrediction | None]:
        """The model's output for the labelled, then the strong views; the teacher's prediction for the weak ones.

        The prediction is that for the global batch. With `interpolate`, the output ends with the labelled views alone.
        """
        noise = self.calibrator.noise(teacher.head, batch, self.forward == "joint")
        if batch.weak is None or batch.strong is None:
            return model(batch.labelled, noise), None
        alone = [batch.labelled] if self.interpolate else []
        learnt = torch.cat([batch.labelled, batch.strong])
        if self.forward == "joint":
            whole = torch.cat([learnt, batch.weak])
            out = model([whole, *alone] if alone else whole, noise)
            features = out.features.detach()
            labelled, weak = features[: len(batch.labels)], features[len(learnt) :][: batch.unlabelled]
            return out, self._predictions(teacher, labelled, weak, batch)
        with torch.no_grad(), normalised_by(self.weak_norm, teacher):
            seen = torch.cat([batch.labelled, batch.weak]) if self._needs_labelled else batch.weak
            features = teacher.features(seen)
            prediction = self._predictions(teacher, features[: -batch.unlabelled], features[-batch.unlabelled :], batch)
        return model([learnt, *alone] if alone else learnt, noise), prediction

    @property
    def _needs_labelled(self) -> bool:
        return self.align.needs_labelled or self.select.needs_labelled

    def _predictions(self, teacher: Network, labelled: Tensor, weak: Tensor, batch: Batch) -> PoolPrediction:
        """Those of the global batch, from this rank's features."""
        gather, first = batch.world.gather, batch.world.first
        made = self._predict(teacher, weak, batch.draws("pseudo-labels"), first(len(weak)))
        std = None if made.std is None else gather(made.std)
        positions = None if batch.positions is None else gather(batch.positions)
        if not self._needs_labelled:
            return PoolPrediction(gather(made.probs), std, positions)
        known = self._predict(teacher, labelled, batch.draws("labelled predictions"), first(len(labelled)))
        return PoolPrediction(gather(made.probs), std, positions, gather(known.probs), gather(batch.labels))

    def _predict(self, teacher: Network, features: Tensor, draws: Generator, first: int) -> Prediction:
        if isinstance(teacher.head, BayesianHead):
            return teacher.head.predict(features, draws, first, self.sampled_temperature)
        return teacher.head.predict(features, draws, first)

    def _labelled_logits(self, outputs: Tensor, batch: Batch) -> Tensor:
        logits = outputs[: len(batch.labels)]
        if not self.interpolate:
            return logits
        alone = outputs[-len(batch.labels) :]
        rows = batch.world.total(len(logits))
        drawn = batch.draws("interpolation").random((rows, *logits.shape[1:]), dtype=np.float32)[batch.world.rows(rows)]
        return alone + torch.from_numpy(drawn).to(logits) * (logits - alone)


def members_of(logits: Tensor) -> tuple[Tensor, ...]:
    """The logits [N, K] of each last layer: of one, or of E whose logits are [N, E, K]."""
    return logits.unbind(1) if logits.ndim == 3 else (logits,)
