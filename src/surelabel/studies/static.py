"""Studies without runs: schedules, and the two data sets that the paper describes."""

from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.data.long_tail import GROUPS, class_sizes, group_names
from surelabel.studies import charts
from surelabel.studies.cells import CLASSES, NAMES
from surelabel.studies.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The paper's Table 5: (data, α) -> (labelled, total).
PRINTED = {("cifar10", 10): (2041, 20_431), ("cifar10", 100): (1236, 12_406), ("cifar100", 10): (1911, 19_573),
           ("cifar100", 100): (1051, 10_847)}  # fmt: skip


def make(name: str, folder: Path) -> tuple[list[Table], "Figure | None", list[Path]]:
    """The tables, the chart and the written image files of a study."""
    if name == "lt-data":
        return [long_tail_table()], None, []
    if name == "schedules":
        return [], charts.schedules_figure(), []
    from surelabel.phc.pictures import draw_pictures

    return [crystal_table()], None, draw_pictures(folder)


def long_tail_table() -> Table:
    """The numbers of samples and labels of the long-tailed data sets."""
    rows = []
    for (data, alpha), (labelled, total) in PRINTED.items():
        sizes = class_sizes(50_000 // CLASSES[data], alpha, CLASSES[data])
        labels = sum(max(1, size // 10) for size in sizes)
        groups = [str(group_names(sizes).count(name)) for name in GROUPS]
        rows.append([
            f"{NAMES[data]}-LT, α = {alpha}", f"{labels:,}", f"{labelled:,}", f"{sum(sizes):,}", f"{total:,}",
            f"{sizes[0]:,} to {sizes[-1]:,}", " / ".join(groups),
        ])  # fmt: skip
    headings = ["data", "labelled", "paper", "total", "paper", "of a class", "classes: many / medium / few"]
    caption = (
        "A tenth of each class is labelled, rounded down, at least one. Many: more than 100 samples; few: below 10."
    )
    return Table("Long-tailed CIFAR", headings, rows, caption)


def crystal_table() -> Table:
    """The classes of the embedded crystals."""
    from surelabel.data.benchmarks import phc

    data = phc.load()
    counts = data.class_counts or ()
    test = 0 if data.test is None else len(data.test)
    rows = [[name, f"{count:,}"] for name, count in zip(data.classes, counts, strict=True)]
    caption = f"{sum(counts):,} crystals: {len(data.train):,} in the pool, {test:,} to test on. The paper has 11,375."
    return Table("Photonic crystals by their largest gap", ["gap", "crystals"], rows, caption)
