"""The table of the study `trust`, from its records."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.studies import trust, trust_cells, trust_methods
from surelabel.studies.statistics import interval
from surelabel.studies.trust_cells import Cell
from surelabel.studies.trust_methods import CROSSFITTED
from surelabel.utils.files import atomic_write

TABLE = "trust.md"
Row = dict[str, Any]
Found = dict[str, dict[int, Row]]  # by method and draw


def write_table(results: Path) -> str:
    """Write what the records say to results/trust.md; returns it."""
    text = "\n".join(_lines(trust.read(results))) + "\n"
    with atomic_write(results / TABLE) as file:
        file.write(text)
    return text


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    by_cell: dict[str, Found] = defaultdict(lambda: defaultdict(dict))
    many: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["accuracy"] is None:
            continue
        if row["draw"] < trust.DRAWS:
            by_cell[row["cell"]][row["method"]][row["draw"]] = row
        if row["method"] in ("sure", CROSSFITTED):
            many[row["cell"]].append(row)
    yield "# Trust: accuracy and calibration of the default, beside what one would use instead\n"
    yield "Made by `surelabel study trust`; [docs/trust.md](../docs/trust.md) explains it.\n"
    cells = [cell for cell in trust_cells.CELLS if cell.name in by_cell]
    yield from _verdicts(cells, by_cell, many)
    yield from _overview({cell.name: by_cell[cell.name] for cell in cells})
    yield "Below, means over draws of labels on the unlabelled samples; in brackets the 95 % interval of the paired"
    yield "difference in accuracy, the first method minus this one, in points.\n"
    for cell in cells:
        yield from _details(cell.name, by_cell[cell.name], [*trust_methods.METHODS], many[cell.name])
    crystals = trust_cells.CRYSTALS.name
    if crystals in by_cell:
        yield "## Networks from pixels\n"
        yield "On pictures of photonic crystals, a small network of the paper's is trained from scratch for 100 steps,"
        yield "and calibrated by `--crossfit 5`. The methods of scikit-learn get the pixels.\n"
        yield from _details(crystals, by_cell[crystals], [*trust_methods.ON_CRYSTALS], many[crystals])


def _details(name: str, found: Found, methods: list[str], own: list[Row]) -> Iterator[str]:
    """The methods in one cell, and what the first of them said of itself."""
    first, *_ = methods
    yield f"## {name}\n"
    yield f"| method | accuracy | {first} minus it | ECE | NLL | seconds | draws |\n|---|---|---|---|---|---|---|"
    for method in (method for method in methods if method in found):
        of = list(found[method].values())
        pairs = [100 * pair for pair in _differences(found, method, "accuracy", first)]
        beside = "" if method == first or len(pairs) < 2 else "[{:+.1f}, {:+.1f}]".format(*interval(pairs))
        means = {key: np.mean([row[key] for row in of]) for key in ("accuracy", "ece", "nll", "seconds")}
        yield (
            f"| {method} | {100 * means['accuracy']:.1f} | {beside} | {means['ece']:.3f} | {means['nll']:.3f} | "
            f"{means['seconds']:.0f} | {len(of)} |"
        )
    yield ""
    yield from _claims(own)


def _differences(found: Found, name: str, metric: str, first: str = "sure") -> list[float]:
    """The first method minus another, for each draw that both have."""
    own = found.get(first, {})
    return [own[draw][metric] - row[metric] for draw, row in found.get(name, {}).items() if draw in own]


def _verdicts(cells: list[Cell], by_cell: dict[str, Found], many: dict[str, list[Row]]) -> Iterator[str]:
    """Where sure is certainly worse than another method, and how often it was wrong about itself."""
    yield "Certainly (the 95 % interval of the paired difference leaves out 0), in so many cells of those compared:\n"
    yield "| | sure is more accurate | less accurate | has the lower NLL | the higher NLL |\n|---|---|---|---|---|"
    for name in trust_methods.METHODS:
        counts = np.zeros(5, dtype=int)
        for cell in cells:
            for place, metric in ((0, "accuracy"), (2, "nll")):
                pairs = _differences(by_cell[cell.name], name, metric)
                if name == "sure" or len(pairs) < 3:
                    continue
                low, high = interval(pairs)
                better, worse = (low > 0, high < 0) if metric == "accuracy" else (high < 0, low > 0)
                counts[[place, place + 1]] += [better, worse]
                counts[4] += metric == "nll"
        if counts[4]:
            yield f"| {name} | " + " | ".join(f"{count} of {counts[4]}" for count in counts[:4]) + " |"
    yield ""
    for least, most in ((0, 99), (100, 10**9)):
        of = [row for cell in cells if least <= cell.labels <= most for row in many[cell.name]]
        if of:
            labels = f"{least} labels or more" if least else f"fewer than {most + 1} labels"
            yield f"With {labels}, in all {len(of)} draws:\n"
            yield from _claims(of)


def _overview(by_cell: dict[str, Found]) -> Iterator[str]:
    """Accuracy and ECE of all methods in all cells, and their means over the cells where each was measured."""
    yield "Accuracy in per cent / ECE, means over draws:\n"
    yield "| | " + " | ".join(trust_methods.METHODS) + " |\n" + "|---" * (len(trust_methods.METHODS) + 1) + "|"
    columns: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for cell, found in by_cell.items():
        shown = []
        for name in trust_methods.METHODS:
            of = list(found.get(name, {}).values())
            if of:
                pair = 100 * float(np.mean([row["accuracy"] for row in of])), float(np.mean([row["ece"] for row in of]))
                columns[name].append(pair)
            shown.append(f"{pair[0]:.1f} / {pair[1]:.3f}" if of else "–")
        yield f"| {cell} | " + " | ".join(shown) + " |"
    shown = []
    for name in trust_methods.METHODS:
        accuracy, ece = np.mean(columns[name], axis=0) if columns[name] else (np.nan, np.nan)
        shown.append(f"{accuracy:.1f} / {ece:.3f}" + f" ({len(columns[name])})" * (len(columns[name]) < len(by_cell)))
    yield "| **mean** (of so many cells, if not all) | " + " | ".join(shown) + " |\n"


def _claims(own: list[Row]) -> Iterator[str]:
    """What sure said of itself, and how often that was true."""
    if not own:
        return
    held = sum(row["said_low"] <= row["accuracy"] <= row["said_high"] for row in own)
    yield f"Its interval of the accuracy held the truth in {held} of {len(own)} draws."
    for wanted in (0.9, 0.95):
        taken = [row for row in own if row[f"precision_{wanted}"] is not None]
        if taken:
            precision = [row[f"precision_{wanted}"] for row in taken]
            below = sum(row[f"precision_{wanted}"] < row[f"least_{wanted}"] for row in taken)
            share = np.mean([row[f"accepted_{wanted}"] for row in taken])
            yield (
                f"Asked for {wanted:.0%}, it accepted {share:.0%} of the pool, of which {np.mean(precision):.1%} were "
                f"right; by more than 3 points below in {sum(value < wanted - 0.03 for value in precision)} of "
                f"{len(taken)}, below its bound in {below}."
            )
    sets = [row for row in own if "coverage_0.9" in row]
    if sets:
        coverage, size = (np.mean([row[key] for row in sets]) for key in ("coverage_0.9", "set_size_0.9"))
        yield (
            f"Its sets of classes for 90% held the right one for {coverage:.1%} of the pool, with {size:.2f} classes "
            f"each ({len(sets)} draws)."
        )
    yield ""
