"""The study `trust`: is the default accurate, and is its confidence true? Beside what one would use instead.

Every method sees the same features and the same labels, drawn at random from a pool such that each class has one at
least; it is evaluated on the rest of the pool. The pictures are those of the test sets, on which nothing was chosen;
docs/results.md says what a first draw of the tables led to. A pool of 50,000 is of training pictures.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surelabel.studies import trust_cells, trust_methods
from surelabel.studies.trust_cells import POOL, Cell, Labels, Rows, draw, samples
from surelabel.studies.trust_methods import IN_LARGE, Scores
from surelabel.training import metrics
from surelabel.utils.bounded import read_json_lines

RECORDS = "trust.jsonl"
DRAWS = 10
MANY = 200  # draws of the cells that are cheap enough to count how often a claim is wrong


def run(results: Path, data_dir: str | None, draws: int, log: Callable[[str], None]) -> None:
    """Make the missing records, one line each; the same command again goes on."""
    done = {(row["cell"], row["draw"], row["method"]) for row in read(results)}
    loaded: dict[tuple[str, str], tuple[Rows, Labels]] = {}
    for number, cell, methods in jobs(draws):
        missing = [name for name in methods if (cell.name, number, name) not in done]
        if not missing:
            continue
        where = cell.data, "test" if cell.pool == POOL else "train"
        if where not in loaded:
            loaded[where] = samples(cell.data, data_dir, where[1])
        rows, truth, labelled = draw(cell, *loaded[where], number)
        for name in missing:
            row = {"cell": cell.name, "draw": number, "method": name}
            row |= measured(methods[name], rows, truth, labelled, number, cell)
            with (results / RECORDS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        log(f"draw {number}: {cell.name}")


def jobs(draws: int) -> Iterator[tuple[int, Cell, Mapping[str, Callable[..., Any]]]]:
    """Draws, cells and methods; in a large pool those that take minutes, and where it is cheap many draws of sure."""
    methods = trust_methods.METHODS
    large, own = ({name: methods[name] for name in methods if name in some} for some in (IN_LARGE, ("sure",)))
    for number in range(draws):
        yield from ((number, cell, methods if cell.pool == POOL else large) for cell in trust_cells.CELLS)
        yield number, trust_cells.CRYSTALS, trust_methods.ON_CRYSTALS
    for number in range(draws, MANY):
        yield from ((number, cell, own) for cell in trust_cells.CHEAP)


def measured(
    method: Callable[..., Any], rows: Rows, truth: Labels, labelled: Labels, number: int, cell: Cell
) -> Scores:
    """The metrics of a method on the unlabelled samples; without any where it refuses so few labels."""
    start = time.perf_counter()
    try:
        probs, more = method(rows, truth, labelled, number, cell)
    except ValueError as error:
        if "class" not in str(error):
            raise
        return {"accuracy": None, "ece": None, "nll": None, "seconds": None}
    seconds = time.perf_counter() - start
    rest = np.setdiff1d(np.arange(len(rows)), labelled)
    given = np.nan_to_num(probs[rest], nan=1 / probs.shape[1])  # label spreading reaches not all samples
    given = torch.from_numpy(given / np.maximum(given.sum(1, keepdims=True), 1e-12))
    found: Scores = dict(metrics.evaluation(given, torch.from_numpy(truth[rest])))
    found = {key: found[key] for key in ("accuracy", "ece", "nll")}
    return found | {"seconds": seconds} | dict(more)


def read(results: Path) -> list[dict[str, Any]]:
    path = results / RECORDS
    return read_json_lines(path) if path.exists() else []
