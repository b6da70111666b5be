"""Whether the quick views of rows change results: pairs of runs that differ in nothing else.

    python -m tools.compare_views OUT.jsonl [CIFAR_DIR]

FixMatch, BAM-UDA and `sure` on three tables with 50 labels and, if the folder of CIFAR-10 is given, on features of its
test pictures with 40 and 100 labels: cells of the study `trust`, ten draws of labels each (`sure` five). A pair is two
lines of the file; the same command goes on, and with `--tables` in place of CIFAR_DIR only prints: the mean differences
in accuracy and ECE, quick minus plain (a random number for each column, MKL's products), with 95 % intervals by
Student's t, and in how many draws quick was better. For times see `python -m bench features`.
"""

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from bench.features import plain_products, plain_views
from surelabel.studies.statistics import difference
from surelabel.studies.trust import measured
from surelabel.studies.trust_cells import Cell, Labels, Rows, draw, samples
from surelabel.studies.trust_methods import METHODS

DRAWS = {"FixMatch": 10, "BAM-UDA": 10, "sure": 5}
TABLES = tuple(Cell(data, 50) for data in ("digits", "breast_cancer", "segment"))
FEATURES = tuple(Cell("cifar10", labels) for labels in (40, 100))


def compare(out: Path, data_dir: str | None) -> None:
    """Add the lines that are missing."""
    done = {(row["cell"], row["method"], row["draw"]) for row in read(out)}
    cells = TABLES + (FEATURES if data_dir else ())
    data = {name: samples(name, data_dir) for name in {cell.data for cell in cells}}
    for number in range(max(DRAWS.values())):
        for cell in cells:
            drawn = draw(cell, *data[cell.data], number)
            for method, draws in DRAWS.items():
                if number < draws and (cell.name, method, number) not in done:
                    lines = [result(method, form, cell, number, *drawn) for form in ("plain", "quick")]
                    with out.open("a") as file:
                        file.writelines(json.dumps(line) + "\n" for line in lines)


def result(
    method: str, form: str, cell: Cell, number: int, rows: Rows, truth: Labels, labelled: Labels
) -> dict[str, Any]:
    with ExitStack() as contexts:
        if form == "plain":
            contexts.enter_context(plain_views())
            contexts.enter_context(plain_products())
        found = measured(METHODS[method], rows, truth, labelled, number, cell)
    kept = {key: found[key] for key in ("accuracy", "ece", "seconds")}
    return {"cell": cell.name, "method": method, "draw": number, "form": form} | kept


def read(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| data | method | accuracy, points | ECE |", "|---|---|---|---|"]
    found = {(row["cell"], row["method"], row["draw"], row["form"]): row for row in rows}
    for cell, method in dict.fromkeys((row["cell"], row["method"]) for row in rows):
        draws = sorted({number for name, how, number, _ in found if (name, how) == (cell, method)})
        both = [[found[cell, method, number, form] for form in ("quick", "plain")] for number in draws]
        points = difference([100 * (quick["accuracy"] - plain["accuracy"]) for quick, plain in both], "{:+.1f}", 1)
        ece = difference([quick["ece"] - plain["ece"] for quick, plain in both], "{:+.3f}", -1)
        lines.append(f"| {cell} | {method} | {points} | {ece} |")
    return "\n".join(lines)


def main(out: str, option: str | None = None) -> None:
    torch.set_num_threads(1)
    if option != "--tables":
        compare(Path(out), option)
    print(table(read(Path(out))))


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
