"""Settings by dotted name: reading, checking, converting, writing. Imports no torch."""

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from reprlib import repr as short
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from surelabel.config.constraints import fields
from surelabel.config.run import RunConfig
from surelabel.config.validate import validate
from surelabel.utils.bounded import MOST_DIGITS, Malformed, briefly
from surelabel.utils.errors import UserError, suggestion
from surelabel.utils.files import atomic_write

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Section = TypeVar("Section", bound="DataclassInstance")
CONFIG = "config.yaml"  # of a run folder
WHOLE = re.compile(rf"[-+]?\d{{1,{MOST_DIGITS}}}")
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}
# From earlier versions, for the error message.
RENAMED = {
    "network.trunk": "encoder",
    "pixels": "image_size",
    "optimizer.trust": "optimizer.lars_trust",
    "head.prior": "head.prior_std",
    "target.twice": "target.sharpen_samples",
    "selection.previous": "selection.lagged",
    "paws.large": "paws.large_scale",
    "paws.small": "paws.small_scale",
    "paws.small_least": "paws.small_scale_min",
    "paws.smalls": "paws.small_crops",
    "sure.drawn": "drawn",
}


@cache
def keys() -> dict[str, Any]:
    """The type of every setting by its dotted name."""
    return {key: hint for key, hint, _ in fields(RunConfig)}


@cache
def defaults() -> dict[str, Any]:
    """The value of every setting in a config without a recipe."""
    return flatten(dataclasses.asdict(RunConfig()))


def check_key(key: str, value: Any = None) -> None:
    """Raise if the key or the choice does not exist, with the closest one in the message."""
    if key not in keys():
        # A common mistake is the last part only: lr for optimizer.lr.
        inner = [name for name in keys() if name.endswith(f".{key}")]
        hint = f" Did you mean {' or '.join(map(repr, inner))}?" if inner else suggestion(key, keys())
        if key in RENAMED:
            hint = f" It is now called {RENAMED[key]!r}."
        raise UserError(f"there is no setting named {key!r}.{hint}")
    choices = choices_of(keys()[key])
    if choices and value is not None and value not in choices:
        raise UserError(f"{key} cannot be {short(value)}.{suggestion(short(value), choices)}")


def choices_of(hint: Any) -> tuple[str, ...]:
    """The choices of a setting of this type, if it has a list of them."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(choice for part in get_args(hint) for choice in choices_of(part))


def convert(key: str, value: Any) -> Any:
    """A value from YAML or the command line, in the setting's type."""
    check_key(key)
    hint = keys()[key]
    kinds = (hint,) if get_origin(hint) is Literal else get_args(hint) or (hint,)
    if NoneType in kinds and value in (None, "null"):
        return None
    check_key(key, value)
    if value == "" and defaults()[key] != "":
        raise UserError(f"{key} is empty: give it a value, or leave it out")
    if choices_of(hint):
        return value
    for kind in kinds:
        if kind is bool and str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        if kind is int and not isinstance(value, bool | float) and WHOLE.fullmatch(str(value)):
            return int(value)
        if kind is float and not isinstance(value, bool):
            try:
                return float(value)
            except (ValueError, TypeError):
                continue
        if kind is str and isinstance(value, str):
            return value
    words = " or ".join(KINDS[kind] for kind in kinds if kind in KINDS)
    raise UserError(f"{key} must be {words}, not {short(value)}")


def with_settings(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """The config with some settings replaced by dotted name, converted and validated."""
    typed = {key: convert(key, value) for key, value in flatten(settings).items()}
    return validate(changed(config, typed))


def changed(section: Section, settings: Mapping[str, Any]) -> Section:
    """A config or a section of one, with some settings replaced by dotted name."""
    for key, value in settings.items():
        name, dot, rest = key.partition(".")
        inner = changed(getattr(section, name), {rest: value}) if dot else value
        section = dataclasses.replace(section, **{name: inner})
    return section


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The settings in a YAML file by dotted name; each must exist."""
    from yaml import YAMLError

    from surelabel.utils import yaml

    try:
        tree = yaml.read_yaml(Path(path))
    except (OSError, Malformed) as error:
        raise UserError(f"cannot read the config {path}: {error}") from error
    except YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {briefly(error)}") from error
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise UserError(f"{path} must hold settings as 'key: value' lines")
    settings = flatten(tree)
    for key, value in settings.items():
        try:
            check_key(key, value)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
    return settings


def write_yaml(config: RunConfig, path: str | Path) -> None:
    with atomic_write(path) as file:
        file.write(to_yaml(config))


def to_yaml(config: RunConfig) -> str:
    import yaml

    return yaml.safe_dump(dataclasses.asdict(config), sort_keys=False, allow_unicode=True)


def read_run(folder: str | Path) -> RunConfig:
    """The config of a run folder."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise UserError(f"{folder} is not a run folder: it has no {CONFIG}")
    return with_settings(RunConfig(), read_yaml(path))
