"""`python tools/reliability_pair.py BEFORE AFTER -o FILE.svg`: the reliability diagrams of two runs as one picture."""

import argparse
from pathlib import Path

from surelabel.equations import Groups
from surelabel.report.charts import reliability_pair
from surelabel.report.palette import LIGHT
from surelabel.report.predictions import measure
from surelabel.report.record import Recorded, read_recorded
from surelabel.report.svg import picture
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, metavar="BEFORE", help="a run folder")
    parser.add_argument("after", type=Path, metavar="AFTER", help="a run folder")
    parser.add_argument("-o", "--out", type=Path, required=True, help="an .svg or .png file")
    options = parser.parse_args()
    try:
        write_pair(options.before, options.after, options.out)
    except UserError as error:
        parser.error(str(error))


def write_pair(before: Path, after: Path, out: Path) -> None:
    """Draw two runs on their whole test sets, one after the other, on white."""
    if out.suffix not in (".svg", ".png"):
        raise UserError(f"{out}: name an .svg or a .png file")
    runs = [read_recorded(path) for path in (before, after)]
    first, second = (_bins(run) for run in runs)
    figure = reliability_pair(first, second, (runs[0].run.method, runs[1].run.method))
    with atomic_write(out, "wb") as file:
        file.write(picture(figure, out.suffix[1:], background=LIGHT["page"]))


def _bins(run: Recorded) -> Groups:
    bins = measure(run).bins
    if bins is None:
        raise UserError(f"{run.folder.path}: its data have no test set to draw")
    return bins


if __name__ == "__main__":
    main()
