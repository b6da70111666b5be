"""What a person sees while a run trains, and at its end."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from surelabel.config.run import RunConfig
from surelabel.training.summary import WINDOW, Summary
from surelabel.utils.words import some

# Names of files and classes are not markup, and a log wraps its own lines.
PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
Watch = Callable[[dict[str, Any]], None]
GROUPS = {
    "many": "Classes with more than 100 training samples",
    "medium": "Classes with 10 to 100",
    "few": "Classes with fewer than 10",
}


class Display:
    """A progress bar with the time left on a terminal; elsewhere a line an evaluation, so that a log stays short."""

    def __init__(self, steps: int, done: int, console: Console | None = None, watch: Watch | None = None) -> None:
        self.watch = watch
        self.console = console or Console()
        self.steps = steps
        self.done = done
        self.start = time.monotonic()
        self.progress: Progress | None = None
        if self.console.is_terminal:
            # Narrow enough that the time left can be read in 80 columns.
            self.progress = Progress(
                BarColumn(bar_width=16), MofNCompleteColumn(), TimeRemainingColumn(compact=True), TextColumn("left"),
                TextColumn("{task.fields[figures]}"), console=self.console,
            )  # fmt: skip
            self.task = self.progress.add_task("training", total=steps, completed=done, figures="")

    def __enter__(self) -> "Display":
        if self.progress:
            self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress:
            self.progress.stop()

    def step(self, step: int) -> None:
        if self.progress:
            self.progress.update(self.task, completed=step)

    def evaluation(self, row: dict[str, Any]) -> None:
        """Show the figures of an evaluation."""
        shown = format_metrics(row)
        if self.progress:
            self.progress.update(self.task, figures=shown)
        else:
            spent = time.monotonic() - self.start
            left = spent / (row["step"] - self.done) * (self.steps - row["step"])
            self.console.print(f"step {row['step']}/{self.steps}  {shown}  {duration(left)} left", highlight=False)
        if self.watch:
            self.watch(row)


@contextmanager
def reading(console: Console) -> Iterator[Callable[[int, int], None]]:
    """Within this block, a bar for files that are being read; gone afterwards, and on a terminal only."""
    with Progress(
        TextColumn("reading"), BarColumn(bar_width=16), MofNCompleteColumn(), TimeRemainingColumn(compact=True),
        TextColumn("left"), console=console, transient=True, disable=not console.is_terminal,
    ) as progress:  # fmt: skip
        task = progress.add_task("reading", total=None, visible=False)
        yield lambda done, files: progress.update(task, completed=done, total=files, visible=True)


def format_metrics(row: dict[str, Any]) -> str:
    """'accuracy 71.2 %  ECE 0.043  accepted 81 %', with what there is."""
    shown = []
    if "accuracy" in row:
        shown += [f"accuracy {row['accuracy']:.1%}", f"ECE {row['ece']:.3f}"]
    else:
        shown += [f"loss {row.get('labelled_loss', row.get('unlabelled_loss')):.3f}"]
    if row.get("acceptance") is not None:
        shown += [f"accepted {row['acceptance']:.0%}"]
    return "  ".join(shown)


def describe_found(kind: str, samples: int, labels: NDArray[np.int64], classes: Sequence[str]) -> str:
    """'5,000 pictures, …: 60 labelled (bag 6, boot 6, …), 4,940 unlabelled', and what is scarce."""
    counts = np.bincount(labels, minlength=len(classes))
    shown = some([f"{name} {count}" for name, count in zip(classes, counts, strict=True)])
    words = f"{samples:,} {kind}: {len(labels):,} labelled ({shown}), {samples - len(labels):,} unlabelled"
    scarce = [name for name, count in zip(classes, counts, strict=True) if count < 2]
    if scarce:
        words += (
            f"\nOnly one label: {some(scarce)}. "
            "A class is learnt from what its labels show; a few more of each would help most"
        )
    return words


def describe_network(config: RunConfig) -> str:
    """'wrn-10-2', or 'mlp-1-256 on features of efficientnet-lite0'."""
    return config.network.name + ("" if config.encoder == "none" else f" on features of {config.encoder}")


def describe_skipped(skipped: Sequence[tuple[str, str]]) -> str:
    """'3 files skipped (a.png: the file is empty; …)'"""
    shown = "; ".join(f"{file}: {reason}" for file, reason in skipped[:3]) + ("; …" if len(skipped) > 3 else "")
    return f"{len(skipped)} file{'s' if len(skipped) > 1 else ''} skipped ({shown})"


def duration(seconds: float) -> str:
    """Seconds as a person says them: 45 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def show_result(
    console: Console, result: dict[str, Any], summary: Summary | None = None, of: str = "test samples"
) -> None:
    """The figures of a run as small tables: overall, by class, and how the evaluations along the way summarise.

    `of` says which samples they are of.
    """
    # No title of the table, which would break the name of a file at the table's width.
    console.print(f"On {result['samples']} {of}", style="italic", **PLAIN)
    table = Table()
    table.add_column("")
    table.add_column("averaged weights", justify="right")
    table.add_column("raw weights", justify="right")
    names = {"accuracy": "accuracy", "ece": "ECE, calibration error", "nll": "NLL", "brier": "Brier score"}
    for key, name in names.items():
        form = "{:.1%}" if key == "accuracy" else "{:.3f}"
        table.add_row(name, form.format(result["averaged"][key]), form.format(result["raw"][key]))
    console.print(table)
    show_classes(console, result["classes"])
    for name, group in result.get("groups", {}).items():
        accuracy = "no test samples" if group["accuracy"] is None else f"{group['accuracy']:.1%}"
        console.print(f"{GROUPS[name]} ({group['classes']}): {accuracy}", highlight=False)
    if summary:
        over = f"{summary.window} evaluations" + (f" (fewer than {WINDOW})" if summary.window < WINDOW else "")
        console.print(
            f"Along the way, medians over {over}: last {summary.last_median_accuracy:.1%}, "
            f"around the best {summary.around_best_median_accuracy:.1%} with ECE {summary.converged_ece:.3f}",
            highlight=False,
        )


def show_bound(console: Console, bound: dict[str, float]) -> None:
    """The two right-hand sides of the paper's bound, their parts, and the test NLL that they are about."""
    names = {
        "theorem": "Theorem 1, right-hand side",
        "printed": "Corollary 1 as printed",
        "negative_elbo": "  of which -ELBO / N",
        "divergence": "  of which divergence of pseudo-labels",
        "confidence": "  of which log(1/δ) / N",
        "sub_gaussian": "  of which s²/2",
        "test_nll": "test NLL of a draw",
        "test_nll_of_mean": "test NLL of the averaged prediction",
    }
    table = Table(title="The generalisation bound, in nats", title_justify="left", show_header=False)
    for key, name in names.items():
        table.add_row(name, f"{bound[key]:.3f}")
    console.print(table)


def show_calibration(console: Console, report: dict[str, Any]) -> None:
    """What held-out labels changed, measured on samples that nothing was fitted to; right sets also by class."""
    columns = {"held-out, cross-fitted": report["held_out"]}
    if report["rest"] is not None:
        columns["rest of the test set"] = report["rest"]
    table = Table(title=f"Calibration: temperature {report['temperature']:.3f}", title_justify="left")
    table.add_column("")
    for heading in columns:
        table.add_column(heading, justify="right")
    rows = {
        "samples": "{samples}",
        "ECE, calibration error": "{ece_before:.3f} → {ece_after:.3f}",
        "NLL": "{nll_before:.3f} → {nll_after:.3f}",
        f"right sets, asked {report['coverage']:.1%}": "{coverage:.1%}",
        "classes in a set": "{set_size:.2f}",
    }
    for name, form in rows.items():
        table.add_row(name, *(form.format(**found) for found in columns.values()))
    console.print(table)
    show_coverage(console, list(columns.values())[-1]["classes"])


def show_coverage(console: Console, classes: Sequence[dict[str, Any]]) -> None:
    """Coverage by class: what holds on average may not hold for each."""
    title = "By class" if len(classes) <= 20 else "The 20 classes that sets miss most often"
    table = Table(title=title, title_justify="left")
    for heading in ("class", "samples", "right sets", "classes in a set"):
        table.add_column(heading, justify="left" if heading == "class" else "right")
    if len(classes) > 20:
        classes = sorted(classes, key=lambda row: row["coverage"] if row["coverage"] is not None else 2)[:20]
    for row in classes:
        shown = ("–", "–") if row["coverage"] is None else (f"{row['coverage']:.1%}", f"{row['set_size']:.2f}")
        table.add_row(escape(row["name"]), str(row["count"]), *shown)
    console.print(table)


def show_classes(console: Console, classes: list[dict[str, Any]]) -> None:
    """Accuracy and confidence by class: few labels may serve some classes badly, and an average hides it."""
    if len(classes) > 20:
        classes = sorted(classes, key=lambda row: row["accuracy"] if row["accuracy"] is not None else 2)[:20]
        title = "The 20 worst classes"
    else:
        title = "By class"
    table = Table(title=title, title_justify="left")
    for heading in ("class", "test samples", "accuracy", "confidence"):
        table.add_column(heading, justify="left" if heading == "class" else "right")
    for row in classes:
        shares = ["–" if row[key] is None else f"{row[key]:.1%}" for key in ("accuracy", "confidence")]
        table.add_row(escape(row["class"]), str(row["count"]), *shares)
    console.print(table)
