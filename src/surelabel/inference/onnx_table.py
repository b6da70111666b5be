"""The encoding of a table's columns as a module, so that an exported network takes the values themselves."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from surelabel.data.tables.encoding import Encoding, Numeric

NUMBERS = "numbers"  # [N, n] float64, NaN where one is missing
CATEGORIES = "categories"  # [N, c] int64: the place of a value among the column's levels, or their number for any other


class OfColumns(nn.Module):
    """A network of rows behind the encoding: numbers and categories, of which a table may lack either -> its outputs.

    Standardised in double precision, as `Encoding` does it: a year in seconds has more digits than float32.
    """

    def __init__(self, network: nn.Module, encoding: Encoding) -> None:
        super().__init__()
        self.network, self.encoding = network, encoding

    @property
    def inputs(self) -> list[str]:
        kinds = [isinstance(column, Numeric) for column in self.encoding.columns]
        return [NUMBERS] * any(kinds) + [CATEGORIES] * (not all(kinds))

    def forward(self, *given: Tensor) -> Any:
        left = {name: list(values.unbind(1)) for name, values in zip(self.inputs, given, strict=True)}
        rows = []
        for column in self.encoding.columns:
            if isinstance(column, Numeric):
                rows += _standardised(column, left[NUMBERS].pop(0))
            else:
                rows.append(F.one_hot(left[CATEGORIES].pop(0), column.width))
        return self.network(torch.cat([part.float() for part in rows], dim=1))

    def inputs_of(self, rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """What is to be given for these encoded rows [N, d]."""
        found: dict[str, list[NDArray[Any]]] = {name: [] for name in self.inputs}
        for number, column in enumerate(self.encoding.columns):
            own = rows[:, self.encoding.groups == number]
            if isinstance(column, Numeric):
                values = own[:, 0].astype(np.float64) * column.deviation + column.mean
                found[NUMBERS].append(np.where(own[:, 1] > 0, np.nan, values) if column.tells_missing else values)
            else:
                found[CATEGORIES].append(own.argmax(1))
        return {name: np.stack(values, axis=1) for name, values in found.items()}

    def described(self) -> list[dict[str, Any]]:
        """The columns, in the order of the inputs that they belong to."""
        return [
            {"name": column.name, "input": NUMBERS}
            if isinstance(column, Numeric)
            else {"name": column.name, "input": CATEGORIES, "levels": column.levels}
            for column in self.encoding.columns
        ]


def _standardised(column: Numeric, values: Tensor) -> list[Tensor]:
    """values [N] -> [N, 1], and, where the column tells of missing values, another [N, 1]."""
    missing = values.isnan()
    # As tensors: the tracer would keep plain numbers in single precision.
    median, mean, deviation = (values.new_tensor(number) for number in (column.median, column.mean, column.deviation))
    standard = (torch.where(missing, median, values) - mean) / deviation
    return [part[:, None] for part in (standard, missing)[: column.width]]
