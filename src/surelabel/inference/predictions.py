"""Predictions with the names of their samples and classes, and predictions.csv."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from surelabel.data.source import FilesSkipped
from surelabel.equations import entropy
from surelabel.models.prediction import Prediction
from surelabel.utils.csv import escape_formula, write_csv

if TYPE_CHECKING:
    from surelabel.inference.calibration import Calibration


@dataclass(frozen=True)
class Predictions:
    """The predictions of a run for N samples, in the order of their names."""

    names: Sequence[str | int]
    class_names: tuple[str, ...]
    prediction: Prediction
    notes: tuple[str, ...] = ()  # remarks about the data, such as columns that are not used
    skipped: FilesSkipped = ()  # files that could not be read
    sets: NDArray[np.bool_] | None = None  # [N, K], which classes are in each sample's set

    def __len__(self) -> int:
        return len(self.names)

    @property
    def classes(self) -> NDArray[Any]:
        """The name of the most likely class [N]."""
        names: NDArray[Any] = np.array(self.class_names, dtype=object)[self.prediction.probs.argmax(dim=-1).numpy()]
        return names

    @property
    def probs(self) -> NDArray[Any]:
        """The probability of each class [N, K]."""
        return self.prediction.probs.numpy()

    @property
    def confidence(self) -> NDArray[Any]:
        """The probability of the most likely class [N]."""
        confidence: NDArray[Any] = self.probs.max(axis=1)
        return confidence

    @property
    def std(self) -> NDArray[Any] | None:
        """The std of each probability [N, K] over a Bayesian head's draws or over members; None for any other head."""
        return None if self.prediction.std is None else self.prediction.std.numpy()

    @property
    def set_sizes(self) -> NDArray[np.int64]:
        """How many of the sets have 0, 1, ... classes [K + 1]."""
        sets = np.empty((0, len(self.class_names)), np.bool_) if self.sets is None else self.sets
        return np.bincount(sets.sum(1), minlength=len(self.class_names) + 1)

    def save(self, path: str | Path, calibration: "Calibration | None" = None, all_probabilities: bool = False) -> None:
        """Write predictions.csv, as `table` has it."""
        write_csv(Path(path), *self.table(calibration, all_probabilities))

    def table(
        self, calibration: "Calibration | None" = None, all_probabilities: bool = False
    ) -> tuple[list[str], Iterable[Sequence[str | int | float]]]:
        """Header and rows, one per sample: its name, the most likely class, its probability, and the entropy.

        A Bayesian head, or an ensemble, adds the std of that probability. Sets are written with the most likely class
        first, and their size. `calibration` corrects probabilities and entropy, and makes its own sets.
        `all_probabilities` adds a column `p_CLASS` for each class.
        """
        raw = self.prediction.probs
        number = raw.argmax(dim=-1, keepdim=True)
        probs = raw if calibration is None else calibration.probs(raw)
        columns: dict[str, list[float] | list[int] | list[str]] = {
            "confidence": probs.gather(-1, number)[:, 0].tolist(),
            "entropy": entropy(probs).tolist(),
        }
        if self.prediction.std is not None:
            columns["confidence_std"] = self.prediction.std.gather(-1, number)[:, 0].tolist()
        sets = self.sets if calibration is None else calibration.sets(raw).numpy()
        if sets is not None:
            columns |= {"set": _format_sets(sets, raw, self.class_names), "set_size": sets.sum(1).tolist()}
        if all_probabilities:  # as the column `class` writes the names
            columns |= {f"p_{escape_formula(name)}": probs[:, k].tolist() for k, name in enumerate(self.class_names)}
        rows = zip(self.names, self.classes.tolist(), *columns.values(), strict=True)
        return ["sample", "class", *columns], rows


def _format_sets(sets: NDArray[np.bool_], probs: Tensor, classes: tuple[str, ...]) -> list[str]:
    """Each set as text, such as "cat|dog", the most likely class first. sets [N, K], probs [N, K].

    In a name, | becomes \\| and \\ becomes \\\\.
    """
    names = [name.replace("\\", "\\\\").replace("|", "\\|") for name in classes]
    order = probs.argsort(dim=-1, descending=True, stable=True)
    rows = zip(order.tolist(), sets.tolist(), strict=True)
    return ["|".join(names[k] for k in ranked if members[k]) for ranked, members in rows]
