"""What a config may not be: numbers out of range, and settings that contradict each other. Imports no torch."""

from operator import attrgetter

from surelabel.config.constraints import Check, ReadIf, fields
from surelabel.config.methods import OWNED, find
from surelabel.config.run import RunConfig
from surelabel.utils.errors import UserError


def validate(config: RunConfig) -> RunConfig:
    """The config itself, or a `UserError` for what no type can forbid."""
    find(config.method)
    for key, _, beside in fields(RunConfig):
        value = attrgetter(key)(config)
        for check in (one for one in beside if isinstance(one, Check)):
            if value is not None and not check.holds(value):
                raise UserError(f"{key} {check.rule}, and is {value}")
    if config.optimizer.nesterov and config.optimizer.momentum == 0:
        raise UserError("optimizer.nesterov needs a momentum above zero")
    if config.optimizer.nesterov and config.optimizer.lars_trust > 0:
        raise UserError("optimizer.lars_trust (LARS) and optimizer.nesterov do not go together: set one of them off")
    if config.encoder != "none" and not config.network.name.startswith("mlp-"):
        raise UserError(f"encoder makes rows of features: network.name must be an mlp, not {config.network.name}")
    if config.device == "mps" and (config.precision not in ("auto", "32") or config.processes > 1):
        raise UserError("device mps computes in 32 bits and one process: leave precision and devices as they are")
    find(config.method).configured(config)  # what only the method can tell
    return config


def ignored_settings(config: RunConfig) -> set[str]:
    """The settings that this run never reads: setting them has no effect, and tells no two runs apart."""
    read = find(config.method).reads
    ignored = set()
    for key, _, beside in fields(RunConfig):
        owned = key.startswith(OWNED)
        unread = owned and key not in read and f"{key.partition('.')[0]}." not in read
        if unread or not all(one.holds(config) for one in beside if isinstance(one, ReadIf)):
            ignored.add(key)
    return ignored
