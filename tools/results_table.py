"""`python tools/results_table.py RUN ...`: finished runs as a Markdown table, mean ± standard error over seeds.

Runs that differ in nothing but their seed make a row.
"""

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

from surelabel.settings import read_yaml

FIGURES = {"accuracy": "{:.1%}", "ece": "{:.3f}", "nll": "{:.2f}"}
NAMES = ("data", "labels", "method", "views.labelled", "steps")


def main(folders: list[str]) -> None:
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for folder in map(Path, folders):
        if not (folder / "result.json").exists():
            print(f"{folder} is not finished", file=sys.stderr)
            continue
        config = read_yaml(folder / "config.yaml")
        result = json.loads((folder / "result.json").read_text())
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        pool = {key: json.loads(lines[-1])[key] for key in ("purity", "acceptance")}
        rows.setdefault(tuple(config[name] for name in NAMES), []).append(result["averaged"] | pool)
    print("| data | labels | method | labelled view | steps | seeds | accuracy | ECE | NLL | purity | accepted |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for names, runs in sorted(rows.items(), key=lambda row: str(row[0])):
        figures = [_mean([run[key] for run in runs], form) for key, form in FIGURES.items()]
        pool = [_mean([run[key] for run in runs], "{:.0%}") for key in ("purity", "acceptance")]
        print("| " + " | ".join(map(str, (*names, len(runs), *figures, *pool))) + " |")


def _mean(values: list[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    error = statistics.stdev(known) / math.sqrt(len(known)) if len(known) > 1 else math.nan
    return f"{form.format(statistics.mean(known))} ± {form.format(error)}"


if __name__ == "__main__":
    main(sys.argv[1:])
