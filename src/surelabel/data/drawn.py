"""How the labelled samples were chosen: at random from the pool, or class by class."""

import numpy as np
from numpy.typing import NDArray

from surelabel.utils.literals import Drawn


def drawn_per_class(drawn: Drawn, labels: NDArray[np.int64]) -> bool:
    """Whether these labels were drawn class by class; auto: if all classes have equally many, and more than one."""
    counts = np.unique(labels, return_counts=True)[1]
    alike = len(counts) > 1 and counts.min() == counts.max() > 1
    return drawn == "per-class" or (drawn == "auto" and bool(alike))
