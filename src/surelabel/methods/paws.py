"""PAWS (Assran et al., 2021): predict views of an image assignments by its neighbours in a labelled support set.

The paper's Eq. (2) and Algorithm 2; with a Gaussian last layer, BAM-PAWS; with an averaged teacher, PAWS+SWA and +EMA.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from surelabel.config.run import Paws as Settings
from surelabel.config.run import RunConfig
from surelabel.data import views
from surelabel.data.batch import Crops
from surelabel.data.multicrop import MultiCropLoader
from surelabel.data.source import DataSet, Source, in_batches
from surelabel.data.views import View
from surelabel.equations import entropy, smooth_labels, soft_cross_entropy, soft_nearest_neighbours
from surelabel.methods.base import Losses, State
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
    """Each view of an image learns to be assigned to the classes that another view of it was.

    `temperature` is of the similarities (τ_p), `target` sharpens assignments; those below `cut` are taken for zero.
    `self_teaching` says that the network is its own teacher: the targets come out of the one pass that there is.
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
    ratio: ClassVar[int] = 7  # of no use to it: paws.unlabelled says

    @property
    def reads(self) -> frozenset[str]:
        head = {f"head.{name}" for name in ("samples", "prior_std", "kl", "kl_weight", "kl_warmup")}
        return frozenset({"paws.", "target.temperature"} | (head if self.head else set()))

    def configured(self, config: RunConfig, samples: int = 1) -> "Paws":
        if config.target.temperature == 0:
            raise UserError("paws learns from sharpened assignments: target.temperature must be above zero")
        config.check_divisible("paws.unlabelled", config.paws.unlabelled)
        if config.paws.small_scale_min > config.paws.small_scale:
            least, most = config.paws.small_scale_min, config.paws.small_scale
            raise UserError(f"paws.small_scale_min, {least}, is above paws.small_scale, {most}")
        return replace(
            self,
            target=self.target if config.target.temperature is None else Sharpen(config.target.temperature),
            temperature=config.paws.temperature,
            smoothing=config.paws.smoothing,
            me_max=config.paws.me_max,
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
        if loader.support % config.processes:
            raise UserError(
                f"a support of {loader.support} images (classes × paws.per_class) cannot be shared out evenly by "
                f"{config.processes} processes: choose another paws.per_class"
            )
        return loader

    def _views(self, config: RunConfig, data: DataSet) -> tuple[View, View]:
        """The large view and the small one; views.* are of other methods."""
        settings = config.paws
        if len(data.train.shape) != 3:
            raise UserError(
                f"{config.method} compares crops of images, and these samples are none: choose another method"
            )
        if settings.view == "periodic":
            if settings.small_crops:
                raise UserError(
                    "paws.view periodic has no small views: a part of a crystal is another crystal. "
                    "Set paws.small_crops 0"
                )
            return views.named("periodic"), views.named("periodic")
        size = settings.small_size or max(1, round(9 / 16 * min(data.train.shape[1:])))
        return (
            views.paws_view(None, (settings.large_scale, 1), settings.view),
            views.paws_view(size, (settings.small_scale_min, settings.small_scale), settings.view),
        )

    @torch.no_grad()
    def before_evaluation(self, network: Network, source: Source, labelled: NDArray[np.int64], batch: int) -> None:
        """Give the head the labelled images, as the network represents them now: it predicts by these neighbours."""
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

    def init(self) -> State:
        """PAWS selects nothing, and so remembers nothing."""
        return {}

    def loss(self, model: nn.Module, teacher: Network, batch: Crops, state: State, step: int) -> tuple[Losses, State]:
        """The losses of one step. `model` carries the gradients and may be wrapped; `teacher` is a bare network."""
        assert isinstance(teacher.head, PawsHead)
        # Representations: of the support and the large views in one pass, of the small views in another.
        sizes = [torch.cat([batch.support, batch.large])] + ([] if batch.small is None else [batch.small])
        noise = teacher.head.noise(batch.draws("weights"))
        out = model(sizes, noise)
        labels = smooth_labels(batch.world.gather(batch.labels), teacher.head.classes, self.smoothing)
        # Predictions: the neighbours of each view in the support.
        probs = self._assign(out.outputs[:, -1], labels, batch)
        with torch.no_grad():
            # Targets: what the teacher assigns the other large view to; for a small view, the mean of both.
            taught = out.outputs if self.self_teaching else self._taught(teacher, sizes[0], noise)
            assigned = self._assign(taught[: len(sizes[0]), 0], labels, batch)
            first, second = self.target(assigned).chunk(2)
            small_crops = len(probs) // len(first) - 2
            targets = torch.cat([second, first] + [(first + second) / 2] * small_crops)
            targets = targets.where(targets >= self.cut, 0)
        total = soft_cross_entropy(probs, targets).mean()
        parts = {"unlabelled": total}
        if self.me_max:
            # Minus the entropy, of the network that learns: so that minimising spreads the mean over the classes.
            parts["me_max"] = -entropy(batch.world.mean(self.target(probs).mean(0)))
            total = total + parts["me_max"]
        if out.kl is not None:
            parts["prior"] = self.prior(out.kl, len(batch.labels) * batch.world.size)
            total = total + self.prior.weight_at(step) * parts["prior"]
        prediction = Prediction(torch.stack(assigned.chunk(2)).mean(0))
        accepted = torch.ones(len(first), dtype=torch.bool, device=probs.device)
        return Losses(total, parts, prediction, accepted), state

    def _taught(self, teacher: Network, images: Tensor, noise: Tensor | None) -> Tensor:
        """The teacher's representations, normalised by the batch as the network's own are: a copy teaches as itself."""
        with normalised_by("batch-kept", teacher):
            out: Output = teacher(images, noise)
        return out.outputs

    def _assign(self, z: Tensor, labels: Tensor, batch: Crops) -> Tensor:
        """Class probabilities of the views behind the support, in full precision.

        z [V S + N, d] are this process's; its views are compared with the support of all, labels [V S · processes, K].
        """
        with torch.autocast(z.device.type, enabled=False):
            support, views = z.to(torch.promote_types(z.dtype, torch.float32)).tensor_split([len(batch.labels)])
            return soft_nearest_neighbours(views, batch.world.gather(support), labels, self.temperature)


paws = Paws()
bam_paws = replace(paws, head=Bayesian(samples=50))
