"""Generate a set of crystals: draw and solve until there are enough with and without a gap.

Crystal i is a function of (seed, i) only. The set consists of the first crystals without a gap and
the first with one, in the order of i, so the result does not depend on the number of workers.
Finished chunks of gaps are stored in a folder beside the output, from which a later call resumes.
"""

import json
import os
import shutil
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from multiprocessing import get_context, parent_process
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from surelabel.phc.geometry import EPSILON_RANGE, draw
from surelabel.phc.solver import gaps
from surelabel.phc.store import CLASSES, RECIPE_VERSION, CrystalSet, classify, save
from surelabel.phc.zone import Grid
from surelabel.utils import cpu as cores
from surelabel.utils.bounded import read_json
from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write
from surelabel.utils.rng import generator

FULL_SIZE = 11376
_FULL_WITHOUT_GAP = 5000
_FULL_TEST_PER_CLASS = 300
_CHUNK = 64

Progress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Recipe:
    """The settings that determine crystal i and its gaps."""

    seed: int
    min_delta_eps: float
    grid: Grid
    version: int = RECIPE_VERSION


def generate(
    out: Path,
    *,
    samples: int = FULL_SIZE,
    seed: int = 0,
    workers: int | None = None,
    min_delta_eps: float = 0.0,
    grid: Grid = "midpoint",
    progress: Progress | None = None,
) -> CrystalSet:
    """Generate a set of `samples` crystals and write it to `out`.

    Of 11376, 5000 have no gap, and 300 of each class are test samples; proportionally for fewer.
    `progress` is called with (draws so far, kept so far, draws expected in total).
    """
    out = Path(out)
    recipe = Recipe(seed, float(min_delta_eps), grid)
    _check(out, samples, recipe, workers)
    parts = out.with_name(out.name + ".parts")
    _open_parts(parts, recipe)
    quota = np.array([round(samples * _FULL_WITHOUT_GAP / FULL_SIZE), 0])
    quota[1] = samples - quota[0]
    found: list[NDArray[np.float64]] = []
    have = np.zeros(2, dtype=np.int64)
    with closing(_chunks(parts, recipe, workers or cores.available_cores())) as chunks:
        for chunk in chunks:
            found.append(chunk)
            with_gap = int((classify(chunk) > 0).sum())
            have += [len(chunk) - with_gap, with_gap]
            if progress is not None:
                draws = len(found) * len(chunk)
                expected = draws * float((quota / np.maximum(have, 1)).max())
                progress(draws, int(np.minimum(have, quota).sum()), max(draws, round(expected)))
            if (have >= quota).all():
                break
    crystals = _assemble(np.concatenate(found), quota, recipe)
    save(crystals, out)
    shutil.rmtree(parts, ignore_errors=True)
    return crystals


def _check(out: Path, samples: int, recipe: Recipe, workers: int | None) -> None:
    if out.exists():
        raise UserError(f"{out} exists: choose another name or remove it")
    if samples < 2 * len(CLASSES):
        raise UserError(f"samples = {samples}: give at least {2 * len(CLASSES)}")
    if recipe.seed < 0:
        raise UserError(f"seed = {recipe.seed}: give 0 or more")
    if workers is not None and workers < 1:
        raise UserError(f"workers = {workers}: give at least 1, or omit it to use every core")
    widest = EPSILON_RANGE[1] - EPSILON_RANGE[0]
    if not 0 <= recipe.min_delta_eps < widest:
        raise UserError(f"min_delta_eps = {recipe.min_delta_eps:g}: give a difference from 0 to below {widest:g}")
    if recipe.grid not in ("midpoint", "boundary"):
        raise UserError(f'grid = {recipe.grid!r} is not known: choose "midpoint" or "boundary"')


def _open_parts(parts: Path, recipe: Recipe) -> None:
    """Create the folder of finished chunks, or check that an existing one has these settings."""
    settings = parts / "settings.json"
    if settings.exists():
        try:
            earlier = read_json(settings)
        except (OSError, ValueError):
            earlier = "unreadable settings"
        if earlier != asdict(recipe):
            raise UserError(
                f"{parts} holds an unfinished run with other settings: {earlier} instead of {asdict(recipe)}. "
                "Use those settings to finish it, or remove the folder"
            )
        return
    with atomic_write(settings) as file:
        json.dump(asdict(recipe), file)


def _chunks(parts: Path, recipe: Recipe, workers: int) -> Generator[NDArray[np.float64]]:
    """The gaps [64, 9] of draws 0-63, 64-127, ... without end, from the folder or solved now."""
    with _single_threaded_blas():
        pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin_worker)
        running: deque[tuple[Path, NDArray[np.float64] | Future[NDArray[np.float64]]]] = deque()
        try:
            for number in count():
                part = parts / f"{number:06d}.npy"
                finished = _read_part(part)
                draws = range(number * _CHUNK, (number + 1) * _CHUNK)
                running.append((part, pool.submit(_solve, recipe, draws) if finished is None else finished))
                # Two chunks per worker keep all of them busy while we wait for the oldest.
                if len(running) > 2 * workers:
                    yield _result(*running.popleft())
        except BrokenProcessPool as error:
            raise UserError(
                f"a worker was killed, perhaps for lack of memory. Finished chunks are in {parts}: "
                "run the same command again with fewer workers"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _result(part: Path, chunk: NDArray[np.float64] | Future[NDArray[np.float64]]) -> NDArray[np.float64]:
    if isinstance(chunk, np.ndarray):
        return chunk
    solved = chunk.result()
    with atomic_write(part, "wb") as file:
        np.save(file, solved, allow_pickle=False)
    return solved


def _read_part(part: Path) -> NDArray[np.float64] | None:
    if not part.exists():
        return None
    try:
        chunk: NDArray[np.float64] = np.load(part, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return chunk if chunk.shape == (_CHUNK, 9) else None


def _solve(recipe: Recipe, draws: range) -> NDArray[np.float64]:
    """The gaps of these draws [n, 9]; runs in a worker."""
    return np.stack([gaps(draw(recipe.seed, i, recipe.min_delta_eps).epsilon(), recipe.grid) for i in draws])


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and exit when the parent is killed."""

    def end_with_parent() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


@contextmanager
def _single_threaded_blas() -> Iterator[None]:
    """Start processes with one BLAS thread: results depend on it, and more would not be faster."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    earlier = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in earlier.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _assemble(found: NDArray[np.float64], quota: NDArray[np.int64], recipe: Recipe) -> CrystalSet:
    """The first quota[0] draws without a gap and the first quota[1] with one; found [draws, 9]."""
    has_gap = classify(found) > 0
    kept = [np.flatnonzero(has_gap == bool(kind))[: quota[kind]] for kind in (0, 1)]
    index = np.sort(np.concatenate(kept))
    crystals = [draw(recipe.seed, int(i), recipe.min_delta_eps) for i in index]
    label = classify(found[index])
    return CrystalSet(
        index=index,
        coverage=np.stack([crystal.coverage() for crystal in crystals]),
        epsilon_in=np.array([crystal.epsilon_in for crystal in crystals]),
        epsilon_out=np.array([crystal.epsilon_out for crystal in crystals]),
        filling=np.array([crystal.filling for crystal in crystals]),
        gaps=found[index],
        label=label,
        test=_test_split(label, recipe.seed),
        seed=np.array(recipe.seed),
        draws=np.array(index[-1] + 1),
        min_delta_eps=np.array(recipe.min_delta_eps),
        grid=np.array(recipe.grid),
        recipe_version=np.array(recipe.version),
    )


def _test_split(label: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Random test samples, equally many per class; a small class keeps one for training."""
    per_class = round(len(label) * _FULL_TEST_PER_CLASS / FULL_SIZE)
    test = np.zeros(len(label), dtype=np.bool_)
    for number in range(len(CLASSES)):
        members = generator(seed, "phc-test", number).permutation(np.flatnonzero(label == number))
        test[members[: max(0, min(per_class, len(members) - 1))]] = True
    return test
