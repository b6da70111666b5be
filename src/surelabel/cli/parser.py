"""The parser of all commands: argparse, with mistakes as `UserError`, and one option for each setting of a run."""

import argparse
import difflib
import re
from collections.abc import Mapping, Sequence
from functools import cache, partial
from inspect import cleandoc
from shutil import get_terminal_size
from typing import Any, NoReturn, get_args, get_type_hints

from surelabel.config.run import RunConfig
from surelabel.config.settings import check_key, convert, defaults, keys
from surelabel.utils.errors import UserError


class Once(argparse.Action):
    """Stores a value, and refuses a second one: which of two was meant, nobody can tell."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if self.dest in vars(namespace):
            raise UserError(f"{option_string} is given twice")
        setattr(namespace, self.dest, values)


class Setting(Once):
    """A setting of a run, whose `full_help` --help-all shows."""

    def __init__(self, *, full_help: str, **given: Any) -> None:
        super().__init__(**given)
        self.full_help = full_help


class HelpAll(argparse.Action):
    """Shows the help with all settings."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        for action in parser._actions:
            if isinstance(action, Setting):
                action.help = action.full_help
        parser.print_help()
        parser.exit()


class Page(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal, up to 120 columns, with the explanations not too far right."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=min(get_terminal_size((100, 24)).columns, 120) - 2)


class Parser(argparse.ArgumentParser):
    """argparse, whose errors are raised; in an option's name a dash and an underscore are the same."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", Page)
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UserError(re.sub(r"^argument ", "", message).replace(": expected one argument", " needs a value"))

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The options that these words mean; one that does not exist is an error with the closest that does."""
        options, unknown = self.parse_known_args([_with_dashes(word) for word in words])
        for word in unknown:
            if not word.startswith("-"):
                raise UserError(f"{word!r} is one argument too many: see --help")
            known = [name for action in _all_actions(self, words) for name in action.option_strings]
            key = word.lstrip("-").partition("=")[0]
            near = difflib.get_close_matches(f"--{key}", known, n=1)
            if near and near[0][2:].replace("-", "_") not in keys():
                raise UserError(f"there is no option --{key}. Did you mean {near[0]}?")
            if any(name[2:].replace("-", "_") in keys() for name in known):
                check_key(key.replace("-", "_"))
            raise UserError(f"there is no option --{key}: see --help")
        return options


def _with_dashes(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if re.match(r"--[\w.-]+$", name) else word


def _all_actions(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[argparse.Action]:
    """The options of a parser and of the sub-commands that these words name."""
    found = list(parser._actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in words:
                if name in action.choices:
                    found += _all_actions(action.choices[name], words)
    return found


def add_settings(
    parser: argparse.ArgumentParser, shown: Mapping[str, Sequence[str]], leave_out: Sequence[str] = ()
) -> None:
    """One option for each setting; `shown` are groups of those that --help shows, --help-all shows the rest too."""
    groups = {name: parser.add_argument_group(name) for name in shown}
    rest = parser.add_argument_group("all other settings")
    for key, default in defaults().items():
        if key in leave_out:
            continue
        group = next((groups[name] for name, listed in shown.items() if key in listed), rest)
        text = describe(key).replace("%", "%%")
        said = "" if default in (None, "") else f" (default: {default})".replace("%", "%%")
        group.add_argument(
            f"--{key.replace('_', '-')}", dest=key, action=Setting, default=argparse.SUPPRESS,
            metavar=_metavar(key), type=partial(convert, key), full_help=text + said, **_as_flag(key),
            help=argparse.SUPPRESS if group is rest else re.split(r"(?<=\w)[.;] ", text)[0],
        )  # fmt: skip
    parser.add_argument("--help-all", action=HelpAll, nargs=0, help="show all settings and stop")


def _metavar(key: str) -> str:
    kinds = get_args(keys()[key]) or (keys()[key],)
    for kind, text in ((float, "X"), (bool, "BOOL"), (int, "N")):
        if kind in kinds and str not in kinds:
            return text
    return re.split(r"[._]", key)[-1].upper()


def _as_flag(key: str) -> dict[str, Any]:
    """Of a setting that is true or false and false by default: without a value, it is true."""
    return {"nargs": "?", "const": "true"} if keys()[key] is bool and defaults()[key] is False else {}


def settings_given(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line gives, by dotted name."""
    return {key: value for key, value in vars(options).items() if key in keys()}


@cache
def _descriptions() -> dict[str, str]:
    found = {}
    sections = {"": RunConfig} | {
        f"{name}.": hint for name, hint in get_type_hints(RunConfig).items() if hasattr(hint, "__dataclass_fields__")
    }
    for prefix, section in sections.items():
        listed = cleandoc(section.__doc__ or "").partition("Args:\n")[2]
        for name, text in re.findall(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", listed, re.MULTILINE):
            found[prefix + name] = " ".join(text.split())
    return found


def describe(key: str) -> str:
    """What the documentation of the config says of a setting."""
    return _descriptions()[key]


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)
