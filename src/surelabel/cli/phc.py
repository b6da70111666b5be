"""What `surelabel data make-phc`, `audit-phc` and `phc-pictures` do: the work, with a display around it."""

from pathlib import Path
from time import monotonic

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from surelabel.phc.audit import Difference, audit
from surelabel.phc.generate import FULL_SIZE, generate
from surelabel.phc.pictures import draw_pictures
from surelabel.phc.store import CLASSES
from surelabel.phc.zone import Grid


def make_phc(
    out: Path,
    *,
    samples: int = FULL_SIZE,
    seed: int = 0,
    workers: int | None = None,
    min_delta_eps: float = 0.0,
    grid: Grid = "midpoint",
) -> None:
    """Make a set of photonic crystals; an interrupted call goes on where it stopped.

    Args:
        out: the .npz file to write; it must not exist.
        samples: how many crystals to keep.
        seed: which crystals are drawn.
        workers: how many processes; all cores if not given. The result does not depend on it.
        min_delta_eps: the least difference of the two permittivities; a larger one makes gaps more frequent.
        grid: "midpoint" as in the paper's data, or "boundary", which holds the points Γ, X and M.
    """
    console = Console()
    start = monotonic()
    with _display(console, "draws") as display:
        task = display.add_task("solving", total=None)

        def show(draws: int, kept: int, expected: int) -> None:
            display.update(task, completed=draws, total=expected, description=f"{kept} of {samples} kept")

        try:
            crystals = generate(
                out,
                samples=samples,
                seed=seed,
                workers=workers,
                min_delta_eps=min_delta_eps,
                grid=grid,
                progress=show,
            )
        except KeyboardInterrupt:
            display.console.print("Stopped. The same command goes on from here.")
            raise
    classes = ", ".join(f"{name}: {count}" for name, count in zip(CLASSES, crystals.counts(), strict=True))
    console.print(
        f"{out}: {samples} crystals of {int(crystals.draws)} draws in {monotonic() - start:.0f} s ({classes})",
        soft_wrap=True,
        highlight=False,
    )


def audit_phc(samples: int = 30, seed: int = 0) -> None:
    """Solve a sample of the embedded crystals again with MPB and print the differences.

    Args:
        samples: how many crystals, equally many of each class; about 5 seconds each.
        seed: which crystals.
    """
    console = Console()
    with _display(console, "crystals") as display:
        task = display.add_task("MPB", total=samples)
        differences = audit(
            samples, seed, progress=lambda done, total: display.update(task, completed=done, total=total)
        )
    console.print(_table(differences))
    error = np.abs([d.gap - d.mpb_gap for d in differences])
    flips = sum(d.label != d.mpb_label for d in differences)
    console.print(
        f"largest gap: mean difference {error.mean():.3f} points, worst {error.max():.3f}; "
        f"class differs in {flips} of {len(differences)}; "
        f"frequencies: mean relative difference {np.mean([d.frequency for d in differences]):.2%}; "
        f"epsilon: worst pixel {max(d.epsilon for d in differences):.1e}",
        soft_wrap=True,
        highlight=False,
    )


def phc_pictures(out: Path) -> None:
    """Draw the embedded crystals, a band diagram, a density of states and the classes' sizes.

    Args:
        out: the folder for the PNG files.
    """
    for path in draw_pictures(out):
        print(path)


def _display(console: Console, unit: str) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit + ","),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        transient=True,
    )


def _table(differences: list[Difference]) -> Table:
    table = Table("draw", "class", "gap %", "MPB's class", "MPB's gap %", "difference", "δν/ν", "δε")
    for d in differences:
        table.add_row(
            str(d.index),
            CLASSES[d.label],
            f"{d.gap:.3f}",
            CLASSES[d.mpb_label],
            f"{d.mpb_gap:.3f}",
            f"{d.gap - d.mpb_gap:+.3f}",
            f"{d.frequency:.2%}",
            f"{d.epsilon:.0e}",
        )
    return table
