"""PAWS (Assran et al., 2021): views of an image learn its class assignment by neighbours in a labelled support set.

The paper's Eq. (2) and Algorithm 2; BAM-PAWS with a Gaussian last layer; PAWS+SWA and +EMA with an averaged teacher.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from surelabel.config.run import Alignment, RunConfig
from surelabel.config.run import Paws as Settings
from surelabel.data import views
from surelabel.data.batch import Crops
from surelabel.data.multicrop import MultiCropLoader
from surelabel.data.source import DataSet, Source, in_batches
from surelabel.data.views import View
from surelabel.equations import entropy, smooth_labels, soft_cross_entropy, soft_nearest_neighbours
from surelabel.methods.base import Losses, Pool, State
from surelabel.methods.kl_term import PriorLoss
from surelabel.methods.targets import Sharpen
from surelabel.models.heads import Bayesian
from surelabel.models.network import Head, Network, Output, normalised_by
from surelabel.models.paws_head import PawsHead
from surelabel.models.prediction import Prediction
from surelabel.utils.distributed import World
from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class Paws:
    """Each view of an image learns the assignment of another view.

    `temperature` is that of the similarities (τ_p); `target` sharpens assignments; those below `cut` count as zero.
    With `self_teaching`, the network is its own teacher, and the targets come from the same pass.
    """

    target: Sharpen = Sharpen(temperature=0.25)
    temperature: float = Settings.temperature
    smoothing: float = Settings.smoothing
    me_max: bool = Settings.me_max
    cut: float = 1e-4
    head: Bayesian | None = None
    prior: PriorLoss = PriorLoss()
    self_teaching: bool = True

    family: ClassVar[str] = "paws"
    averaged: ClassVar[bool] = False
    alignment: ClassVar[Alignment] = "none"
    ratio: ClassVar[int] = 7  # not used: see paws.unlabelled

    @property
    def reads(self) -> frozenset[str]:
        head = {f"head.{name}" for name in ("samples", "prior_std", "kl", "kl_weight", "kl_warmup")}
        return frozenset({"paws.", "target.temperature"} | (head if self.head else set()))

    def configured(self, config: RunConfig, samples: int = 1) -> "Paws":
        if config.target.temperature == 0:
            raise UserError("paws learns from sharpened assignments: target.temperature must be above zero")
        settings = config.paws
        config.check_shared("paws.unlabelled", settings.unlabelled)
        if settings.small_scale_min > settings.small_scale:
            raise UserError(
                f"paws.small_scale_min, {settings.small_scale_min}, must not exceed paws.small_scale, "
                f"{settings.small_scale}"
            )
        return replace(
            self,
            target=self.target if config.target.temperature is None else Sharpen(config.target.temperature),
            temperature=settings.temperature,
            smoothing=settings.smoothing,
            me_max=settings.me_max,
            head=self.head and Bayesian.of(config.head),
            prior=PriorLoss.of(config, samples),
            self_teaching=config.teaches is None,
        )

    def fill(self, config: RunConfig) -> RunConfig:
        return replace(config, target=replace(config.target, temperature=self.target.temperature))

    def build_head(self, config: RunConfig, features: int, classes: int) -> Head:
        settings, batch_norm = config.paws, config.network.norm == "batch"
        return PawsHead(
            features, settings.width, classes, settings.temperature, self.head, settings.prediction_head, batch_norm
        )

    def build_loader(
        self,
        config: RunConfig,
        data: DataSet,
        labelled: NDArray[np.int64],
        device: torch.device,
        view: Callable[[str], View],
        world: World,
    ) -> MultiCropLoader:
        settings = config.paws
        large, small = self._views(config, data)
        loader = MultiCropLoader(
            data.train, labelled, config.seed, settings.unlabelled, settings.per_class, device, large, large, small,
            settings.classes, settings.support_views, settings.small_crops, world,
        )  # fmt: skip
        config.check_shared("the support (classes × paws.per_class)", loader.support)
        return loader

    def _views(self, config: RunConfig, data: DataSet) -> tuple[View, View]:
        """The large and the small view; views.* are for other methods."""
        settings = config.paws
        if len(data.train.shape) != 3:
            raise UserError(
                f"{config.method} compares crops of images, but these samples are not images: choose another method"
            )
        if settings.view == "periodic":
            if settings.small_crops:
                raise UserError(
                    "paws.view periodic has no small views, since a part of a crystal is another crystal: "
                    "set paws.small_crops to 0"
                )
            return views.named("periodic"), views.named("periodic")
        size = settings.small_size or max(1, round(9 / 16 * min(data.train.shape[1:])))
        return (
            views.paws_view(None, (settings.large_scale, 1), settings.view),
            views.paws_view(size, (settings.small_scale_min, settings.small_scale), settings.view),
        )

    def before_training(self, network: Network, loader: MultiCropLoader) -> None:
        """Nothing."""

    @torch.no_grad()
    def before_evaluation(self, network: Network, source: Source, labelled: NDArray[np.int64], batch: int) -> None:
        """Update the support of the head, by which it predicts: the representations of the labelled images."""
        assert isinstance(network.head, PawsHead)
        device = network.scale.device
        training = network.training
        network.eval()
        parts = [
            network(torch.from_numpy(images).to(device)).outputs[:, -1]
            for images in in_batches(source, labelled, batch)
        ]
        network.train(training)
        network.head.update_support(torch.cat(parts), torch.from_numpy(source.labels[labelled]).to(device))

    def init(self, pool: Pool) -> State:
        return {}

    def loss(self, model: nn.Module, teacher: Network, batch: Crops, state: State, step: int) -> tuple[Losses, State]:
        assert isinstance(teacher.head, PawsHead)
        # Representations: the support and the large views in one pass, the small views in another.
        sizes = [torch.cat([batch.support, batch.large])] + ([] if batch.small is None else [batch.small])
        noise = teacher.head.noise(batch.draws("weights"))
        out = model(sizes, noise)
        labels = smooth_labels(batch.world_of_support.gather(batch.labels), teacher.head.classes, self.smoothing)
        # Predictions: the neighbours of each view in the support.
        probs = self._assign(out.outputs[:, -1], labels, batch)
        with torch.no_grad():
            # Targets: the teacher's assignment of the other large view; for a small view, the mean of both.
            represented = out.outputs if self.self_teaching else self._represent(teacher, sizes[0], noise)
            assigned = self._assign(represented[: len(sizes[0]), 0], labels, batch)
            first, second = self.target(assigned).chunk(2)
            small_crops = len(probs) // len(first) - 2
            targets = torch.cat([second, first] + [(first + second) / 2] * small_crops)
            targets = targets.where(targets >= self.cut, 0)
        total = soft_cross_entropy(probs, targets).mean()
        parts = {"unlabelled": total}
        if self.me_max:
            # Minus the entropy of the student's mean prediction, so that minimising spreads it over the classes.
            parts["me_max"] = -entropy(batch.world.mean(self.target(probs).mean(0)))
            total = total + parts["me_max"]
        if out.kl is not None:
            parts["prior"] = self.prior(out.kl, batch.world_of_support.total(len(batch.labels)))
            total = total + self.prior.weight_at(step) * parts["prior"]
        prediction = Prediction(torch.stack(assigned.chunk(2)).mean(0))
        accepted = torch.ones(len(first), dtype=torch.bool, device=probs.device)
        return Losses(total, parts, prediction, accepted), state

    def _represent(self, teacher: Network, images: Tensor, noise: Tensor | None) -> Tensor:
        """The teacher's representations, normalised by the batch like the student's."""
        with normalised_by("batch-kept", teacher):
            out: Output = teacher(images, noise)
        return out.outputs

    def _assign(self, z: Tensor, labels: Tensor, batch: Crops) -> Tensor:
        """Class probabilities of the N views, in full precision.

        z [V S + N, d] has this rank's support, then its views; labels [.., K] are of all ranks' supports.
        """
        with torch.autocast(z.device.type, enabled=False):
            support, views = z.to(torch.promote_types(z.dtype, torch.float32)).tensor_split([len(batch.labels)])
            return soft_nearest_neighbours(views, batch.world_of_support.gather(support), labels, self.temperature)


paws = Paws()
bam_paws = replace(paws, head=Bayesian(samples=50))
