"""`python -m bench [names...]`: run the benchmark modules of this folder, all or the named, and print one table."""

import importlib
import sys
from pathlib import Path

from bench.timing import LEVEL, Row


def main(names: list[str]) -> int:
    """Print a Markdown row as soon as its module has finished; 2 if a name is unknown."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("*.py"))
    known = [name for name in modules if name not in ("__init__", "__main__", "soak", "timing")]
    if unknown := sorted(set(names) - set(known)):
        print(f"no benchmark named {', '.join(unknown)}: choose from {', '.join(known)}", file=sys.stderr)
        return 2
    headings = ("benchmark", "what", "figure", f"{LEVEL:.0%} interval", "unit", "target")
    print("| " + " | ".join(headings) + " |\n" + "|---" * len(headings) + "|", flush=True)
    for name in names or known:
        for row in importlib.import_module(f"bench.{name}").run():
            print(f"| {name} | {row.what} | {_figures(row)} | {row.unit} | {row.target} |", flush=True)
    return 0


def _figures(row: Row) -> str:
    if row.interval is None:
        return f"{_figure(row.figure)} | "
    return f"{row.figure:.3f} | {row.interval[0]:.3f} to {row.interval[1]:.3f}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
