"""How long runs will take here: as long as such a run took before, else by the work of a step. An estimate."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import numpy as np

from surelabel.config import Run, steps_of
from surelabel.study.benchmarks import CLASSES
from surelabel.study.plan import FINETUNED, Job
from surelabel.study.results import Record

# Seconds of a step, measured on one core of a two-core machine that was busy with another such run: laptop recipes,
# median over finished runs. Of the work that a pass with gradients over one 32×32 image is, a step does `images`.
REFERENCE = {"seconds": 0.20, "images": 16 + 7 * 16 + 7 * 16 / 3}
REFERENCE_NETWORK = "wrn-10-2"
SORT_SECONDS = 0.025  # of a million numbers, on that machine
SIDES = {"imagenet": 224, "fashion-mnist": 28, "mnist": 28}
TEST_IMAGES = {"phc": 1500, "imagenet": 50_000}


def seconds(job: Job, records: Sequence[Record] = (), speed: float = 1.0) -> float:
    """Of a job. `speed` is how many times as quick this machine is as the one of reference."""
    run = job.run
    alike = [
        record["seconds"]
        for record in records
        if record["config"].get(FINETUNED) == job.finetune
        and all(str(record["config"].get(key)) == str(getattr(run, key)) for key in ("method", "data", "steps"))
        and record["config"].get("network.name") == run.network.name
    ]
    if alike:
        return float(median(alike))
    if job.finetune is not None:
        return seconds(Job(run), records, speed) / 10  # only the labelled images, 50 times
    image = REFERENCE["seconds"] / REFERENCE["images"] * work(run) / speed
    evaluations = run.steps // max(1, steps_of(run.evaluation.every, run.steps)) * (run.evaluation.samples or 10_000)
    tested = evaluations + 2 * TEST_IMAGES.get(run.data, 10_000)
    return image * (images_of(run) * run.steps + tested / 3)


def images_of(run: Run) -> float:
    """The images of a step that pass the network; a pass without gradients counts a third."""
    if run.by_neighbours:
        crops = run.paws
        small = crops.smalls * (9 / 16) ** 2
        taught = (2 / 3 if run.teaches else 0) * crops.unlabelled
        support = (
            (crops.classes or CLASSES.get(run.data.partition("-lt")[0], 10)) * crops.per_class * crops.support_views
        )
        return crops.unlabelled * (2 + small) + support + taught
    pool = 0 if run.base == "supervised" else run.batch.labelled * run.batch.ratio
    return run.batch.labelled + pool * (2 if run.forward == "joint" else 4 / 3)


def work(run: Run) -> float:
    """Of passing one image through the network, in units of the network of reference."""
    side = SIDES.get(run.data, 32) / run.network.stem_stride
    reference = _multiplications(REFERENCE_NETWORK, 16)
    return _multiplications(run.network.name, side) / reference


def _multiplications(name: str, side: float) -> float:
    """Of the 3×3 convolutions of a wide residual network; a ResNet by what its authors print for 224 pixels."""
    wide = re.fullmatch(r"wrn-(\d+)-(\d+)", name)
    if wide is None:
        return {"resnet-18": 1.8e9, "resnet-50": 4.1e9}.get(name, 1e8) * (side / 224) ** 2
    blocks, width = (int(wide[1]) - 4) // 6, int(wide[2])
    total = 9.0 * 3 * 16 * side**2
    before = 16
    for stage in range(3):
        channels = 16 * width * 2**stage
        pixels = (side / 2**stage) ** 2
        total += 9 * pixels * channels * (before + channels * (2 * blocks - 1))
        before = channels
    return total


def speed_here() -> float:
    """How many times as quick as the machine of reference, by sorting numbers on one core: a rough guide."""
    numbers = np.random.default_rng(0).random(2**20)
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        np.sort(numbers)
        taken.append(time.perf_counter() - start)
    return SORT_SECONDS / min(taken)


def total(jobs: Iterable[Job], records: Mapping[str, Record] | None = None, speed: float = 1.0) -> float:
    """Of all these jobs, one after another."""
    known = list((records or {}).values())
    made: dict[Job, float] = {}  # seeds alike take alike
    found = 0.0
    for job in jobs:
        alike = job.seeded(0)
        if alike not in made:
            made[alike] = seconds(job, known, speed)
        found += made[alike]
    return found
