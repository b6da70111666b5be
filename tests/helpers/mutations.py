"""Changes to the files of a run folder, as an adversary or a bad disk would make them; drawn by hypothesis."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from hypothesis import strategies as st
from safetensors.torch import load, save

from surelabel.training.checkpoints import DIGEST, MARK, REST, _digest

NESTED: Any = []
for _ in range(200):
    NESTED = [NESTED]
HOSTILE = [
    None, True, -1, 0, 2, 2**31, 2**63, 10**400, 1e308, -0.5, float("nan"), float("inf"), "", "x", "\0", "\ud800",
    "../..", "x" * 10**5, "2024-01-01", [], {}, [1, 2], [["a"]], {"a": {"b": 1}}, NESTED, list(range(3000)),
]  # fmt: skip
# Of these another value is no damage: it asks for another machine, or for a longer run.
FREE = ("devices", "nodes", "steps")


def any_bytes(draw: Any, content: bytes) -> bytes:
    """Some bytes replaced, left out or put in; or the end cut off; or something else."""
    start = draw(st.integers(0, len(content)))
    end = draw(st.integers(start, min(len(content), start + 20)))
    kept = draw(st.sampled_from([content[end:], content[end:], b""]))
    return content[:start] + draw(st.binary(max_size=20)) + kept


def any_tree(draw: Any, tree: Any) -> Any:
    """A value somewhere in it replaced, left out or given twice."""
    if isinstance(tree, dict) and tree and draw(st.integers(0, 9)):
        key = draw(st.sampled_from([key for key in tree if key not in FREE] or list(tree)))
        if not draw(st.integers(0, 4)):
            return {name: value for name, value in tree.items() if name != key}
        return tree | {key: any_tree(draw, tree[key])}
    if isinstance(tree, list) and tree and draw(st.integers(0, 9)):
        place = draw(st.integers(0, len(tree) - 1))
        middle = draw(st.sampled_from([[], [tree[place]] * 2, None]))
        return tree[:place] + ([any_tree(draw, tree[place])] if middle is None else middle) + tree[place + 1 :]
    return draw(st.sampled_from(HOSTILE))


def any_json(draw: Any, content: bytes) -> bytes:
    return json.dumps(any_tree(draw, json.loads(content))).encode()


def any_lines(draw: Any, content: bytes) -> bytes:
    rows = any_tree(draw, [json.loads(line) for line in content.splitlines()])
    return "\n".join(map(json.dumps, rows if isinstance(rows, list) else [rows])).encode()


def any_yaml(draw: Any, content: bytes) -> bytes:
    tree = any_tree(draw, yaml.safe_load(content))
    return yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass")


def any_tensors(draw: Any, content: bytes) -> bytes:
    """A tensor with another shape, type or values; renamed, or left out; or a header that lies."""
    if not draw(st.integers(0, 3)):
        length = int.from_bytes(content[:8], "little")
        header = any_json(draw, content[8 : 8 + length])
        return len(header).to_bytes(8, "little") + header + content[8 + length :]
    tensors = load(content)
    name = draw(st.sampled_from(sorted(tensors)))
    tensor = tensors[name]
    changed: dict[str, Callable[[], torch.Tensor]] = {
        "empty": lambda: tensor[:0] if tensor.ndim else tensor.new_zeros(0),
        "longer": lambda: torch.cat([tensor.flatten(), tensor.flatten()]),
        "deeper": lambda: tensor[None] + 0,
        "nan": lambda: torch.full_like(tensor, float("nan") if tensor.is_floating_point() else -7),
        "large": lambda: torch.full_like(tensor, torch.finfo(tensor.dtype).max if tensor.is_floating_point() else 99),
        "double": tensor.double, "whole": tensor.long, "complex": lambda: tensor.to(torch.complex64),
    }  # fmt: skip
    what = draw(st.sampled_from([*changed, "gone", "renamed"]))
    if what in changed:
        tensors[name] = changed[what]()
    else:
        del tensors[name]
        if what == "renamed":
            tensors[f"{name}x"] = tensor
    return save(tensors)


def any_checkpoint(draw: Any, content: bytes) -> bytes:
    """Its tensors, or what is beside them, changed; the checksum is right."""
    content = content[: -len(MARK) - 2 * DIGEST]
    if draw(st.booleans()):
        tensors = load(content)
        rest = any_json(draw, tensors.pop(REST).numpy().tobytes())
        content = save(tensors | {REST: torch.frombuffer(bytearray(rest), dtype=torch.uint8)})
    else:
        content = any_tensors(draw, content)
    return content + MARK + _digest(content)


FORMS = {
    ".json": any_json, ".jsonl": any_lines, ".yaml": any_yaml, ".safetensors": any_tensors, ".pt": any_checkpoint,
}  # fmt: skip


def change(draw: Any, path: Path) -> None:
    """Change this file, or put something else in its place."""
    content = path.read_bytes()
    path.unlink()
    what = draw(st.sampled_from(["form"] * 6 + ["bytes"] * 3 + ["missing", "folder", "pipe", "sparse"]))
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "sparse":
        with path.open("wb") as file:
            file.truncate(2**36)
    elif what != "missing":
        path.write_bytes(
            FORMS.get(path.suffix, any_bytes)(draw, content) if what == "form" else any_bytes(draw, content)
        )


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to, ignore=shutil.ignore_patterns(".lock")))
