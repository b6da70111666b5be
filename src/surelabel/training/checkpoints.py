"""Checkpoint files: tensors, numbers and text alone, with a checksum that finds damage before it is trained on."""

from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write

# Behind torch's own archive, where torch.load does not mind them.
MARK = b"\nsurelabel blake2b "
DIGEST = 32  # bytes; as many characters again in hexadecimal


class Damaged(UserError):
    """A checkpoint that cannot be used."""


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """The state, whole or not at all."""
    # In memory first: written straight to a full disk, torch's archive fails with an error of its own.
    archive = BytesIO()
    torch.save(state, archive)
    content = archive.getbuffer()
    with atomic_write(path, "wb") as file:
        file.write(content)
        file.write(MARK + _digest(content))


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state on the CPU; whatever is wrong with the file is a `Damaged`. Nothing in it can run code."""
    try:
        content = memoryview(path.read_bytes())
    except OSError as error:
        raise Damaged(f"{path} cannot be read ({error.strerror or error})") from error
    archive, tail = content[: -len(MARK) - 2 * DIGEST], content[-len(MARK) - 2 * DIGEST :]
    if bytes(tail) != MARK + _digest(archive):
        raise Damaged(f"{path} is damaged: its checksum is wrong")
    try:
        stored: dict[str, Any] = torch.load(BytesIO(archive), map_location="cpu", weights_only=True)
    except Exception as error:  # an archive that is no state makes torch raise nearly anything
        raise Damaged(f"{path} is no checkpoint ({error})") from error
    return stored


def _digest(content: memoryview) -> bytes:
    return blake2b(content, digest_size=DIGEST).hexdigest().encode()
