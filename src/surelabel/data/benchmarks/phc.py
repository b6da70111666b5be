"""The embedded set of 11,376 photonic crystals as a data set."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.data.source import DataSet, Source
from surelabel.phc import store
from surelabel.phc.geometry import EPSILON_RANGE, PIXELS


class CrystalSource(Source):
    """Some rows of a crystal set; an image is the permittivity [1, 32, 32] in float32."""

    classes = store.CLASSES
    shape = (1, PIXELS, PIXELS)

    def __init__(self, crystals: store.CrystalSet, rows: NDArray[np.int64]) -> None:
        self._crystals = crystals
        self._rows = rows
        self.labels = crystals.label[rows]

    def __len__(self) -> int:
        return len(self._rows)

    def samples(self, index: NDArray[np.int64]) -> NDArray[np.float32]:
        return self._crystals.epsilon(self._rows[index])[:, None].astype(np.float32)


def load(path: str | Path = store.EMBEDDED) -> DataSet:
    """The training and test set of a crystal file; the embedded one has 9,876 and 1,500."""
    crystals = store.load(Path(path))
    low, high = EPSILON_RANGE
    return DataSet(
        name="phc",
        train=CrystalSource(crystals, np.flatnonzero(~crystals.test)),
        test=CrystalSource(crystals, np.flatnonzero(crystals.test)),
        normalisation=((low,), (high - low,)),
        class_counts=tuple(int(n) for n in crystals.counts()),
    )
