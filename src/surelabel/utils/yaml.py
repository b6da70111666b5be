"""YAML as a config needs it: mappings of texts, numbers, true, false and null, read in bounded time and memory.

Of YAML's other abilities, aliases can make a small file enormous or endless, and dates, numbers to the base of 60 and
tags make values that no setting is.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from surelabel.utils.bounded import MOST_DIGITS, as_text, read_bytes

MOST_BYTES = 2**16
DEEPEST = 8


def read_yaml(path: Path) -> Any:
    """The value of a YAML file; raises `OSError`, `Malformed` or `yaml.YAMLError`."""
    return yaml.load(as_text(read_bytes(path, MOST_BYTES, piped=True)), _Loader)


class _Loader(yaml.SafeLoader):
    deep = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = f"line {event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"{line} has an alias, *{event.anchor}: write it out")
        if event.tag is not None:
            raise yaml.YAMLError(f"{line} has a tag, {event.tag}: leave it out")
        if self.deep == DEEPEST:
            raise yaml.YAMLError(f"{line} is nested more than {DEEPEST} deep")
        self.deep += 1
        node = super().compose_node(parent, index)
        self.deep -= 1
        return node


def _number(loader: Any, node: yaml.ScalarNode) -> Any:
    """A number to the base of ten; what else YAML takes for one stays a text."""
    text = node.value
    if re.fullmatch(rf"[-+]?\d[\d_]{{,{MOST_DIGITS - 1}}}", text):
        return int(text)
    return text if ":" in text or node.tag.endswith("int") else loader.construct_yaml_float(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)
