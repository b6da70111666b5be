"""How long runs will take here: as long as such a run took before, else by the work of a step. An estimate."""

import re
import time
from collections import Counter
from collections.abc import Iterable
from functools import cache, cached_property
from statistics import median

from surelabel.config.run import RunConfig, steps_of
from surelabel.studies.cells import CLASSES
from surelabel.studies.plan import FINETUNED, Job, run_with
from surelabel.studies.records import Record

# Seconds of a step of FixMatch's laptop recipe on one core of a two-core machine that was busy with another such run:
# with these, half of 145 runs of all methods took longer than `modelled`, half less. Of the work that a pass with
# gradients over one 32×32 image is, a step does `images`.
REFERENCE = {"seconds": 0.28, "images": 16 + 7 * 16 + 7 * 16 / 3}
REFERENCE_NETWORK = "wrn-10-2"
CONVOLUTION_SECONDS = 0.0125  # as `speed_here` has it, on that machine, while training runs filled both cores
SIDES = {"imagenet": 224, "fashion-mnist": 28, "mnist": 28}
TEST_IMAGES = {"phc": 1500, "imagenet": 50_000}
# What runs that take alike have in common, beside their method and the rate of their fine-tuning.
KIND = ("data", "steps", "network.name")
Kind = tuple[str, ...]


class Clock:
    """How long jobs take here, which is `speed` times as quick as the machine of reference, by records of others.

    Median time of such runs; where there are none, by the work of a run, and by how much records of the same method,
    or else all records, were above or below theirs.
    """

    def __init__(self, records: Iterable[Record] = (), speed: float = 1.0) -> None:
        self.speed = speed
        self._taken: dict[Kind, list[float]] = {}  # on the machine of reference
        self._runs: dict[Kind, RunConfig] = {}
        for record in records:
            settings = record["config"]
            kind = (str(settings["method"]), *(str(settings.get(key)) for key in (*KIND, FINETUNED)))
            self._taken.setdefault(kind, []).append(record["seconds"] * record.get("speed", 1.0))
            if kind not in self._runs:
                self._runs[kind] = run_with(settings)

    def total(self, jobs: Iterable[Job]) -> float:
        """Seconds of all these jobs, one after another."""
        alike = Counter(job.seeded(0) for job in jobs)
        return sum(count * self.seconds(job) for job, count in alike.items())

    def seconds(self, job: Job) -> float:
        run = job.run
        kind = (run.method, run.data, str(run.steps), run.network.name, str(job.finetune))
        if kind in self._taken:
            return median(self._taken[kind]) / self.speed
        if job.finetune is not None:
            return self.seconds(Job(run)) / 10  # only the labelled images, 50 times
        return self._off(run.method) * modelled(run) / self.speed

    def _off(self, method: str) -> float:
        found = self._ratios
        return median(found.get(method) or [ratio for some in found.values() for ratio in some] or [1.0])

    @cached_property
    def _ratios(self) -> dict[str, list[float]]:
        """Of runs by method, those that were fine-tuned aside: the time that a run took over what its work says."""
        found: dict[str, list[float]] = {}
        for kind, run in self._runs.items():
            if kind[-1] == str(None):
                expected = modelled(run)
                found.setdefault(run.method, []).extend(taken / expected for taken in self._taken[kind])
        return found


def modelled(run: RunConfig) -> float:
    """Seconds on the machine of reference by the work of a run."""
    image = REFERENCE["seconds"] / REFERENCE["images"] * work(run)
    evaluations = run.steps // max(1, steps_of(run.evaluation.every, run.steps)) * (run.evaluation.samples or 10_000)
    tested = evaluations + 2 * TEST_IMAGES.get(run.data, 10_000)
    return image * (images_of(run) * run.steps + tested / 3)


def images_of(run: RunConfig) -> float:
    """The images of a step that pass the network; a pass without gradients counts a third."""
    if run.uses_neighbours:
        crops = run.paws
        small = crops.smalls * (9 / 16) ** 2
        taught = (2 / 3 if run.teaches else 0) * crops.unlabelled
        support = (
            (crops.classes or CLASSES.get(run.data.partition("-lt")[0], 10)) * crops.per_class * crops.support_views
        )
        return crops.unlabelled * (2 + small) + support + taught
    pool = 0 if run.base == "supervised" else run.batch.labelled * run.batch.ratio
    return run.batch.labelled + pool * (2 if run.forward == "joint" else 4 / 3)


def work(run: RunConfig) -> float:
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


@cache
def speed_here() -> float:
    """How many times as quick as the machine of reference, by what training does most: a convolution and its gradient.

    On one thread, by the time that the core works for it: what else runs there now may be gone when a run begins.
    """
    import torch

    from surelabel.utils import devices

    images, filters, gradient = (
        torch.ones(shape).to(memory_format=torch.channels_last)
        for shape in ((64, 32, 16, 16), (32, 32, 3, 3), (64, 32, 16, 16))
    )
    leaves = images.requires_grad_(), filters.requires_grad_()
    taken = []
    with devices.one_thread():
        for _ in range(40):
            start = time.thread_time()
            torch.autograd.grad(torch.nn.functional.conv2d(images, filters, padding=1), leaves, gradient)
            taken.append(time.thread_time() - start)
    return CONVOLUTION_SECONDS / (min(taken) or sum(taken) / len(taken))  # some clocks tick more slowly than one takes
