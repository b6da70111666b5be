"""Cells of a table from a method, a benchmark and changed settings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from surelabel.config.benchmarks import BENCHMARKS
from surelabel.config.recipes import recipe
from surelabel.config.run import RunConfig
from surelabel.config.settings import changed
from surelabel.studies.plan import Cell, Job, Printed

TITLES = {
    "pseudo-label": "PL",
    "fixmatch": "FM",
    "uda": "UDA",
    "paws": "PAWS",
    "supervised": "supervised",
    "all-labels": "supervised, all labels",
    "strong-views": "supervised, strong views",
}
NAMES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "fashion-mnist": "Fashion-MNIST", "phc": "PhC"}
CLASSES = {"cifar10": 10, "cifar100": 100, "fashion-mnist": 10, "mnist": 10, "phc": 5, "imagenet": 1000}
# Where settings of a method are compared at laptop scale.
SMALL = "fashion-mnist-40"


def method_title(method: str) -> str:
    """'bam-fixmatch+ema' -> 'BAM-FM+EMA'."""
    base, plus, teacher = method.partition("+")
    plain = base.removeprefix("bam-")
    return ("BAM-" if base != plain else "") + TITLES.get(plain, plain) + plus + teacher.upper()


def benchmark_title(benchmark: str) -> str:
    """'cifar10-lt-100' -> 'CIFAR-10-LT, α = 100'."""
    data, _, labels = benchmark.rpartition("-")
    if data.endswith("-lt"):
        return f"{NAMES[data.removesuffix('-lt')]}-LT, α = {labels}"
    if data == "imagenet":
        return "ImageNet-10%"
    return f"{NAMES[data]}-{labels}" + ("%" if data == "phc" else "")


def run_of(method: str, benchmark: str, scale: str, settings: Mapping[str, Any] | None = None) -> RunConfig:
    """The recipe with some settings changed; at laptop scale with one thread per worker, in float32.

    "all-labels" and "strong-views" are versions of supervised: with all labels, and with strong
    views of the labelled samples.
    """
    data, labels = BENCHMARKS[benchmark]
    own = "supervised" if method in ("all-labels", "strong-views") else method
    config = recipe(own, data, "all" if method == "all-labels" else labels, scale)
    if method == "strong-views":
        config = replace(config, views=replace(config.views, labelled="strong"))
    if scale == "laptop":
        config = replace(config, threads=1, precision="32")  # as the records: machines that join compute the same
    return changed(config, settings or {})


def cell(
    method: str,
    benchmark: str,
    scale: str,
    seeds: int = 3,
    *,
    row: str | None = None,
    settings: Mapping[str, Any] | None = None,
    printed: Printed | None = None,
    choices: Sequence[tuple[str, Mapping[str, Any]]] = (("", {}),),
    finetune: Sequence[float] = (),
) -> Cell:
    """The cell of a method on a benchmark, with `choices` of settings or `finetune` rates."""
    configs = [(name, run_of(method, benchmark, scale, {**(settings or {}), **more})) for name, more in choices]
    jobs = [(name, Job(config)) for name, config in configs]
    if finetune:
        jobs = [(f"learning rate {lr:g}", Job(config, lr)) for _, config in configs for lr in finetune]
    title = benchmark_title(benchmark)
    return Cell(row or method_title(method), title, tuple(jobs), seeds, printed)


def seeds_of(scale: str) -> int:
    """One seed at the paper's scale, as in the paper; several at laptop scale."""
    return 3 if scale == "laptop" else 1
