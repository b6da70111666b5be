"""Join the files of all parts to one, the same as if it had been written at once."""

import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.write import Embeddings, check_suffix, read_embeddings, write_embeddings
from surelabel.data.part import part_files
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write


def join(out: Path) -> list[Path]:
    """Write `out` from the files of its parts, and return these."""
    parts = part_files(out)
    if out.suffix == ".csv":
        _join_csv(out, parts)
    else:
        check_suffix(out)
        _join_embeddings(out, parts)
    return parts


def _join_embeddings(out: Path, parts: list[Path]) -> None:
    """The rows of all parts, mapped where their files can be; parts of more processes than samples may be empty."""
    found = [one for one in map(read_embeddings, parts) if len(one)]
    if not found:
        raise UserError(f"no part of {out} has rows")
    forms = {(one.shape[1], one.parts[0].dtype, one.ids is None, one.labels is None) for one in found}
    if len(forms) > 1:
        raise UserError(f"the parts of {out} differ in width, type, or in having ids: make all by one command")
    rows = [part for one in found for part in one.parts]
    write_embeddings(out, Embeddings(rows, _together(found, "ids"), _together(found, "labels")))


def _together(found: list[Embeddings], name: str) -> NDArray[np.str_] | None:
    texts = [getattr(one, name) for one in found]
    return None if texts[0] is None else np.concatenate(texts)


def _join_csv(out: Path, parts: list[Path]) -> None:
    """One header, which all parts have but those without rows, which are empty."""
    header: bytes | None = None
    with atomic_write(out, "wb") as file:
        for path in parts:
            with path.open("rb") as part:
                own = part.readline()
                if own and header is None:
                    header = own
                    file.write(own)
                elif own and own != header:
                    raise UserError(f"{path} has other columns than {parts[0].name}: make all parts by one command")
                shutil.copyfileobj(part, file, 2**20)
