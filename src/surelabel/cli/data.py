"""surelabel data: Make tar shards of images, and make and check photonic-crystal data."""

import argparse
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from surelabel.cli.parser import positive
from surelabel.cli.say import say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from surelabel.phc.audit import Difference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    tasks = parser.add_subparsers(metavar="TASK", title="tasks", required=True)

    text = "turn a folder of images into tar shards, for sets larger than memory"
    shards = tasks.add_parser("make-shards", help=text, description=f"{text}; an interrupted call goes on".capitalize())
    shards.add_argument("folder", type=Path, help="a sub-folder for each class, or a labels.csv; see docs/data.md")
    shards.add_argument(
        "-o", "--out", type=Path, required=True, metavar="DIR", help="the folder for the shards; it must not exist"
    )
    shards.add_argument("--size-mb", type=positive, default=256, metavar="MB", help="of a shard, in MiB (default: 256)")
    shards.add_argument("--seed", type=int, default=0, help="of the shuffle (default: 0)")
    shards.set_defaults(task=make_shards)

    text = "make a set of photonic crystals"
    crystals = tasks.add_parser("make-phc", help=text, description=f"{text}; an interrupted call goes on".capitalize())
    crystals.add_argument(
        "-o", "--out", type=Path, default=Path("phc.npz"), metavar="FILE",
        help="the file to write; it must not exist (default: phc.npz)",
    )  # fmt: skip
    crystals.add_argument("--samples", type=positive, metavar="N", help="crystals to keep (default: the paper's 11376)")
    crystals.add_argument("--seed", type=int, default=0, help="which crystals are drawn (default: 0)")
    crystals.add_argument("--workers", type=positive, metavar="N", help="processes; the result does not depend on it")
    crystals.add_argument(
        "--min-delta-eps", type=float, default=0.0, metavar="EPS",
        help="the least difference of the two permittivities; a larger one makes gaps more frequent (default: 0)",
    )  # fmt: skip
    crystals.add_argument(
        "--grid", choices=("midpoint", "boundary"), default="midpoint",
        help="midpoint as in the paper's data, or boundary, which holds the points Γ, X and M (default: midpoint)",
    )  # fmt: skip
    crystals.set_defaults(task=make_phc)

    text = "solve some of the embedded crystals again with MPB and print the differences"
    audit = tasks.add_parser("audit-phc", help=text, description=text.capitalize())
    audit.add_argument(
        "--samples", type=positive, default=30, metavar="N", help="equally many of each class, 5 s each (default: 30)"
    )
    audit.add_argument("--seed", type=int, default=0, help="which crystals (default: 0)")
    audit.set_defaults(task=audit_phc)

    text = "draw the embedded crystals, a band diagram, a density of states and the classes' sizes"
    pictures = tasks.add_parser("phc-pictures", help=text, description=text.capitalize())
    pictures.add_argument("-o", "--out", type=Path, required=True, metavar="DIR", help="the folder for the PNG files")
    pictures.set_defaults(task=phc_pictures)


def run(options: argparse.Namespace) -> int:
    options.task(options)
    return 0


def make_shards(options: argparse.Namespace) -> None:
    from surelabel.data.shards.write import make_shards as make
    from surelabel.training.display import PLAIN
    from surelabel.utils.console import Screen

    console = Screen()
    with _progress(console, "images") as display:
        task = display.add_task("reading", total=None)
        counts, skipped = make(
            options.folder, options.out, options.size_mb, options.seed,
            lambda done, total: display.update(task, completed=done, total=total),
        )  # fmt: skip
    images = ", ".join(f"{count} images for {part}" for part, count in counts.items())
    console.print(f"{options.out}: {images}. Train with: surelabel fit --data {options.out}", **PLAIN)
    for name, reason in skipped:
        console.print(f"left out: {name}: {reason}", **PLAIN)


def make_phc(options: argparse.Namespace) -> None:
    from surelabel.phc.generate import FULL_SIZE, generate
    from surelabel.phc.store import CLASSES
    from surelabel.training.display import PLAIN
    from surelabel.utils.console import Screen

    console, start, samples = Screen(), monotonic(), options.samples or FULL_SIZE
    with _progress(console, "draws") as display:
        task = display.add_task("solving", total=None)

        def show(draws: int, kept: int, expected: int) -> None:
            display.update(task, completed=draws, total=expected, description=f"{kept} of {samples} kept")

        try:
            crystals = generate(
                options.out, samples=samples, seed=options.seed, workers=options.workers,
                min_delta_eps=options.min_delta_eps, grid=options.grid, progress=show,
            )  # fmt: skip
        except KeyboardInterrupt:
            display.console.print("Stopped. The same command goes on from here.")
            raise
    classes = ", ".join(f"{name}: {count}" for name, count in zip(CLASSES, crystals.counts(), strict=True))
    draws, seconds = int(crystals.draws), monotonic() - start
    console.print(f"{options.out}: {samples} crystals of {draws} draws in {seconds:.0f} s ({classes})", **PLAIN)


def audit_phc(options: argparse.Namespace) -> None:
    import numpy as np

    from surelabel.phc.audit import audit
    from surelabel.training.display import PLAIN
    from surelabel.utils.console import Screen

    console = Screen()
    with _progress(console, "crystals") as display:
        task = display.add_task("MPB", total=options.samples)
        differences = audit(
            options.samples,
            options.seed,
            progress=lambda done, total: display.update(task, completed=done, total=total),
        )
    console.print(_differences(differences))
    error = np.abs([d.gap - d.mpb_gap for d in differences])
    flips = sum(d.label != d.mpb_label for d in differences)
    console.print(
        f"largest gap: mean difference {error.mean():.3f} points, worst {error.max():.3f}; "
        f"class differs in {flips} of {len(differences)}; "
        f"frequencies: mean relative difference {np.mean([d.frequency for d in differences]):.2%}; "
        f"epsilon: worst pixel {max(d.epsilon for d in differences):.1e}",
        **PLAIN,
    )


def phc_pictures(options: argparse.Namespace) -> None:
    from surelabel.phc.pictures import draw_pictures

    for path in draw_pictures(options.out):
        say(str(path))


def _progress(console: "Console", unit: str) -> "Progress":
    from rich import progress as parts

    return parts.Progress(
        "{task.description}", parts.BarColumn(), parts.MofNCompleteColumn(), f"{unit},", parts.TimeElapsedColumn(),
        "elapsed,", parts.TimeRemainingColumn(), "left", console=console, transient=True,
    )  # fmt: skip


def _differences(differences: "list[Difference]") -> "Table":
    from rich.table import Table

    from surelabel.phc.store import CLASSES

    table = Table("draw", "class", "gap %", "MPB's class", "MPB's gap %", "difference", "δν/ν", "δε")
    for d in differences:
        table.add_row(
            str(d.index), CLASSES[d.label], f"{d.gap:.3f}", CLASSES[d.mpb_label], f"{d.mpb_gap:.3f}",
            f"{d.gap - d.mpb_gap:+.3f}", f"{d.frequency:.2%}", f"{d.epsilon:.0e}",
        )  # fmt: skip
    return table
