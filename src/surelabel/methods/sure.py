"""The calibrated default: a cross-fitted ensemble that learns from its own and from propagated soft labels.

Member e never sees the labels of fold e mod V, in any way; their samples stay in its pool, unlabelled. So a label is
predicted by members for which it is a sample like any other of the pool, and these predictions fit the temperature.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor, nn

from surelabel.config.run import RunConfig
from surelabel.config.run import Sure as SureSettings
from surelabel.data.batch import Batch
from surelabel.data.folds import ALWAYS_SEEN, draw_folds
from surelabel.data.loader import Loader
from surelabel.data.source import DataSet, Source, in_batches
from surelabel.data.views import Chain, Corrupt, Identity, InComponents, Noise, View
from surelabel.methods.base import Losses, State
from surelabel.methods.cross_fitted import cross_fitted_teachers
from surelabel.methods.joining import fit_powers
from surelabel.models.backbones.members import Members, principal_components
from surelabel.models.members_head import MembersHead
from surelabel.models.network import Network
from surelabel.models.prediction import Prediction
from surelabel.utils.devices import augmentation_device
from surelabel.utils.distributed import World
from surelabel.utils.errors import UserError

MOMENTUM = 0.9  # of the mean prediction that a member's own pseudo-labels are aligned by
MOST_MATCHED = 1000  # samples that the confidence of few and of all members is compared on
MOST_PROJECTED = 20_000  # samples that the principal components are taken of


@dataclass(frozen=True, kw_only=True)
class CrossFitBatch(Batch):
    """A batch with what the members must and may know of it."""

    fold: Tensor  # [B] of each label
    targets: Tensor  # [V, U, K], the teachers' soft labels
    shares: Tensor  # [V, K], of the classes


@dataclass(frozen=True)
class CrossFitLoader:
    """The batches of a loader, with folds and teachers."""

    loader: Loader
    projection: Tensor  # [d, p], of the samples
    fold: Tensor  # [N], of the whole pool
    targets: Tensor  # [V, N, K]
    shares: Tensor  # [V, K]

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
        fold, targets = self.fold[labelled].to(device), self.targets[:, pool].to(device)
        return CrossFitBatch(**vars(self.loader(step)), fold=fold, targets=targets, shares=self.shares.to(device))


@dataclass(frozen=True)
class Sure:
    """Members learn labels, and soft labels: the geometric mean of the teacher's and of their own, aligned ones."""

    folds: int = 10
    own: float = 0.7  # power of a member's own prediction
    seed: int = 0
    ratio: int = 4

    family: ClassVar[str] = "sure"
    averaged: ClassVar[bool] = True
    head: ClassVar[None] = None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"batch.labelled", "batch.ratio", "sure."})

    def configured(self, config: RunConfig, samples: int = 1) -> "Sure":
        if config.processes > 1:
            raise UserError(f"sure trains in one process, and this run has {config.processes}: leave out devices")
        if config.network.name.startswith("members-") and config.members % config.sure.folds:
            raise UserError(
                f"network.name {config.network.name}: the number of members must be a multiple of sure.folds, "
                f"{config.sure.folds}"
            )
        return replace(self, folds=config.sure.folds, own=config.sure.own, seed=config.seed)

    def fill(self, config: RunConfig) -> RunConfig:
        return config

    def build_head(self, config: RunConfig, features: int, classes: int) -> MembersHead:
        return MembersHead(features, classes, config.members)

    def build_loader(
        self,
        config: RunConfig,
        data: DataSet,
        labelled: NDArray[np.int64],
        device: torch.device,
        view: Callable[[str], View],
        world: World,
    ) -> CrossFitLoader:
        source, offset, scale = data.train, torch.tensor(data.offset), torch.tensor(data.scale)
        rows = (torch.from_numpy(source.samples(np.arange(len(source)))).float() - offset) / scale
        projection = principal_components(rows[:: -(-len(rows) // MOST_PROJECTED)], config.sure.components)
        rows = rows @ projection
        labels = source.labels[labelled]
        fold = self.draw_folds(labels)
        made = cross_fitted_teachers(rows.numpy(), labelled, labels, fold, self.folds, len(data.classes))
        of_all = torch.full((len(source),), ALWAYS_SEEN)
        of_all[torch.from_numpy(labelled)] = torch.from_numpy(fold)
        place = augmentation_device(device)
        space = [tensor.to(place) for tensor in (offset, scale, projection, torch.linalg.pinv(projection))]
        noise, strong = (InComponents(one, *space) for one in views(config.sure, source, rows.to(place)))
        size, ratio = config.batch.labelled, config.batch.ratio
        loader = Loader(source, labelled, config.seed, size, ratio, device, noise, Identity(), strong, world)
        targets, shares = torch.from_numpy(made.probs), torch.from_numpy(made.shares).float()
        return CrossFitLoader(loader, projection, of_all, targets, shares)

    def before_training(self, network: Network, loader: CrossFitLoader) -> None:
        """Project to the principal components of the pool."""
        assert isinstance(network.backbone, Members)
        network.backbone.projection.copy_(loader.projection)

    def draw_folds(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """The fold [n] of each label."""
        return draw_folds(labels, self.folds, self.seed)

    def before_evaluation(self, network: Network, source: Source, labelled: NDArray[np.int64], batch: int) -> None:
        """Fit the temperature to what members predict for labels that they have not seen."""
        labels = source.labels[labelled]
        fold = self.draw_folds(labels)
        counted = fold != ALWAYS_SEEN
        if not counted.any():
            return
        some = np.unique(np.linspace(0, len(source) - 1, MOST_MATCHED).astype(np.int64))
        known = fold_means(network, source, labelled[counted], self.folds, batch)
        left_out = known[np.arange(len(known)), fold[counted]]
        (power,) = fit_powers(np.log(left_out)[None], labels[counted])
        assert isinstance(network.head, MembersHead)
        network.head.temperature.fill_(
            matched_temperature(fold_means(network, source, some, self.folds, batch), 1 / power)
        )

    def init(self) -> State:
        return {}

    def loss(
        self, model: nn.Module, teacher: Network, batch: CrossFitBatch, state: State, step: int
    ) -> tuple[Losses, State]:
        head = teacher.head
        assert isinstance(head, MembersHead) and batch.weak is not None and batch.strong is not None
        logs = model(torch.cat([batch.labelled, batch.strong])).outputs.log_softmax(-1)  # [B + U, E, K]
        of_labels, of_pool = logs.split([len(batch.labels), batch.unlabelled])
        mine = torch.arange(logs.shape[1], device=logs.device) % self.folds  # [E], the fold that a member leaves out
        seen = (batch.fold[:, None] != mine).to(logs.dtype)  # [B, E]
        picked = of_labels.gather(2, batch.labels[:, None, None].expand(-1, logs.shape[1], 1))[..., 0]
        labelled = -(picked * seen).sum(0) / seen.sum(0).clamp_min(1)
        with torch.no_grad():
            own = head.members(teacher.features(batch.weak))  # [U, E, K]
            mean = own.mean(0) if "mean" not in state else MOMENTUM * state["mean"] + (1 - MOMENTUM) * own.mean(0)
            aligned = own * (batch.shares[mine] / mean.clamp_min(1e-6))
            taught = batch.targets[mine].transpose(0, 1)
            target = (
                self.own * (aligned / aligned.sum(-1, keepdim=True)).clamp_min(1e-12).log()
                + (1 - self.own) * taught.clamp_min(1e-12).log()
            ).softmax(-1)
        unlabelled = -(target * of_pool).sum(-1).mean(0)
        parts = {"labelled": labelled.mean(), "unlabelled": unlabelled.mean()}
        prediction = Prediction(target.mean(1))
        accepted = torch.ones(batch.unlabelled, dtype=torch.bool, device=logs.device)
        # A sum, so that a member trains as it would alone.
        return Losses((labelled + unlabelled).sum(), parts, prediction, accepted), {"mean": mean}


def views(settings: SureSettings, source: Source, rows: Tensor) -> tuple[View, View]:
    """The view of labelled and the view of unlabelled components, rows [N, p]: noise, and noise with gaps."""
    where, groups = torch.ones(rows.shape[1]), torch.arange(rows.shape[1])
    donors = torch.zeros(1, rows.shape[1])
    if source.encoding is not None and rows.shape[1] == len(source.encoding.groups):
        where = torch.from_numpy(source.encoding.standardised).float()
        groups, donors = torch.from_numpy(source.encoding.groups), rows
    noise = Noise(settings.noise, where.to(rows.device))
    return noise, Chain((noise, Corrupt(settings.corruption, donors.to(rows.device), groups.to(rows.device))))


@torch.no_grad()
def fold_means(
    network: Network, source: Source, index: NDArray[np.int64], folds: int, batch: int
) -> NDArray[np.float64]:
    """What the members that leave out each fold predict for these samples [n, V, K], before the temperature."""
    head, device = network.head, network.scale.device
    assert isinstance(head, MembersHead)
    training = network.training
    network.eval()
    found = np.empty((len(index), folds, head.bias.shape[1]))
    done = 0
    for samples in in_batches(source, index, batch):
        probs = head.members(network.features(torch.from_numpy(samples).to(device))).cpu().double()
        for v in range(folds):
            found[done : done + len(probs), v] = probs[:, v::folds].mean(1)
        done += len(probs)
    network.train(training)
    return np.maximum(found, 1e-30)


def matched_temperature(means: NDArray[np.float64], temperature: float) -> float:
    """The temperature at which all members together are as confident as those of one fold are at theirs.

    A mean of few members is more confident than a mean of many. `means` [N, V, K] are predictions for samples of the
    pool.
    """
    confidence, together = _confidence(means, temperature), means.mean(1)
    low, high = temperature / 4, temperature * 2
    for _ in range(30):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _confidence(together, middle) > confidence else (low, middle)
    return float((low * high) ** 0.5)


def _confidence(probs: NDArray[np.float64], temperature: float) -> float:
    return float(softmax(np.log(probs) / temperature, axis=-1).max(-1).mean())


sure = Sure()
