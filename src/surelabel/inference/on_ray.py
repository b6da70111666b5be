"""Parts predicted by the workers of a Ray cluster. All of them see the files under the same paths."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from surelabel.data.part import Part
from surelabel.inference.predict_file import predict_file
from surelabel.inference.trained_run import TrainedRun, load
from surelabel.utils.cache import content_key
from surelabel.utils.errors import UserError, optional_import, words_of
from surelabel.utils.files import atomic_write

PARTS_PER_CORE = 4  # so that a slow worker holds up little

Task = Callable[[Part], int]  # writes a part, and returns the number of its samples


@dataclass(frozen=True)
class Asked:
    """What is predicted, and how."""

    run: str
    data: str
    out: str
    data_dir: str | None = None
    sets: float | None = None
    all_probabilities: bool = False

    @property
    def stamp(self) -> str:
        """A hash of this and of the weights: parts of another call are not taken for its own."""
        files = sorted(Path(self.run).glob("*.safetensors"))
        return content_key([json.dumps(asdict(self)), *(str(file.stat().st_mtime_ns) for file in files)])


def predict_on_ray(asked: Asked, address: str, parts: int | None = None) -> int:
    """Write the files of all parts by a cluster, and return the number of samples; those that are there stay.

    `address` is the one of a cluster, or "local" for one of this machine's own, while it lasts. By default there are
    four `parts` for each core.
    """
    ray = connected(address)
    try:
        of = parts or PARTS_PER_CORE * max(1, int(ray.cluster_resources().get("CPU", 1)))
        return run_parts(partial(predict_part, asked), [Part(number, of) for number in missing_parts(asked, of)])
    finally:
        ray.shutdown()


def connected(address: str) -> Any:
    """The module ray, with a connection to a cluster."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that it starts sends nothing
    with optional_import("ray", "--ray"):
        import ray
        import ray.data
    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UserError(f"no Ray cluster at {address}: {error}. Start one with `ray start --head`") from error
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray


def run_parts(task: Task, parts: list[Part]) -> int:
    """The sum of what a task returns for each part. A part whose worker dies is done again by another."""
    import ray.data

    if not parts:
        return 0
    # A block for each part: what is lost with a worker is one part.
    waiting = ray.data.from_items([asdict(part) for part in parts], override_num_blocks=len(parts))
    total = 0
    for found in waiting.map(partial(_done, task), num_cpus=1).iter_rows():
        if found["error"]:
            raise UserError(found["error"])
        total += int(found["count"])
    return total


def _done(task: Task, row: dict[str, Any]) -> dict[str, Any]:
    """What Ray carries between machines of a part."""
    try:
        return {"count": task(Part(**row)), "error": ""}
    except UserError as error:
        return {"count": 0, "error": words_of(error)}


def predict_part(asked: Asked, part: Part) -> int:
    """Write the file of one part."""
    written = predict_file(
        _run(asked.run), asked.data, Path(asked.out), asked.data_dir, part, asked.sets,
        all_probabilities=asked.all_probabilities,
    )  # fmt: skip
    return written.count


@lru_cache(maxsize=1)
def _run(folder: str) -> TrainedRun:
    """The run, which a worker reads once."""
    return load(folder)


def missing_parts(asked: Asked, of: int) -> list[int]:
    """The numbers of the parts that an earlier call of the same has not written."""
    out = Path(asked.out)
    plan, stamp = out.with_name(f".{out.name}.parts"), f"{of} {asked.stamp}"
    numbers = range(1, of + 1)
    if plan.exists() and plan.read_text(encoding="utf-8") == stamp:
        return [number for number in numbers if not Part(number, of).file(out).exists()]
    for number in numbers:
        Part(number, of).file(out).unlink(missing_ok=True)
    with atomic_write(plan) as file:
        file.write(stamp)
    return list(numbers)
