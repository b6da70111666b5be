"""`python tools/reliability_pair.py BEFORE AFTER -o FILE.svg`: the reliability diagrams of two runs as one picture."""

import argparse
from pathlib import Path

from matplotlib.figure import Figure

from surelabel.equations import Groups, ece_of_bins
from surelabel.inference.trained_run import TrainedRun, load
from surelabel.report.charts import draw_bars, draw_counts
from surelabel.report.palette import LIGHT
from surelabel.report.predictions import measure
from surelabel.report.record import read_recorded
from surelabel.report.svg import picture, styled
from surelabel.training.run_folder import RunFolder
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
    runs = [load(path) for path in (before, after)]
    first, second = (_bins(run) for run in runs)
    figure = reliability_pair(first, second, (runs[0].config.method, runs[1].config.method))
    with atomic_write(out, "wb") as file:
        file.write(picture(figure, out.suffix[1:], background=LIGHT["page"]))


@styled
def reliability_pair(before: Groups, after: Groups, names: tuple[str, str]) -> Figure:
    """The reliability diagrams of two runs, one after the other. Groups of [M]."""
    figure = Figure(figsize=(7.4, 4.5), layout="constrained")
    rows = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 1))
    for column, (bins, name) in enumerate(zip((before, after), names, strict=True)):
        draw_bars(rows[0, column], bins)
        draw_counts(rows[1, column], bins)
        accuracy = float(bins.correct.sum() / bins.size.sum())
        rows[0, column].set_title(
            f"{name}: accuracy {accuracy:.1%}, ECE {float(ece_of_bins(bins)):.3f}", fontsize=10, color=LIGHT["ink"]
        )
    for axes in rows[:, 1]:
        axes.set_ylabel("")
    # One scale for both, with room for the counts above the highest bar of either.
    rows[1, 0].set_ylim(0, 1.2 * max(float(bins.size.max() / bins.size.sum()) for bins in (before, after)))
    diagonal, right, gap = rows[0, 0].get_legend_handles_labels()[0]
    figure.legend(handles=[right, gap, diagonal], loc="outside lower center", ncols=3, frameon=False)
    return figure


def _bins(run: TrainedRun) -> Groups:
    bins = measure(run, read_recorded(RunFolder(run.path))).bins
    if bins is None:
        raise UserError(f"{run.path}: its data have no test set to draw")
    return bins


if __name__ == "__main__":
    main()
