"""ONNX: from a torch module to a model, and a session that runs one. Nothing is sent anywhere."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


def traced(
    module: nn.Module, given: tuple[Tensor, ...], inputs: Sequence[str], outputs: Sequence[str], starred: bool = False
) -> Any:
    """The ONNX model of a module for any batch size, traced with a batch of two or more.

    `starred`: its forward takes *inputs.
    """
    axes: Any = tuple({0: torch.export.Dim("batch")} for _ in given)
    if starred:
        axes = (axes,)
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            module, given, dynamo=True, dynamic_shapes=axes, input_names=[*inputs], output_names=[*outputs],
            verbose=False,
        )  # fmt: skip
    assert program is not None  # with dynamo there always is one
    return program.model_proto


def runtime() -> Any:
    """The module onnxruntime, which `utils.places.settle` has told to be silent."""
    import onnxruntime

    return onnxruntime


def session(model: bytes | Path, threads: int | None = None) -> Any:
    """An onnxruntime session on the CPU, by default with as many threads as it likes."""
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors: its warnings are about the graph, which nobody wrote by hand
    options.intra_op_num_threads = threads or 0
    content = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the progress, warnings and logs of torch's exporter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            logger.setLevel(level)
