"""Checkpoint files: tensors, numbers and text only, with a checksum."""

from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write

# Appended to torch's archive, where torch.load ignores it.
MARK = b"\nsurelabel blake2b "
DIGEST = 32  # bytes; twice as many characters in hexadecimal


class Damaged(UserError):
    """A checkpoint that cannot be used."""


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write the whole state or nothing."""
    # In memory first: on a full disk, torch's archive writer fails with an error of another type.
    archive = BytesIO()
    torch.save(state, archive)
    content = archive.getbuffer()
    with atomic_write(path, "wb") as file:
        file.write(content)
        file.write(MARK + _digest(content))


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state, on the CPU; `Damaged` if the file is unusable. Nothing in it can run code."""
    try:
        content = memoryview(path.read_bytes())
    except OSError as error:
        raise Damaged(f"{path} cannot be read ({error.strerror or error})") from error
    end = -len(MARK) - 2 * DIGEST
    archive = content[:end]
    if bytes(content[end:]) != MARK + _digest(archive):
        raise Damaged(f"{path} is damaged: its checksum is wrong")
    try:
        stored: dict[str, Any] = torch.load(BytesIO(archive), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises nearly anything
        raise Damaged(f"{path} is not a checkpoint ({error})") from error
    return stored


def _digest(content: memoryview) -> bytes:
    return blake2b(content, digest_size=DIGEST).hexdigest().encode()
