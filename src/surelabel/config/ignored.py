"""Which settings a run never reads: setting them would be in vain, and tells no two runs apart."""

from surelabel.config.recipes import NAMED_DATA
from surelabel.config.run import RunConfig
from surelabel.config.settings import keys

# Of a selection by uncertainty alone.
OF_UNCERTAINTY = ("quantile", "start", "warmup", "window", "statistic", "inclusive", "lagged")
# What a method fills in with its own values.
METHOD_KEYS = ("selection.threshold", "selection.quantile", "target.temperature", "weight", "forward", "weak_norm")


def ignored_settings(run: RunConfig) -> set[str]:
    """The settings that this run's method never reads; a name that ends with a dot means all below it."""
    rules = [
        (not run.uses_neighbours, {"paws."}),
        (
            run.uses_neighbours,
            {*METHOD_KEYS, "batch.", "views.", "selection.", "target.sharpen_samples", "head.lr", "head.sampling"},
        ),
        (run.uses_neighbours, {"fidelity"}),  # there is no released code
        (
            run.uses_neighbours and not run.paws.small_crops,
            {"paws.small_scale", "paws.small_scale_min", "paws.small_size"},
        ),
        (run.uses_neighbours and run.paws.view == "periodic", {"paws.large_scale"}),
        (run.base == "supervised", {*METHOD_KEYS, "selection.sharpened", "batch.ratio", "views.weak", "views.strong"}),
        (run.base.endswith("pseudo-label"), {"views.strong"}),
        (run.forward == "joint" and run.teaches is None, {"weak_norm"}),  # a teacher's own pass is always a split one
        (run.selects_by_uncertainty, {"selection.threshold", "selection.sharpened"}),
        (not run.selects_by_uncertainty, {f"selection.{name}" for name in OF_UNCERTAINTY}),
        (not run.bayesian, {"head.", "target.sharpen_samples"}),
        (run.teaches is None, {"teacher."}),
        (run.teaches is None and run.uses_neighbours, {"average."}),
        (run.teaches is not None, {"average.decay", "average.warm", "forward"}),
        (run.teaches == "ema", {"teacher.onset"}),
        (run.teaches == "ema" and run.teacher.schedule == "cosine", {"teacher.warmup"}),
        (run.teaches == "swa", {"teacher.schedule", "teacher.gamma", "teacher.warmup"}),
        (run.optimizer.schedule == "cosine-7-16", {"optimizer.warmup", "optimizer.start", "optimizer.end"}),
        (run.optimizer.warmup == 0, {"optimizer.start"}),
        (run.tabular or (run.data in NAMED_DATA and run.data != "imagenet"), {"image_size"}),
        (not run.tabular, {"label_column"}),
        (not run.tabular, {"table.categorical", "table.ignored"}),
        (not (run.tabular or run.encoder != "none"), {"table."}),
        (run.network.name.startswith(("mlp-", "efficientnet")), {"network.padding", "network.stem_stride"}),
        (run.network.name.startswith("efficientnet"), {"network.norm"}),
        (run.network.name.startswith("efficientnet") or run.network.norm == "group", {"network.norm_momentum"}),
        ("noise" not in _views(run), {"table.noise"}),
        ("corrupt" not in _views(run), {"table.corruption"}),
    ]
    ignored = {key for holds, keys in rules if holds for key in keys}
    if run.uses_neighbours:
        ignored -= {"target.temperature"}  # a method's own value that PAWS has too
    return {
        key for key, _ in keys() if key in ignored or any(part[-1] == "." and key.startswith(part) for part in ignored)
    }


def _views(run: RunConfig) -> set[str]:
    """The views that the run's method asks for."""
    read: set[str] = {run.views.labelled}
    if run.base != "supervised":
        read.add(run.views.weak)
    if run.base != "supervised" and not run.base.endswith("pseudo-label"):
        read.add(run.views.strong)
    return read
