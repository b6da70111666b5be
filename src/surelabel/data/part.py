"""Parts of some rows, which several processes share out, and the files that they write."""

import re
from dataclasses import dataclass
from pathlib import Path

from surelabel.utils.errors import UserError


@dataclass(frozen=True)
class Part:
    """A part of some rows: the `number`-th, from 1, of so many."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> "Part":
        """The part that is written as 3/16."""
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise UserError(f"part {text!r}: write it as 3/16, the third of sixteen; the first is 1/16")
        return cls(int(found[1]), int(found[2]))

    def rows(self, total: int, unit: int) -> range:
        """Its rows of so many, whole units, so that what is computed unit by unit does not depend on the parts."""
        units = -(-total // unit)
        first, end = (units * number // self.of * unit for number in (self.number - 1, self.number))
        return range(min(first, total), min(end, total))

    def file(self, out: Path) -> Path:
        """Where it writes what is to be joined to the file `out`; that file itself if it is all."""
        return out if self.of == 1 else out.with_name(f"{out.stem}.part-{self}{out.suffix}")

    def __str__(self) -> str:
        return f"{self.number:0{len(str(self.of))}}-of-{self.of}"


WHOLE = Part()


def part_files(out: Path) -> list[Path]:
    """The files of all parts of `out`, in order; raises a `UserError` if one is missing."""
    found: dict[int, dict[int, Path]] = {}
    for path in out.parent.glob("*"):
        match = re.fullmatch(re.escape(out.stem) + r"\.part-([0-9]+)-of-([0-9]+)" + re.escape(out.suffix), path.name)
        if match is not None:
            found.setdefault(int(match[2]), {})[int(match[1])] = path
    if not found:
        raise UserError(f"there are no parts of {out}: they are called {Part(1, 16).file(out).name}, and so on")
    if len(found) > 1:
        raise UserError(
            f"there are parts of {' and of '.join(map(str, sorted(found)))} of {out}: remove those not meant"
        )
    (of, paths), *_ = found.items()
    missing = [Part(number, of).file(out).name for number in range(1, of + 1) if number not in paths]
    if missing:
        raise UserError(f"{len(missing)} of {of} parts of {out} are missing, {missing[0]} first: make them, then join")
    return [paths[number] for number in range(1, of + 1)]
