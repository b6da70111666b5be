"""The encoding of a table's columns as a module, so that an exported network takes raw values."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from surelabel.data.tables.encoding import Encoding, Numeric

NUMBERS = "numbers"  # [N, n] float64, NaN if missing
CATEGORIES = "categories"  # [N, c] int64: the index among the column's levels, or their number for any other value


class TableNetwork(nn.Module):
    """A network on encoded rows, as a module that takes numbers, categories or both.

    Standardises in float64, as `Encoding` does: a date in seconds has more digits than float32.
    """

    def __init__(self, network: nn.Module, encoding: Encoding) -> None:
        super().__init__()
        self.network, self.encoding = network, encoding

    @property
    def inputs(self) -> list[str]:
        kinds = [isinstance(column, Numeric) for column in self.encoding.columns]
        return [NUMBERS] * any(kinds) + [CATEGORIES] * (not all(kinds))

    def forward(self, *inputs: Tensor) -> Any:
        left = {name: list(values.unbind(1)) for name, values in zip(self.inputs, inputs, strict=True)}
        rows = []
        for column in self.encoding.columns:
            if isinstance(column, Numeric):
                rows += _standardised(column, left[NUMBERS].pop(0))
            else:
                rows.append(F.one_hot(left[CATEGORIES].pop(0), column.width))
        return self.network(torch.cat([part.float() for part in rows], dim=1))

    def decode(self, rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The inputs that are encoded as these rows [N, d]."""
        inputs: dict[str, list[NDArray[Any]]] = {name: [] for name in self.inputs}
        for number, column in enumerate(self.encoding.columns):
            encoded = rows[:, self.encoding.groups == number]
            if isinstance(column, Numeric):
                values = encoded[:, 0].astype(np.float64) * column.std + column.mean
                inputs[NUMBERS].append(np.where(encoded[:, 1] > 0, np.nan, values) if column.tells_missing else values)
            else:
                inputs[CATEGORIES].append(encoded.argmax(1))
        return {name: np.stack(values, axis=1) for name, values in inputs.items()}

    def describe(self) -> list[dict[str, Any]]:
        """Name, input and levels of each column, in order."""
        return [
            {"name": column.name, "input": NUMBERS}
            if isinstance(column, Numeric)
            else {"name": column.name, "input": CATEGORIES, "levels": column.levels}
            for column in self.encoding.columns
        ]


def _standardised(column: Numeric, values: Tensor) -> list[Tensor]:
    """values [N] -> [N, 1] and, if the column marks missing values, another [N, 1]."""
    missing = values.isnan()
    # As tensors, because the tracer stores plain numbers as float32.
    median, mean, std = (values.new_tensor(number) for number in (column.median, column.mean, column.std))
    standard = (torch.where(missing, median, values) - mean) / std
    return [part[:, None] for part in (standard, missing)[: column.width]]
