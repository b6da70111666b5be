"""What `surelabel data make-shards` does: the work, with a display around it."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from surelabel.data.shards.write import make_shards as make


def make_shards(folder: Path, out: Path, *, size_mb: int = 256, seed: int = 0) -> None:
    """Turn a folder of images into tar shards, for sets larger than the memory; an interrupted call goes on.

    Args:
        folder: a sub-folder for each class, or a labels.csv; docs/data.md describes both.
        out: the folder for the shards; it must not exist.
        size_mb: the size of a shard in MiB.
        seed: of the shuffle.
    """
    console = Console()
    columns = (TextColumn("images"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as display:
        task = display.add_task("images", total=None)
        counts, skipped = make(
            folder, out, size_mb, seed, lambda done, total: display.update(task, completed=done, total=total)
        )
    images = ", ".join(f"{count} images for {part}" for part, count in counts.items())
    console.print(
        f"{out}: {images}. Train with: surelabel fit --data {out}", highlight=False, markup=False, soft_wrap=True
    )
    for name, reason in skipped:
        console.print(f"left out: {name}: {reason}", highlight=False, markup=False, soft_wrap=True)
