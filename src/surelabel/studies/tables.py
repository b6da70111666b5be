"""The tables of a study: the paper's layout, all metrics, and paired differences."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import inf
from statistics import median

from surelabel.data.long_tail import GROUPS
from surelabel.studies.layout import Filled, Layout, common, metric
from surelabel.studies.plan import Printed, Study
from surelabel.studies.records import Record
from surelabel.studies.statistics import LEVEL, correlation, difference, mean, pearson, spearman, without_one

# Part of a record, key, format, heading.
DETAILS = (
    ("final", "accuracy", "{:.1%}", "accuracy"),
    ("final", "ece", "{:.3f}", "ECE"),
    ("final", "confidence − accuracy", "{:+.3f}", "confidence − accuracy"),
    ("final", "nll", "{:.2f}", "NLL"),
    ("pool", "purity", "{:.0%}", "purity"),
    ("pool", "acceptance", "{:.0%}", "accepted"),
    ("pool", "effective_classes", "{:.1f}", "classes in effect"),
    ("summary", "around_best_median_accuracy", "{:.1%}", "accuracy, paper's protocol"),
    ("summary", "converged_ece", "{:.3f}", "ECE at convergence"),
    ("summary", "mean_ece_until_converged", "{:.3f}", "mean ECE up to convergence"),
)
# Part of a record, key, factor, format, sign of an improvement, heading.
DIFFERENCES = (
    ("final", "accuracy", 100, "{:+.1f}", 1, "accuracy, points"),
    ("final", "ece", 1, "{:+.3f}", -1, "ECE"),
    ("final", "nll", 1, "{:+.3f}", -1, "NLL"),
    ("pool", "purity", 100, "{:+.1f}", 1, "purity, points"),
    ("summary", "mean_ece_until_converged", 1, "{:+.3f}", -1, "mean ECE up to convergence"),
)


@dataclass(frozen=True)
class Table:
    """A table of texts with a title and a caption."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def markdown(self) -> str:
        lines = [list(self.headings), ["---"] * len(self.headings), *(list(row) for row in self.rows)]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return "\n\n".join(part for part in (f"## {self.title}", self.caption, table) if part)

    def html(self) -> str:
        head = "".join(f"<th>{escape(heading)}</th>" for heading in self.headings)
        body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        caption = f"<p>{escape(self.caption)}</p>\n" if self.caption else ""
        return (
            f"<h2>{escape(self.title)}</h2>\n{caption}"
            f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
        )


def main_table(study: Study, layout: Layout) -> Table:
    """Accuracy / ECE in the paper's layout, ours beside the paper's."""
    headings, rows = [study.heading], [[row] for row in layout.rows]
    for column in layout.columns:
        cells = [layout.cells.get((row, column)) for row in layout.rows]
        seeds = layout.shared_seeds(column) if study.settings else []
        printed = [cell.cell.printed if cell else None for cell in cells]
        headings.append(f"{column} ({len(seeds)} seed{'s' * (len(seeds) > 1)})" if seeds else column)
        alike = len({frozenset(cell.records) for cell in cells if cell and cell.records}) < 2
        for line, cell in zip(rows, cells, strict=True):
            line.append(_ours(cell, alike) if cell else "")
        if any(printed):
            on = {value.on for value in printed if value}
            headings.append("paper" + (f", {on.pop()}" if on and "" not in on else ""))
            for line, value in zip(rows, printed, strict=True):
                line.append("" if value is None else _printed(value))
    caption = (
        "Test accuracy / ECE of the evaluated weights at the last step, on the whole test set; mean ± standard error "
        + (
            "over the seeds that all rows have; where there are none, over a row's own (how many)."
            if study.settings
            else "over seeds (how many, where a column's cells differ in that)."
        )
    )
    if any(cell.cell.printed for cell in layout.cells.values()):
        caption += " The paper's figures are those of its own size and protocol."
    return Table(study.what[0].upper() + study.what[1:], headings, rows, caption)


def _ours(cell: Filled, alike: bool) -> str:
    if not cell.records:
        return "not run"
    shown = f"{mean(cell.metrics('final', 'accuracy'), '{:.1%}')} / {mean(cell.metrics('final', 'ece'), '{:.3f}')}"
    return shown if alike else f"{shown} ({len(cell.records)})"


def _printed(value: Printed) -> str:
    return f"{value.accuracy:.1f}%" + (f" / {value.ece}" if value.ece else "")


def detail_table(study: Study, layout: Layout) -> Table:
    """All metrics of every cell, also by the paper's protocol."""
    chosen = any(cell.choice for cell in layout.cells.values())
    # Earlier runs did not count classes.
    counted = any(any(cell.metrics("pool", "effective_classes")) for cell in layout.cells.values())
    details = [row for row in DETAILS if counted or row[1] != "effective_classes"]
    headings = ["data", study.heading, *(["best choice"] if chosen else []), "seeds", *(row[-1] for row in details)]
    rows = []
    for column in layout.columns:
        for row in layout.rows:
            cell = layout.cells.get((row, column))
            if cell is not None and cell.records:
                metrics = [mean(cell.metrics(part, key), form) for part, key, form, _ in details]
                rows.append([column, row, *([cell.choice] if chosen else []), str(len(cell.records)), *metrics])
    caption = (
        "The paper's protocol: the median accuracy of 20 evaluations around the best one, which selects on the test "
        "set; ECE at the first evaluation that reaches it. Evaluations during training may use a part of the test set."
    )
    return Table("All figures", headings, rows, caption)


def pair_table(study: Study, layout: Layout) -> Table | None:
    """Paired differences between rows; None if there are no pairs yet."""
    rows, chosen = [], False
    for column in layout.columns:
        for base, other in study.compared(layout.rows):
            one, two = layout.cells.get((base, column)), layout.cells.get((other, column))
            pairs = common(one, two) if one and two else []
            if one and two and pairs:
                chosen = chosen or any(cell.choice and cell.compared is None for cell in (one, two))
                rows.append([column, f"{_compared(two)} − {_compared(one)}", str(len(pairs)), *_differences(pairs)])
    if not rows:
        return None
    caption = (
        f"Mean of the differences over the seeds that both have, on the same labelled samples [its {LEVEL:.0%} "
        "confidence interval by Student's t, which takes differences for normal: one run that fails widens it; of two "
        "seeds, both differences], seeds improved / seeds. No correction for several comparisons."
    )
    if chosen:
        caption += (
            " Of several choices the best on the test set is compared: the interval does not account for that choice."
        )
    return Table(
        "Differences by seed", ["data", "difference", "seeds", *(row[-1] for row in DIFFERENCES)], rows, caption
    )


def _compared(cell: Filled) -> str:
    return cell.cell.row + ("" if cell.cell.compared is None else f" ({cell.cell.compared})")


def _differences(pairs: Sequence[tuple[Record, Record]]) -> list[str]:
    cells = []
    for part, key, factor, form, better, _ in DIFFERENCES:
        values = [(metric(one, part, key), metric(two, part, key)) for one, two in pairs]
        known = [factor * (two - one) for one, two in values if one is not None and two is not None]
        cells.append(difference(known, form, better))
    return cells


def correlation_table(layout: Layout) -> Table | None:
    """The correlation of accuracy with ECE over settings; None with too few settings."""
    rows = []
    for column in layout.columns:
        seeds = layout.shared_seeds(column)
        cells = [cell for (_, place), cell in layout.cells.items() if place == column and cell.records]
        points = [(cell.mean("ece"), cell.mean("accuracy")) for cell in cells] if seeds else []
        found = [correlation(coefficient, points) for coefficient in (pearson, spearman)]
        if all(found):
            shown = [*map(str, found), without_one(pearson, points)]
            rows.append([column, str(len(points)), str(len(seeds)), *shown])
    if not rows:
        return None
    caption = (
        "Correlation of accuracy with ECE over the settings, each the mean of the seeds that all settings have; "
        f"negative: the better calibrated are the more accurate. [{LEVEL:.0%} bootstrap interval, settings resampled; "
        "of so few settings it is too narrow.] Last, the range of Pearson's where any one of them is left out."
    )
    headings = ["data", "settings", "seeds", "Pearson", "Spearman", "without any one"]
    return Table("Accuracy and calibration", headings, rows, caption)


def group_table(study: Study, layout: Layout) -> Table:
    """Accuracy on classes with many, medium and few training samples."""
    rows = []
    for column in layout.columns:
        for row in layout.rows:
            cell = layout.cells.get((row, column))
            records = list(cell.records.values()) if cell else []
            if records:
                rows.append([column, row, str(len(records)), *(_group(records, name) for name in GROUPS)])
    caption = (
        "Accuracy on the test samples of classes with more than 100, 10 to 100, and fewer than 10 training samples."
    )
    return Table("By frequency of the class", ["data", study.heading, "seeds", *GROUPS], rows, caption)


def _group(records: Sequence[Record], name: str) -> str:
    return mean([record["groups"].get(name, {}).get("accuracy") for record in records], "{:.1%}")


def cost_table(study: Study, layout: Layout) -> Table:
    """By pair: the ratio of step times, and when each reaches the base's final accuracy."""
    rows = []
    for column in layout.columns:
        for base, other in study.pairs:
            pairs = common(layout.cells[base, column], layout.cells[other, column])
            if pairs:
                ratios = [_ratio(one, two) for one, two in pairs]
                own, others = ([reached(pair[place], _last(pair[0])) for pair in pairs] for place in (0, 1))
                count = f"{sum(share is not None for share in others)} of {len(pairs)}"
                rows.append([column, base, other, mean(ratios, "{:.3f}"), _middle(own), _middle(others), count])
    caption = (
        "Seconds of a step, other / base, seed by seed (whatever else the machine did is in it: see `make bench`), of "
        "runs on the same kind of device. Then the share of the run after which an evaluation is first as accurate as "
        "the base's last one: of the base itself, which gets there before its end where its accuracy wavers, and of "
        "the other; medians over seeds, > 100% where most never do."
    )
    headings = [
        "data",
        "base",
        "other",
        "time of a step",
        "base gets there",
        "other gets there",
        "other's seeds that do",
    ]
    return Table("Cost", headings, rows, caption)


def _ratio(one: Record, two: Record) -> float | None:
    """The ratio of step times; None if one is unknown or the devices differ."""
    times = one["seconds_a_step"], two["seconds_a_step"]
    machines = one.get("machine"), two.get("machine")  # missing in older records
    if not all(times) or (all(machines) and machines[0] != machines[1]):
        return None
    return float(times[1] / times[0])


def _last(record: Record) -> float:
    return float(record["history"][-1]["accuracy"])


def _middle(shares: Sequence[float | None]) -> str:
    middle = median(inf if share is None else share for share in shares)
    return "> 100%" if middle == inf else f"{middle:.0%}"


def reached(record: Record, accuracy: float) -> float | None:
    """The fraction of the run at which an evaluation first reaches this accuracy; None if never."""
    steps = [row["step"] for row in record["history"] if row["accuracy"] is not None and row["accuracy"] >= accuracy]
    return steps[0] / record["history"][-1]["step"] if steps else None
