"""PAWS (Assran et al., 2021): predict views of an image assignments by its neighbours in a labelled support set.

The paper's Eq. (2) and Algorithm 2; with a Gaussian last layer, BAM-PAWS; with an averaged teacher, PAWS+SWA and +EMA.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from surelabel.config.run import Paws as Settings
from surelabel.data.batch import Crops
from surelabel.equations import entropy, smooth_labels, soft_cross_entropy, soft_nearest_neighbours
from surelabel.methods.base import Losses
from surelabel.methods.kl_term import PriorLoss
from surelabel.methods.selection import State
from surelabel.methods.targets import Sharpen
from surelabel.models.heads import Bayesian
from surelabel.models.network import Network, Output, normalised_by
from surelabel.models.paws_head import PawsHead
from surelabel.models.prediction import Prediction


@dataclass(frozen=True)
class Paws:
    """Each view of an image learns to be assigned to the classes that another view of it was.

    `temperature` is of the similarities (τ_p), `target` sharpens assignments; those below `cut` are taken for zero.
    `own` says that the network is its own teacher: then the targets come out of the one pass that there is.
    """

    target: Sharpen = Sharpen(temperature=0.25)
    temperature: float = Settings.temperature
    smoothing: float = Settings.smoothing
    me_max: bool = Settings.me_max
    cut: float = 1e-4
    head: Bayesian | None = None
    prior: PriorLoss = PriorLoss()
    own: bool = True

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
            taught = out.outputs if self.own else self._taught(teacher, sizes[0], noise)
            assigned = self._assign(taught[: len(sizes[0]), 0], labels, batch)
            first, second = self.target(assigned).chunk(2)
            small_crops = len(probs) // len(first) - 2
            targets = torch.cat([second, first] + [(first + second) / 2] * small_crops)
            targets = targets.where(targets >= self.cut, 0)
        unlabelled = soft_cross_entropy(probs, targets).mean()
        total = unlabelled
        me_max = None
        if self.me_max:
            # Minus the entropy, of the network that learns: so that minimising spreads the mean over the classes.
            me_max = -entropy(batch.world.mean(self.target(probs).mean(0)))
            total = total + me_max
        prior = None
        if out.kl is not None:
            prior = self.prior(out.kl, len(batch.labels) * batch.world.size)
            total = total + self.prior.weight_at(step) * prior
        prediction = Prediction(torch.stack(assigned.chunk(2)).mean(0))
        accepted = torch.ones(len(first), dtype=torch.bool, device=probs.device)
        return Losses(total, None, unlabelled, prior, me_max, prediction, accepted), state

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
