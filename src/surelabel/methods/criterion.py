"""What is minimised: how targets are compared with logits. A criterion is a frozen value."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from surelabel.equations import masked_cross_entropy
from surelabel.methods.base import State
from surelabel.utils.distributed import World


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy; others change one of the three.

    `needs` names what alignment and selection must remember for it.
    """

    needs: ClassVar[frozenset[str]] = frozenset()

    def labelled(self, logits: Tensor, labels: Tensor, state: State) -> Tensor:
        """The logits [B, K] that are to say labels [B]."""
        return logits

    def unlabelled(self, logits: Tensor, target: Tensor, weights: Tensor, state: State) -> Tensor:
        """The loss of logits [U, K] on targets [U, K] with weights [U]."""
        return masked_cross_entropy(logits, target, weights)  # Eq. 1

    def further(self, logits: Tensor, weights: Tensor, state: State, world: World) -> dict[str, tuple[float, Tensor]]:
        """Further terms for the unlabelled samples of this rank: for each name its weight and the unweighted term."""
        return {}
