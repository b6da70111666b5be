"""Validation of configs: numbers out of range, contradictory settings. Imports no torch."""

from operator import attrgetter

from surelabel.config.constraints import Check, ReadIf, fields
from surelabel.config.encoders import CUSTOM, NONE, check_name
from surelabel.config.methods import OWNED, find
from surelabel.config.run import RunConfig
from surelabel.utils.errors import UserError

# Families whose methods take no calibrator, and why.
NOT_CALIBRATED = {
    "paws": "it predicts by neighbours, without logits to act on. Leave calibrator out; paws.smoothing smooths labels",
    "sure": "it is calibrated by the labels that it leaves out. Leave calibrator out, or choose another method",
}


def validate(config: RunConfig) -> RunConfig:
    """The config, or a `UserError` if it is not valid."""
    method = find(config.method)
    for key, _, annotations in fields(RunConfig):
        value = attrgetter(key)(config)
        for check in annotations:
            if isinstance(check, Check) and value is not None and not check.holds(value):
                raise UserError(f"{key} {check.rule}, but is {value}")
    check_name(config.encoder)
    if config.optimizer.nesterov and config.optimizer.momentum == 0:
        raise UserError("optimizer.nesterov needs a momentum above zero")
    if config.optimizer.nesterov and config.optimizer.lars_trust > 0:
        raise UserError("optimizer.lars_trust and optimizer.nesterov do not go together: turn one of them off")
    if (config.method == "sure") != config.network.name.startswith("members-"):
        raise UserError(
            f"network.name members-NUMBER-WIDTH and method sure go together, not {config.network.name} and "
            f"{config.method}"
        )
    if config.train_encoder:
        _check_trainable(config, method.family)
    if config.on_features and not config.network.name.startswith(("mlp-", "members-")):
        raise UserError(f"with an encoder, network.name must be an mlp, not {config.network.name}")
    if config.device == "mps" and (config.precision not in ("auto", "32") or config.processes > 1):
        raise UserError("device mps supports only 32 bits and one process: leave out precision and devices")
    if config.calibrator != "none" and method.family in NOT_CALIBRATED:
        why = NOT_CALIBRATED[method.family]
        raise UserError(f"calibrator {config.calibrator} cannot be combined with {config.method}: {why}")
    method.configured(config)  # raises for what only the method can check
    return config


def _check_trainable(config: RunConfig, family: str) -> None:
    """Raise where there is no encoder to train further, or no method that does it."""
    if config.encoder == NONE:
        raise UserError("train_encoder trains an encoder further: name it by encoder")
    if config.encoder == CUSTOM or config.encoder.startswith("onnx:"):
        raise UserError(f"encoder {config.encoder} cannot be trained further: give a torch module as the backbone")
    if family != "self-training":
        raise UserError(f"train_encoder is for methods such as fixmatch or bam-uda, not {config.method}")
    if config.tabular:
        raise UserError(f"train_encoder is for pictures, and {config.data} is a table")


def ignored_settings(config: RunConfig) -> set[str]:
    """The settings that have no effect in this run."""
    method = find(config.method)
    # A calibrator may take the place of the method's head.
    read = (method if config.calibrator == "none" else method.configured(config)).reads
    ignored = set()
    for key, _, annotations in fields(RunConfig):
        unread = key.startswith(OWNED) and key not in read and f"{key.partition('.')[0]}." not in read
        if unread or not all(note.holds(config) for note in annotations if isinstance(note, ReadIf)):
            ignored.add(key)
    return ignored
