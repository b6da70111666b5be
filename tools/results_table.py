"""`python tools/results_table.py RUN ...`: finished runs as a Markdown table, mean ± standard error over seeds.

Runs that differ in nothing but their seed make a row; a column shows each setting in which rows of one method on one
data set differ.
"""

import json
import math
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from surelabel.settings import read_yaml

FIGURES = {"accuracy": "{:.1%}", "ece": "{:.3f}", "nll": "{:.2f}", "purity": "{:.0%}", "acceptance": "{:.0%}"}
ALWAYS = ("data", "labels", "method")
# Which seed, where and on what a run was made is not what was run.
ASIDE = {"seed", "out", "threads", "device", "data_dir"}


def main(folders: list[str]) -> None:
    rows: dict[str, list[dict[str, Any]]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for folder in map(Path, folders):
        if not (folder / "result.json").exists():
            print(f"{folder} is not finished", file=sys.stderr)
            continue
        config = {key: value for key, value in read_yaml(folder / "config.yaml").items() if key not in ASIDE}
        same = json.dumps(config, sort_keys=True)
        settings[same] = config
        rows.setdefault(same, []).append(figures(folder))
    varied = [key for key in next(iter(settings.values()), {}) if key not in ALWAYS and differs(key, settings.values())]
    headings = [*ALWAYS, *varied, "seeds", "accuracy", "ECE", "NLL", "purity", "accepted"]
    print("| " + " | ".join(headings) + " |\n" + "|---" * len(headings) + "|")
    for same in sorted(rows, key=lambda same: [str(settings[same].get(key)) for key in (*ALWAYS, *varied)]):
        names = [settings[same].get(key) for key in (*ALWAYS, *varied)]
        means = [mean([run[key] for run in rows[same]], form) for key, form in FIGURES.items()]
        print("| " + " | ".join(map(str, (*names, len(rows[same]), *means))) + " |")


def differs(key: str, configs: Iterable[dict[str, Any]]) -> bool:
    """Whether two rows that are otherwise named alike differ in this setting."""
    values: dict[tuple[Any, ...], set[str]] = {}
    for config in configs:
        values.setdefault(tuple(config[name] for name in ALWAYS), set()).add(str(config.get(key)))
    return any(len(found) > 1 for found in values.values())


def figures(folder: Path) -> dict[str, Any]:
    """The averaged weights' figures on the whole test set, and the pool's in the last stretch of training."""
    result = json.loads((folder / "result.json").read_text())
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    return result["averaged"] | {key: last[key] for key in ("purity", "acceptance")}


def mean(values: list[float | None], form: str) -> str:
    """'71.2% ± 0.4%', without an error for a single value, '–' for none."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    shown = form.format(statistics.mean(known))
    if len(known) == 1:
        return shown
    return f"{shown} ± {form.format(statistics.stdev(known) / math.sqrt(len(known)))}"


if __name__ == "__main__":
    main(sys.argv[1:])
