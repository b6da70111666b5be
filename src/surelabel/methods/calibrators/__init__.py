"""Calibrators: what else makes the confidence of a self-training method honest, beside Bayesian averaging."""

from surelabel.config.run import RunConfig
from surelabel.methods.calibrators.base import Calibrator
from surelabel.methods.calibrators.label_smoothing import LabelSmoothing
from surelabel.methods.calibrators.laplace import Laplace
from surelabel.methods.calibrators.last_layer_ensemble import LastLayerEnsemble
from surelabel.methods.calibrators.margin_penalty import MarginPenalty
from surelabel.methods.calibrators.mc_dropout import MCDropout
from surelabel.methods.calibrators.mixup import Mixup

CALIBRATORS: dict[str, type[Calibrator]] = {
    "none": Calibrator,
    "label-smoothing": LabelSmoothing,
    "margin-penalty": MarginPenalty,
    "mixup": Mixup,
    "mc-dropout": MCDropout,
    "last-layer-ensemble": LastLayerEnsemble,
    "laplace": Laplace,
}


def calibrator_of(config: RunConfig) -> Calibrator:
    """The calibrator of a config, with its constants."""
    return CALIBRATORS[config.calibrator].of(config)
