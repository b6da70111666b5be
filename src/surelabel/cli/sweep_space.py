"""The search space of a setting, as given by `--space`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from surelabel.config.run import RunConfig
from surelabel.config.settings import check_key, keys, with_settings
from surelabel.config.validate import ignored_settings
from surelabel.utils.errors import UserError

if TYPE_CHECKING:
    import optuna


# Settings that others depend on.
OF_THE_RECIPE = ("method", "data", "labels", "fidelity")


@dataclass(frozen=True)
class Space:
    """The values of a setting: `choices`, or a range, uniform or log-uniform."""

    key: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[str, ...]:
        """The choices, or both ends of the range, as text."""
        return self.choices or tuple(str(int(end) if _is_integer(self.key) else end) for end in (self.low, self.high))

    def suggest(self, trial: "optuna.Trial") -> Any:
        if self.choices:
            return trial.suggest_categorical(self.key, self.choices)
        if _is_integer(self.key):
            return trial.suggest_int(self.key, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.key, self.low, self.high, log=self.log)


def read_space(text: str) -> Space:
    """Parse 'optimizer.lr=log:0.003:0.3', 'selection.quantile=0.5:0.9' or 'network.norm=a,b'."""
    key, equals, values = text.partition("=")
    key = key.replace("-", "_")
    check_key(key)
    if key in OF_THE_RECIPE:
        raise UserError(f"--space {key}: other settings depend on it, so run one sweep per value, with --{key}")
    number = r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?"
    bounds = re.fullmatch(rf"(log:)?({number}):({number})", values)
    try:
        if bounds:
            low, high = float(bounds[2]), float(bounds[3])
            if low >= high or (bounds[1] and low <= 0):
                raise UserError(f"--space {text}: LOW must be below HIGH, and above zero with log")
            if not {int, float} & set(_kinds(key)):
                raise UserError(f"--space {text}: {key} is not a number; list its values as A,B,C")
            if _is_integer(key) and not (low.is_integer() and high.is_integer()):
                raise UserError(f"--space {text}: {key} is an integer, so LOW and HIGH must be too")
            return Space(key, low, high, bool(bounds[1]))
    except ValueError:
        pass
    if not equals or not values or ":" in values:
        raise UserError(f"--space {text}: write KEY=LOW:HIGH, KEY=log:LOW:HIGH or KEY=A,B,C")
    return Space(key, choices=tuple(values.split(",")))


def _kinds(key: str) -> tuple[Any, ...]:
    hint = keys()[key]
    return get_args(hint) or (hint,)


def _is_integer(key: str) -> bool:
    return int in _kinds(key) and float not in _kinds(key)


def check_used(config: RunConfig, spaces: Sequence[Space]) -> None:
    """Raise if the run never reads a setting, whatever values the others have."""
    idle = {space.key for space in spaces} & ignored_settings(config)
    for space in spaces if idle else ():
        for value in () if space.key in idle else space.ends:  # an unread setting decides nothing
            try:
                idle &= ignored_settings(with_settings(config, {space.key: value}))
            except UserError:  # invalid alone, but maybe valid with other values: allow it
                return
    if idle:
        raise UserError(
            f"--space {min(idle)} has no effect on this run ({config.method}): leave it out, or choose a --method that "
            "reads it"
        )
