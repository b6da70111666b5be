"""Settings by dotted name: reading, checking and writing a `Run` from the command line and YAML. Imports no torch."""

import dataclasses
import re
from argparse import SUPPRESS
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from surelabel.config.run import RunConfig
from surelabel.config.validate import validate
from surelabel.utils.errors import UserError, suggestion
from surelabel.utils.files import atomic_write

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

Section = TypeVar("Section")
CONFIG = "config.yaml"  # of a run folder
# Settings of earlier versions, for the error that meets them.
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
}


def keys(kind: Any = RunConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every configuration key by its dotted name, with its type."""
    for name, hint in get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from keys(hint, f"{prefix}{name}.")
        else:
            yield prefix + name, hint


@cache
def _known() -> dict[str, Any]:
    return dict(keys())


def check_key(key: str, value: Any = None) -> None:
    """Raise a `UserError` that names the closest right key, or choice, where this one does not exist."""
    known = _known()
    if key not in known:
        # The last part alone is a common slip: --lr for --optimizer.lr.
        inner = [name for name in known if name.endswith(f".{key}")]
        hint = f" Did you mean {' or '.join(map(repr, inner))}?" if inner else suggestion(key, known)
        if key in RENAMED:
            hint = f" It is now called {RENAMED[key]!r}."
        raise UserError(f"there is no setting named {key!r}.{hint}")
    choices = _choices(known[key])
    if choices and value is not None and value not in choices:
        raise UserError(f"{key} cannot be {value!r}.{suggestion(str(value), choices)}")


def _choices(hint: Any) -> tuple[str, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(choice for part in get_args(hint) for choice in _choices(part))


def parser(prog: str = "surelabel fit", description: str | None = None) -> "ArgumentParser":
    """A command-line and YAML parser with one option for each key of `Run`."""
    from jsonargparse import ArgumentParser

    made = ArgumentParser(prog=prog, description=description, exit_on_error=False)
    made.add_class_arguments(RunConfig, as_group=False)
    for action in made._actions:
        if dataclasses.is_dataclass(get_type_hints(RunConfig).get(action.dest)):
            action.help = SUPPRESS  # a file for one part of the settings: more than anybody needs to see
    return made


def from_namespace(namespace: "Namespace") -> RunConfig:
    """The run that a parser read."""
    return validate(_from_dict(RunConfig, namespace.as_dict()))


def _from_dict(kind: type[Section], values: dict[str, Any]) -> Section:
    hints = get_type_hints(kind)
    parts = {
        key: _from_dict(hints[key], value) if dataclasses.is_dataclass(hints[key]) else value
        for key, value in values.items()
    }
    return kind(**parts)


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The settings in a YAML file, by dotted key, each checked to exist."""
    import yaml

    try:
        tree = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the configuration {path}: {error}") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {error}") from error
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
    """The complete configuration."""
    with atomic_write(path) as file:
        file.write(to_yaml(config))


def to_yaml(config: RunConfig) -> str:
    import yaml

    return yaml.safe_dump(dataclasses.asdict(config), sort_keys=False, allow_unicode=True)


def read_run(folder: str | Path, option: str = "") -> RunConfig:
    """The run in a run folder; the `option` that named the folder stands before it in the error."""
    path = Path(folder) / CONFIG
    if not path.is_file():
        raise UserError(f"{option}{folder} is not a run folder: it has no {CONFIG}")
    return with_settings(RunConfig(), read_yaml(path))


def with_settings(config: RunConfig, settings: dict[str, Any]) -> RunConfig:
    """The run with some settings replaced, by dotted key, each checked for its type."""
    from jsonargparse import ArgumentError

    made = parser()
    made.set_defaults(flatten(dataclasses.asdict(config)))
    try:
        namespace = made.parse_object(_nested(settings))
    except ArgumentError as error:
        raise wrong_type(error, settings) from None
    return from_namespace(namespace)


def wrong_type(error: Exception, settings: dict[str, Any]) -> UserError:
    """What the parser said of a value, in plain words; of a key or a choice that does not exist, the closest one."""
    settings = flatten(settings)
    for key, value in settings.items():
        check_key(key, value)
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    named = re.search(r'key "([^"]+)"', str(error))
    if named is None or named[1] not in settings:
        return UserError(str(error))
    hint = dict(keys())[named[1]]
    kinds = " or ".join(words[kind] for kind in (get_args(hint) or (hint,)) if kind in words)
    return UserError(f"{named[1]} must be {kinds or hint}, not {settings[named[1]]!r}")


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, name = key.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = value
    return tree
