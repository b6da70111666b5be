"""Join the files of all parts to one, the same as if it had been written at once."""

import shutil
from pathlib import Path

from surelabel.data.part import part_files
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write


def join(out: Path) -> list[Path]:
    """Write `out` from the files of its parts, and return these."""
    parts = part_files(out)
    if out.suffix == ".csv":
        _join_csv(out, parts)
    else:
        raise UserError(f"{out}: parts are joined of .csv files, and of embeddings")
    return parts


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
