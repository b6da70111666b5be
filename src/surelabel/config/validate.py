"""What a `Run` may not be: numbers out of range, and settings that contradict each other. Imports no torch."""

from collections.abc import Callable
from operator import attrgetter

from surelabel.config.run import ALL_METHODS, RunConfig
from surelabel.utils.errors import UserError, suggestion

ABOVE_ZERO = (
    "steps", "threads", "batch.labelled", "batch.ratio", "optimizer.lr", "evaluation.every", "evaluation.batch",
    "evaluation.samples", "image_size", "network.stem_stride", "selection.window", "head.samples", "head.prior_std",
    "head.lr",
    "devices", "nodes", "paws.unlabelled", "paws.per_class",
    "paws.classes", "paws.support_views", "paws.small_size", "paws.temperature",
    "paws.width", "paws.large_scale", "paws.small_scale_min",
)  # fmt: skip
NOT_NEGATIVE = (
    "weight", "target.temperature", "head.kl_weight", "head.kl_warmup", "selection.warmup", "optimizer.weight_decay",
    "optimizer.lars_trust", "optimizer.warmup", "paws.small_crops", "table.noise", "teacher.warmup", "teacher.onset",
)  # fmt: skip
SHARES = (
    "average.decay", "optimizer.momentum", "optimizer.start", "optimizer.end", "selection.start", "selection.threshold",
    "selection.quantile", "network.norm_momentum", "paws.smoothing", "paws.large_scale", "paws.small_scale",
    "table.corruption",
    "teacher.gamma",
)  # fmt: skip


def validate(run: RunConfig) -> RunConfig:
    """The run itself, or a `UserError` for what no type can forbid."""
    if run.method not in ALL_METHODS:
        raise UserError(f"there is no method {run.method!r}.{suggestion(run.method, ALL_METHODS)}")
    if run.batch.labelled < 2:
        raise UserError("batch.labelled must be at least 2: BatchNorm needs more than one sample")
    _check_ranges(run)
    _check_even(run)
    if run.selects_by_uncertainty and run.head.samples < 2:
        raise UserError(
            f"head.samples must be at least 2: {run.method} selects by how far samples lie apart, and one has no other"
        )
    if run.optimizer.nesterov and run.optimizer.momentum == 0:
        raise UserError("optimizer.nesterov needs a momentum above zero")
    if run.optimizer.nesterov and run.optimizer.lars_trust > 0:
        raise UserError("optimizer.lars_trust (LARS) and optimizer.nesterov do not go together: set one of them off")
    if run.encoder != "none" and not run.network.name.startswith("mlp-"):
        raise UserError(f"encoder makes rows of features: network.name must be an mlp, not {run.network.name}")
    if run.device == "mps" and (run.precision not in ("auto", "32") or run.processes > 1):
        raise UserError("device mps computes in 32 bits and one process: leave --precision and --devices as they are")
    if run.paws.small_scale_min > run.paws.small_scale:
        least, most = run.paws.small_scale_min, run.paws.small_scale
        raise UserError(f"paws.small_scale_min, {least}, is above paws.small_scale, {most}")
    return run


def _check_even(run: RunConfig) -> None:
    """Each process takes as many rows of a batch as the others."""
    key, size = "batch.labelled", run.batch.labelled
    if run.uses_neighbours:
        key, size = "paws.unlabelled", run.paws.unlabelled
    if size % run.processes:
        raise UserError(f"{key}, {size}, cannot be shared out evenly by {run.processes} processes")


def _check_ranges(run: RunConfig) -> None:
    """Raise where a number lies outside of what its setting can be; a value left open is None."""
    rules: list[tuple[tuple[str, ...], Callable[[float], bool], str]] = [
        (ABOVE_ZERO, lambda value: value > 0, "must be above zero"),
        (NOT_NEGATIVE, lambda value: value >= 0, "must not be negative"),
        (SHARES, lambda value: 0 <= value <= 1, "must lie between 0 and 1"),
    ]
    for keys, right, words in rules:
        for key in keys:
            value = attrgetter(key)(run)
            if value is not None and not right(value):
                raise UserError(f"{key} {words}, and is {value}")
