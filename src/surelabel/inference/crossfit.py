"""Cross-fitting: further runs, each without one fold of the labels, calibrate a run and tell how often it is right.

The samples of a fold stay in the pool, unlabelled: to the run that predicts them, they are like the others.
"""

import shutil
import time

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from surelabel.data.folds import parts
from surelabel.inference.learners import file_of, pool_of, stored_learners
from surelabel.inference.trained_run import TrainedRun
from surelabel.methods.joining import fit_powers
from surelabel.models.network import Network
from surelabel.models.prediction import LEAST
from surelabel.training.display import PLAIN, duration
from surelabel.training.evaluate import predict
from surelabel.training.fit import fit_without, fold_of_labels
from surelabel.training.run_folder import RunFolder
from surelabel.training.step_time import TRAINING
from surelabel.utils.intervals import ENOUGH

MOST_RANKED = 20_000  # samples of the pool that left-out labels are ranked among


def cross_fit(run: TrainedRun, folds: int, console: Console) -> None:
    """Leave each fold of the labels out of a further run, and give the run the temperature that these labels choose.

    What was predicted without a fold is in the run's folder, and not computed twice.
    """
    folder = RunFolder(run.path)
    fold = fold_of_labels(run.config, run.data, run.labelled, folds)
    with folder.locked():  # another process would begin the same runs
        _leave_all_out(run, folder, fold, folds, console)
    found = stored_learners(run, folds)
    temperature = 1 / float(fit_powers(found.log_probs, found.labels, found.prior)[0])
    folder.write_crossfit(folds, temperature)
    console.print(f"Temperature {temperature:.2f}, by {len(found.labels)} labels that were left out in turn", **PLAIN)
    _apply(run, temperature, console)


def _leave_all_out(run: TrainedRun, folder: RunFolder, fold: NDArray[np.int64], folds: int, console: Console) -> None:
    """Train a run without each fold, but for those that have been."""
    left = [v for v in parts(fold) if not (folder.path / file_of(v, folds)).exists()]
    step = folder.seconds_per_step()
    seconds = None if step is None else run.config.steps * step / TRAINING
    for done, v in enumerate(left):
        out = run.labelled[fold == v]
        console.print(
            f"Cross-fitting: run {v + 1} of {len(parts(fold))}, without {len(out)} of {len(fold)} labels"
            + ("" if seconds is None else f"; about {duration((len(left) - done) * seconds)} left"),
            **PLAIN,
        )
        start = time.monotonic()
        _leave_out(run, out, RunFolder((folder.path / file_of(v, folds)).with_suffix("")), file_of(v, folds))
        seconds = time.monotonic() - start


def _leave_out(run: TrainedRun, out: NDArray[np.int64], folder: RunFolder, file: str) -> None:
    """Train without these labels, and keep only what is then predicted for them and for the pool."""
    network = fit_without(run.config, folder, run.data, run.labelled, out, run.components)
    pool = pool_of(run)
    ranked = pool[:: max(1, -(-len(pool) // MOST_RANKED))]
    predicted = {"log_probs": _log_probs(run, network, out), "pool": _log_probs(run, network, ranked).half()}
    RunFolder(run.path).save_tensors(file, {"index": torch.from_numpy(out)} | predicted)
    shutil.rmtree(folder.path)


def _log_probs(run: TrainedRun, network: Network, index: NDArray[np.int64]) -> Tensor:
    """log p [n, K] of these samples of the pool."""
    if not len(index):
        return torch.zeros(0, len(run.task.classes))
    return predict(network, run.data.train, index, run.config.evaluation.batch).probs.clamp_min(LEAST).log()


def _apply(run: TrainedRun, temperature: float, console: Console) -> None:
    """Give the run its temperature; write the metrics on its test set anew, and show how they change."""
    if run.network.temperature == temperature:
        return
    before = None if run.data.test is None else run.metrics
    run.set_temperature(temperature)
    if before is None:
        return
    RunFolder(run.path).write_result(before | run.metrics)
    shown = {"nll": "NLL"} | ({"ece": "ECE"} if before["samples"] >= ENOUGH else {})
    old, new = before["averaged"], run.metrics["averaged"]
    changes = [f"{name} {old[key]:.3f} → {new[key]:.3f}" for key, name in shown.items()]
    console.print(f"With it, on the {before['samples']} test samples: {', '.join(changes)}", **PLAIN)
