"""Studies of training curves, rare classes and cost: Figures 2 to 4, Appendix G."""

from collections.abc import Mapping
from typing import Any

from surelabel.config.recipes import pictures
from surelabel.config.run import RunConfig
from surelabel.config.settings import changed
from surelabel.studies.ablations import AT_ONCE, PART_PAIRS, PARTS, SOFT_ALL
from surelabel.studies.cells import cell, seeds_of
from surelabel.studies.plan import Cell, Job, Study


def _curves(scale: str) -> list[Cell]:
    # Four labels per class, as in the paper's figure, and more.
    places = ("cifar100-400",) if scale == "paper" else ("fashion-mnist-40", "cifar10-40", "cifar10-250")
    # Supervised, which is not in the paper's figure, tells over-fitting from confirmation bias.
    return _all(("pseudo-label", "uda", "fixmatch", "bam-uda", "supervised"), places, scale)


def _features(scale: str) -> list[Cell]:
    """Frozen features of a pretrained network: a minute per run, and unlabelled samples do help."""
    return [
        Cell(title, f"CIFAR-10-{labels}, pretrained", (("", Job(_on_features(method, labels, settings, scale))),), 5)
        for labels in (40, 250)
        for title, method, settings in (
            ("supervised", "supervised", {}),
            ("FM", "fixmatch", {}),
            ("BAM-FM", "bam-fixmatch", {}),
            *((title, *PARTS[title]) for title in ("UDA", SOFT_ALL, AT_ONCE, "BAM-UDA")),
        )
    ]


def _on_features(method: str, labels: int, settings: Mapping[str, Any], scale: str) -> RunConfig:
    """The recipe for a user's images, with ten times the steps."""
    longer = {"steps": 3000, "evaluation.every": 0.025, "threads": 1 if scale == "laptop" else None}
    return changed(pictures(method, "cifar10", labels, "efficientnet-lite0"), {**longer, **settings})


def _paws_curves(scale: str) -> list[Cell]:
    return _all(("paws", "paws+swa", "paws+ema"), ("cifar10-2500" if scale == "paper" else "fashion-mnist-40",), scale)


def _classwise(scale: str) -> list[Cell]:
    """α = 100 too: the paper's benchmark has no class with fewer than 10 samples."""
    places = ("cifar100-lt-10", "cifar100-lt-100") if scale == "paper" else ("cifar10-lt-100",)
    return _all(("fixmatch", "bam-uda"), places, scale)


def _cost(scale: str) -> list[Cell]:
    methods = ("uda", "bam-uda", "fixmatch", "bam-fixmatch", "paws", "bam-paws", "paws+swa", "paws+ema")
    return _all(methods, ("cifar100-400" if scale == "paper" else "fashion-mnist-40",), scale)


def _all(methods: tuple[str, ...], places: tuple[str, ...], scale: str) -> list[Cell]:
    return [cell(method, place, scale, seeds_of(scale)) for place in places for method in methods]


COST_PAIRS = (
    ("UDA", "BAM-UDA"), ("FM", "BAM-FM"), ("PAWS", "BAM-PAWS"), ("PAWS", "PAWS+SWA"), ("PAWS", "PAWS+EMA"),
)  # fmt: skip

STUDIES = (
    Study("curves", "accuracy, ECE, purity and confidence through training", "Figure 2 (fig:fm_traincurves)", _curves,
          pairs=(("UDA", "BAM-UDA"),), shows="curves"),
    Study("features", "the methods on frozen features of a network that knows ImageNet", "not in the paper", _features,
          pairs=(("supervised", "FM"), ("supervised", SOFT_ALL), ("supervised", "BAM-UDA"), ("FM", "BAM-FM"),
                 *PART_PAIRS), shows="curves",
          note="CIFAR-10's pictures, described once by an EfficientNet-Lite0 that stays as it is; 3000 steps of a "
          "small network on these features."),
    Study("paws-curves", "what averaging the weights does to PAWS through training", "Figure 3 (fig:paws_traincurves)",
          _paws_curves, pairs=(("PAWS", "PAWS+SWA"), ("PAWS", "PAWS+EMA")), shows="curves"),
    Study("classwise", "accuracy on frequent and on rare classes", "Figure 4 (sfig:lt_classwise)", _classwise,
          pairs=(("FM", "BAM-UDA"),), shows="groups"),
    Study("cost", "seconds a step, and steps until the baseline's accuracy", "Appendix G (appendix:computation)", _cost,
          pairs=COST_PAIRS, shows="cost"),
)  # fmt: skip
