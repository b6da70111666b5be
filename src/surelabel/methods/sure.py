"""The calibrated default: a cross-fitted ensemble that learns from its own and from propagated soft labels.

Member e never sees the labels of fold e mod V, except that they helped to deal the folds; their samples stay in its
pool, unlabelled. So a label is predicted by members for which its sample is one of the pool like any other, and these
predictions fit the powers of the learners.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from surelabel.config.run import Alignment, RunConfig
from surelabel.config.run import Sure as SureSettings
from surelabel.data.batch import Batch
from surelabel.data.drawn import drawn_per_class
from surelabel.data.folds import ALWAYS_SEEN
from surelabel.data.label_folds import folds_of
from surelabel.data.loader import Loader
from surelabel.data.source import DataSet, Source, in_batches
from surelabel.data.views import Chain, Corrupt, Identity, InComponents, Noise, View
from surelabel.methods.base import Losses, Pool, State
from surelabel.methods.cross_fitted import cross_fitted_teachers
from surelabel.methods.joining import Prior, fit_powers
from surelabel.models.backbones.projection import Projection, check_shape, principal_components
from surelabel.models.members_head import MembersHead
from surelabel.models.network import Network
from surelabel.models.prediction import Prediction
from surelabel.utils.devices import augmentation_device
from surelabel.utils.distributed import World
from surelabel.utils.errors import UserError
from surelabel.utils.literals import Drawn

MOMENTUM = 0.9  # of the mean prediction that a member's own pseudo-labels are aligned by
# Of the members and the linear models: chosen on eight tables and on training pictures, none of which is in a study.
PRIOR = Prior(0.6, 0.2, (0.87, 0.13))
MOST_PROJECTED = 20_000  # samples that the principal components are taken of
MOST_HELD = 2**24  # numbers of samples in memory while they are projected


@dataclass(frozen=True, kw_only=True)
class CrossFitBatch(Batch):
    """A batch with what the members must and may know of it."""

    fold: Tensor  # [B] of each label
    log_targets: Tensor  # [V, U, K], log of the teachers' soft labels
    shares: Tensor  # [V, K], of the classes


@dataclass(frozen=True)
class CrossFitLoader:
    """The batches of a loader, with folds and teachers."""

    loader: Loader
    projection: Tensor  # [d, p], of the samples
    linear: tuple[Tensor, Tensor]  # [V, p, K] and [V, K], of models that have not seen each fold
    fold: Tensor  # [N], of the whole pool
    log_targets: Tensor  # [V, N, K]
    shares: Tensor  # [V, K]
    over: Tensor  # [V, K], the shares over those of the labels

    @property
    def source(self) -> Source:
        return self.loader.source

    @property
    def labelled(self) -> NDArray[np.int64]:
        return self.loader.labelled

    @property
    def world(self) -> World:
        return self.loader.world

    def __call__(self, step: int) -> CrossFitBatch:
        labelled, pool = map(torch.from_numpy, self.loader.indices(step))
        device = self.loader.device
        fold, log_targets = self.fold[labelled].to(device), self.log_targets[:, pool].to(device)
        shares = self.shares.to(device)
        return CrossFitBatch(**vars(self.loader(step)), fold=fold, log_targets=log_targets, shares=shares)


@dataclass(frozen=True)
class Sure:
    """Members learn labels, and soft labels: their own aligned prediction to the power `own`, times the teacher's to
    the power 1 - `own`.
    """

    folds: int = 10
    drawn: Drawn = "auto"
    own: float = 0.9
    seed: int = 0
    ratio: int = 4

    family: ClassVar[str] = "sure"
    averaged: ClassVar[bool] = True
    alignment: ClassVar[Alignment] = "none"
    head: ClassVar[None] = None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"batch.labelled", "batch.ratio", "sure."})

    def configured(self, config: RunConfig, samples: int = 1) -> "Sure":
        if config.processes > 1:
            raise UserError(
                f"sure trains in one process, and this run has {config.processes}: leave out devices, or choose "
                "another --method"
            )
        if config.init is not None:
            raise UserError(
                "sure starts anew: another run may have learnt the labels that it leaves out. Leave out init"
            )
        if config.network.name.startswith("members-") and config.members[0] % config.sure.folds:
            raise UserError(
                f"network.name {config.network.name}: the number of members must be a multiple of sure.folds, "
                f"{config.sure.folds}"
            )
        return replace(self, folds=config.sure.folds, drawn=config.drawn, own=config.sure.own, seed=config.seed)

    def fill(self, config: RunConfig) -> RunConfig:
        return config

    def build_head(self, config: RunConfig, features: int, classes: int) -> MembersHead:
        members, width = config.members
        return MembersHead(features, width, classes, members, self.folds)

    def build_loader(
        self,
        config: RunConfig,
        data: DataSet,
        labelled: NDArray[np.int64],
        device: torch.device,
        view: Callable[[str], View],
        world: World,
    ) -> CrossFitLoader:
        check_shape(data.train.shape)
        source, offset, scale = data.train, torch.tensor(data.offset), torch.tensor(data.scale)
        some = _normalised(source, range(0, len(source), -(-len(source) // MOST_PROJECTED)), offset, scale)
        projection = principal_components(some, config.sure.components, config.sure.project)
        rows = projected(source, offset, scale, projection)
        labels = source.labels[labelled]
        fold = self.draw_folds(source, labelled)
        at_random = source.at_random(labelled)
        per_class = drawn_per_class(self.drawn, labels[at_random])
        made = cross_fitted_teachers(
            rows.numpy(), labelled, labels, fold, self.folds, len(data.classes), per_class, at_random
        )
        of_all = torch.full((len(source),), ALWAYS_SEEN)
        of_all[torch.from_numpy(labelled)] = torch.from_numpy(fold)
        place = augmentation_device(device)
        space = [tensor.to(place) for tensor in (offset, scale, projection, torch.linalg.pinv(projection))]
        noise, strong = (InComponents(one, *space) for one in views(config.sure, source, rows.to(place)))
        size, ratio = config.batch.labelled, config.batch.ratio
        loader = Loader(source, labelled, config.seed, size, ratio, device, noise, Identity(), strong, world)
        log_targets = torch.from_numpy(made.probs).clamp_min_(1e-12).log_()
        shares = torch.from_numpy(made.shares).float()
        linear = torch.from_numpy(made.weight), torch.from_numpy(made.bias)
        over = torch.from_numpy(made.over)
        return CrossFitLoader(loader, projection, linear, of_all, log_targets, shares, over)

    def before_training(self, network: Network, loader: CrossFitLoader) -> None:
        """Set the projection to the principal components of the pool, and the linear models."""
        assert isinstance(network.backbone, Projection) and isinstance(network.head, MembersHead)
        network.backbone.projection.copy_(loader.projection)
        network.head.linear_weight.copy_(loader.linear[0])
        network.head.linear_bias.copy_(loader.linear[1])
        network.head.class_weight.copy_(loader.over)

    def draw_folds(self, source: Source, labelled: NDArray[np.int64]) -> NDArray[np.int64]:
        """The fold [n] of each label."""
        return folds_of(source, labelled, self.folds, self.seed)

    def before_evaluation(self, network: Network, source: Source, labelled: NDArray[np.int64], batch: int) -> None:
        """Fit the powers to what members and linear models predict for labels that they have not seen."""
        labels = source.labels[labelled]
        fold = self.draw_folds(source, labelled)
        counted = (fold != ALWAYS_SEEN) & source.at_random(labelled)
        some_labels, some_folds = labels[counted], fold[counted]
        known = by_fold(network, source, labelled[counted], self.folds, batch)
        assert isinstance(network.head, MembersHead)
        weights = network.head.class_weight.cpu().double().numpy()[some_folds, some_labels]
        left_out = np.log(known[:, np.arange(len(some_labels)), some_folds])
        network.head.powers.copy_(torch.from_numpy(fit_powers(left_out, some_labels, PRIOR, weights)))

    def init(self, pool: Pool) -> State:
        return {"mean": torch.empty(0, pool.classes)}  # [E, K] after the first step

    def loss(
        self, model: nn.Module, teacher: Network, batch: CrossFitBatch, state: State, step: int
    ) -> tuple[Losses, State]:
        head = teacher.head
        assert isinstance(head, MembersHead) and batch.weak is not None and batch.strong is not None
        logs = model(torch.cat([batch.labelled, batch.strong])).outputs.transpose(0, 1).log_softmax(-1)  # [E, B + U, K]
        of_labels, of_pool = logs.split([len(batch.labels), batch.unlabelled], dim=1)
        mine = torch.arange(len(logs), device=logs.device) % self.folds  # [E], the fold that a member leaves out
        seen = (batch.fold != mine[:, None]).to(logs.dtype)  # [E, B]
        picked = of_labels.gather(2, batch.labels[:, None].expand(len(logs), -1, 1))[..., 0]
        labelled = -(picked * seen).sum(1) / seen.sum(1).clamp_min(1)
        with torch.no_grad():
            own = head.member_logs(teacher.features(batch.weak)).transpose(0, 1)  # [E, U, K]
            latest = own.exp().mean(1)
            mean = state["mean"]
            mean = latest if mean.shape != latest.shape else MOMENTUM * mean + (1 - MOMENTUM) * latest
            aligned = own + (batch.shares[mine] / mean.clamp_min(1e-6)).log()[:, None]
            target = (self.own * aligned + (1 - self.own) * batch.log_targets[mine]).softmax(-1)
        unlabelled = -(target * of_pool).sum(-1).mean(1)
        parts = {"labelled": labelled.mean(), "unlabelled": unlabelled.mean()}
        prediction = Prediction(target.mean(0))
        accepted = torch.ones(batch.unlabelled, dtype=torch.bool, device=logs.device)
        # A sum, so that a member trains as it would alone.
        return Losses((labelled + unlabelled).sum(), parts, prediction, accepted), {"mean": mean}


def projected(source: Source, offset: Tensor, scale: Tensor, projection: Tensor) -> Tensor:
    """The components [N, p] of all samples: a block at a time, as the samples may not fit in memory."""
    found = torch.empty(len(source), projection.shape[1])
    size = max(1, MOST_HELD // len(projection))
    for start in range(0, len(source), size):
        block = range(start, min(start + size, len(source)))
        torch.matmul(_normalised(source, block, offset, scale), projection, out=found[start : block.stop])
    return found


def _normalised(source: Source, which: range, offset: Tensor, scale: Tensor) -> Tensor:
    samples = torch.from_numpy(source.samples(np.array(which))).float()
    return samples.sub_(offset).div_(scale)  # the samples are a new array


def views(settings: SureSettings, source: Source, rows: Tensor) -> tuple[View, View]:
    """The view of labelled and the view of unlabelled components, rows [N, p]: noise, and noise with gaps."""
    columns = rows.shape[1]
    is_projected = settings.project or columns != source.shape[0]
    noise, corruption = (0.8, 0.4) if is_projected else (0.3, 0.2)
    noise = noise if settings.noise is None else settings.noise
    corruption = corruption if settings.corruption is None else settings.corruption
    where, groups, donors = torch.ones(columns), torch.arange(columns), torch.zeros(1, columns)
    if source.encoding is not None and not is_projected:
        where = torch.from_numpy(source.encoding.standardised).float()
        groups, donors = torch.from_numpy(source.encoding.groups), rows
    noisy = Noise(noise, where.to(rows.device))
    return noisy, Chain((noisy, Corrupt(corruption, donors.to(rows.device), groups.to(rows.device))))


@torch.no_grad()
def by_fold(network: Network, source: Source, index: NDArray[np.int64], folds: int, batch: int) -> NDArray[np.float64]:
    """What the members and the linear model that leave out each fold predict for these samples [2, n, V, K]."""
    head, device = network.head, network.scale.device
    assert isinstance(head, MembersHead)
    training = network.training
    network.eval()
    found = np.empty((2, len(index), folds, head.bias.shape[1]))
    done = 0
    for samples in in_batches(source, index, batch):
        members, linear = head.learners(network.features(torch.from_numpy(samples).to(device)))
        here = slice(done, done := done + len(samples))
        found[0, here] = members.cpu().double().view(len(samples), -1, folds, found.shape[-1]).mean(1)
        found[1, here] = linear.cpu()
    network.train(training)
    return np.maximum(found, 1e-30)


sure = Sure()
