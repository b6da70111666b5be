"""Wrap arrays and data frames as a source that a trained run can predict."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.embeddings import EmbeddingSource
from surelabel.data.arrays.source import ArraySource, SampleSource
from surelabel.data.batch import Task
from surelabel.data.open_like import Form
from surelabel.data.source import Source
from surelabel.data.tables.frames import from_frame, from_numbers, is_frame
from surelabel.data.tables.source import TableSource
from surelabel.data.texts.source import TextSource, texts_of
from surelabel.utils.errors import UserError


def source_like(X: Any, form: Form, task: Task) -> Source:
    """X as a source: rows or a data frame for a run on a table, texts, images or other arrays otherwise."""
    if isinstance(X, Source):
        return X
    if form.text_column is not None:
        return TextSource(texts_of(X), None, form.classes)
    if form.encoding is not None:
        if not is_frame(X) and np.ndim(X) != 2:
            raise UserError(f"{form.name} was trained on a table: give it rows [n, columns] or a data frame")
        columns = from_frame(X) if is_frame(X) else from_numbers(X, [column.name for column in form.encoding.columns])
        return TableSource(form.encoding.encode(columns), None, form.classes, form.encoding)
    return _array(np.asarray(X), form, task)


def _array(X: NDArray[Any], form: Form, task: Task) -> Source:
    if form.picture_shape is not None and X.ndim > 2 and (form.any_size or len(task.shape) != 3):  # for an encoder
        return ArraySource(X, None, form.classes)
    if len(task.shape) == 3:
        return ArraySource(X, None, form.classes, "NHWC" if X.ndim == 4 and X.shape[1:] != task.shape else "NCHW")
    if len(task.shape) == 1 and X.ndim == 2:
        return EmbeddingSource(X, None, form.classes)
    return SampleSource(X, None, form.classes)
