"""Console output while a run trains and at its end."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from surelabel.config.run import RunConfig
from surelabel.data.drawn import drawn_per_class
from surelabel.training.summary import WINDOW, Summary
from surelabel.utils.intervals import ENOUGH, wilson
from surelabel.utils.words import some

# Names of files and classes are not markup, and long lines are left to the terminal.
PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
Watch = Callable[[dict[str, Any]], None]
WORST = 20  # classes shown if there are more
GROUPS = {
    "many": "Classes with more than 100 training samples",
    "medium": "Classes with 10 to 100",
    "few": "Classes with fewer than 10",
}


class Display:
    """A progress bar on a terminal; elsewhere one line per evaluation, to keep logs short."""

    def __init__(self, steps: int, done: int, console: Console | None = None, watch: Watch | None = None) -> None:
        self.watch = watch
        self.console = console or Console()
        self.steps = steps
        self.done = done
        self.start = time.monotonic()
        self.progress: Progress | None = None
        if self.console.is_terminal:
            self.progress = Progress(*_bar(), TextColumn("{task.fields[metrics]}"), console=self.console)
            self.task = self.progress.add_task("training", total=steps, completed=done, metrics="")

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
        """Show the metrics of an evaluation."""
        shown = format_metrics(row)
        if self.progress:
            self.progress.update(self.task, metrics=shown)
        else:
            spent = time.monotonic() - self.start
            left = spent / (row["step"] - self.done) * (self.steps - row["step"])
            self.console.print(f"step {row['step']}/{self.steps}  {shown}  {duration(left)} left", highlight=False)
        if self.watch:
            self.watch(row)


@contextmanager
def reading(console: Console) -> Iterator[Callable[[int, int], None]]:
    """On a terminal, a transient progress bar for files that are being read."""
    shown = console.is_terminal
    with Progress(TextColumn("reading"), *_bar(), console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task("reading", total=None, visible=False)
        yield lambda done, files: progress.update(task, completed=done, total=files, visible=True)


def _bar() -> list[ProgressColumn]:
    # Narrow, so that the time left fits into 80 columns.
    return [BarColumn(bar_width=16), MofNCompleteColumn(), TimeRemainingColumn(compact=True), TextColumn("left")]


def format_metrics(row: dict[str, Any]) -> str:
    """'accuracy 71.2%  ECE 0.043  accepted 81%', as far as the row has them; the loss if there is no test set."""
    if "accuracy" in row:
        shown = f"accuracy {format_accuracy(row['accuracy'], row['samples'])}"
        shown += f"  ECE {row['ece']:.3f}" if row["samples"] >= ENOUGH else ""
    else:
        shown = f"loss {row.get('labelled_loss', row.get('unlabelled_loss')):.3f}"
    return shown if row.get("acceptance") is None else f"{shown}  accepted {row['acceptance']:.0%}"


def format_accuracy(accuracy: float, samples: float) -> str:
    """'71.2%', or '71.2% (58% to 82%)', its 95 % interval, where the samples are few."""
    if samples >= ENOUGH:
        return f"{accuracy:.1%}"
    low, high = wilson(accuracy, samples)
    return f"{accuracy:.1%} ({low:.0%} to {high:.0%})"


def describe_found(kind: str, samples: int, labels: NDArray[np.int64], classes: Sequence[str]) -> str:
    """'5,000 pictures, …: 60 labelled (bag 6, boot 6, …), 4,940 unlabelled', and which classes have one label."""
    counts = np.bincount(labels, minlength=len(classes))
    shown = some([f"{name} {count}" for name, count in zip(classes, counts, strict=True)])
    words = f"{samples:,} {kind}: {len(labels):,} labelled ({shown}), {samples - len(labels):,} unlabelled"
    scarce = [name for name, count in zip(classes, counts, strict=True) if count < 2]
    if scarce:
        words += f"\nOnly one label: {some(scarce)}. A few more labels of these classes would help most"
    return words


def describe_guess(labels: NDArray[np.int64]) -> str:
    """'Labels: 10 of each class, so taken as drawn per class (if not, set drawn to random)'."""
    counts = np.unique(labels, return_counts=True)[1]
    many = f"{counts[0]} of each class" if np.ptp(counts) == 0 else f"{counts.min()} to {counts.max()} of a class"
    taken, other = ("per class", "random") if drawn_per_class("auto", labels) else ("at random", "per-class")
    return f"Labels: {many}, so taken as drawn {taken} (if not, set drawn to {other})"


def describe_network(config: RunConfig) -> str:
    """'wrn-10-2', 'mlp-1-256 on features of efficientnet-lite0', or 'efficientnet-lite0, trained further,'."""
    if config.train_encoder:
        return f"{config.encoder}, trained further,"
    return config.network.name + (f" on features of {config.encoder}" if config.on_features else "")


def describe_skipped(skipped: Sequence[tuple[str, str]]) -> str:
    """'3 files skipped (a.png: the file is empty; …)'"""
    shown = "; ".join(f"{file}: {reason}" for file, reason in skipped[:3]) + ("; …" if len(skipped) > 3 else "")
    return f"{len(skipped)} file{'s' if len(skipped) > 1 else ''} skipped ({shown})"


def duration(seconds: float) -> str:
    """'45 s', '12 min' or '3 h 20 min'."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def show_result(
    console: Console, result: dict[str, Any], summary: Summary | None = None, of: str = "test samples"
) -> None:
    """Show the metrics on the samples named by `of`: overall, by class, and the summary of the evaluations.

    Of few samples, accuracies have their 95 % interval, and there is no ECE.
    """
    samples = result["samples"]
    # Not the table's title, which would wrap the name of a file at the table's width.
    console.print(f"On {samples} {of}", style="italic", **PLAIN)
    table = _table("", "averaged weights", "raw weights")
    kinds = result["averaged"], result["raw"]
    interval = "" if samples >= ENOUGH else " (95% interval)"
    table.add_row(f"accuracy{interval}", *(format_accuracy(kind["accuracy"], samples) for kind in kinds))
    names = {"ece": "ECE, calibration error", "nll": "NLL", "brier": "Brier score"}
    for key, name in names.items():
        if key != "ece" or samples >= ENOUGH:
            table.add_row(name, *(f"{kind[key]:.3f}" for kind in kinds))
    console.print(table)
    show_classes(console, result["classes"], samples < ENOUGH)
    for name, group in result.get("groups", {}).items():
        of_group = ENOUGH if samples >= ENOUGH else group["count"]
        accuracy = "no test samples" if group["accuracy"] is None else format_accuracy(group["accuracy"], of_group)
        console.print(f"{GROUPS[name]} ({group['classes']}): {accuracy}", highlight=False)
    if summary and samples >= ENOUGH:
        over = f"{summary.window} evaluations" + (f" (fewer than {WINDOW})" if summary.window < WINDOW else "")
        console.print(
            f"Along the way, medians over {over}: last {summary.last_median_accuracy:.1%}, "
            f"around the best {summary.around_best_median_accuracy:.1%} with ECE {summary.converged_ece:.3f}",
            highlight=False,
        )


def show_bound(console: Console, bound: dict[str, float]) -> None:
    """Show both right-hand sides of the paper's bound, their terms, and the test NLL that they bound."""
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
    """Show metrics before and after calibration, on samples that it was not fitted to, and coverage by class."""
    subsets = {"held-out, cross-fitted": report["held_out"]}
    if report["rest"] is not None:
        subsets["rest of the test set"] = report["rest"]
    table = _table("", *subsets, title=f"Calibration: temperature {report['temperature']:.3f}")
    rows = {
        "samples": "{samples}",
        "ECE, calibration error": "{ece_before:.3f} → {ece_after:.3f}",
        "NLL": "{nll_before:.3f} → {nll_after:.3f}",
        f"right sets, asked {report['coverage']:.1%}": "{coverage:.1%}",
        "classes in a set": "{set_size:.2f}",
    }
    for name, form in rows.items():
        table.add_row(name, *(form.format(**found) for found in subsets.values()))
    console.print(table)
    columns = {"class": ("name", ""), "samples": ("count", ""), "right sets": ("coverage", ".1%")}
    columns |= {"classes in a set": ("set_size", ".2f")}
    classes = list(subsets.values())[-1]["classes"]
    _show_by_class(console, classes, "coverage", columns, f"The {WORST} classes that sets miss most often")


def show_classes(console: Console, classes: Sequence[dict[str, Any]], few: bool = False) -> None:
    """Show accuracy and confidence by class: the average hides classes that are learnt badly.

    Of `few` test samples, with the 95 % interval of each accuracy.
    """
    columns = {"class": ("class", ""), "test samples": ("count", ""), "accuracy": ("accuracy", ".1%")}
    if few:
        columns["95% interval"] = ("interval", "")
        classes = [row | {"interval": _interval(row["accuracy"], row["count"])} for row in classes]
    columns["confidence"] = ("confidence", ".1%")
    _show_by_class(console, classes, "accuracy", columns, f"The {WORST} worst classes")


def _interval(accuracy: float | None, samples: float) -> str | None:
    if accuracy is None:
        return None
    low, high = wilson(accuracy, samples)
    return f"{low:.0%} to {high:.0%}"


def _show_by_class(
    console: Console, rows: Sequence[dict[str, Any]], score: str, columns: dict[str, tuple[str, str]], worst: str
) -> None:
    """One row per class; of many classes, those with the lowest score. `columns`: heading -> (key, format)."""
    many = len(rows) > WORST
    if many:
        rows = sorted(rows, key=lambda row: 2 if row[score] is None else row[score])[:WORST]
    table = _table(*columns, title=worst if many else "By class")
    for row in rows:
        cells = ["–" if row[key] is None else format(row[key], form) for key, form in columns.values()]
        table.add_row(*map(escape, cells))
    console.print(table)


def _table(*headings: str, title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table
