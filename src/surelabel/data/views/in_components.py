"""Views of samples in the space that a network projects them to."""

from dataclasses import dataclass

from torch import Tensor

from surelabel.data.views.view import View


@dataclass(frozen=True)
class InComponents:
    """Apply a view to the components (samples - offset) / scale @ projection; the rest of a sample stays."""

    view: View
    offset: Tensor  # [d]
    scale: Tensor  # [d]
    projection: Tensor  # [d, p]
    back: Tensor  # [p, d], its pseudo-inverse

    @property
    def draws(self) -> int:
        return self.view.draws

    def __call__(self, samples: Tensor, u: Tensor) -> Tensor:
        """samples [B, d]."""
        before = (samples - self.offset) / self.scale @ self.projection
        return samples + (self.view(before, u) - before) @ self.back * self.scale
