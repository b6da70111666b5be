"""The folder of a run: its config, metrics, checkpoints and weights."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from surelabel.config.run import RunConfig
from surelabel.config.settings import CONFIG, read_run, write_yaml
from surelabel.data.batch import Task
from surelabel.data.tables.encoding import Encoding
from surelabel.training.checkpoints import Damaged, read_checkpoint, write_checkpoint
from surelabel.training.environment import environment
from surelabel.training.state import TrainState
from surelabel.utils.errors import Busy, FolderExists, UserError
from surelabel.utils.files import atomic_write

CHECKPOINT, PREVIOUS, BEST = "checkpoint.pt", "checkpoint-previous.pt", "checkpoint-best.pt"
AVERAGED, RAW = "weights.safetensors", "weights-raw.safetensors"
CROSSFIT = "crossfit.json"
# Files written during training.
WRITTEN = (CHECKPOINT, PREVIOUS, BEST, AVERAGED, RAW, "metrics.jsonl", "result.json")


class RunFolder:
    """Reads and writes the files of one run.

    config.yaml        the complete config
    task.json          shape, classes and normalisation of the samples
    table.json         for a table: how its columns become numbers
    split.json         the indices of the labelled training samples, and a fingerprint of the data
    environment.json   versions, commit, threads
    metrics.jsonl      one line per evaluation
    timings.jsonl      samples per second and seconds by phase, one line per evaluation
    checkpoint.pt      the whole training state; checkpoint-previous.pt is the one before, checkpoint-best.pt the one
                       with the most accurate evaluation
    weights*.safetensors  the averaged weights, which are evaluated, and the raw ones
    result.json        the final metrics
    crossfit.json      with --crossfit: the number of folds, and the temperature of the run's predictions; what was
                       predicted without each fold is in crossfit-1-of-5.safetensors, ...

    A run on user data also gets predictions.csv, report.html and perhaps estimate.json.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def check_absent(self) -> None:
        """Raise if the folder is not empty."""
        with self._explained():
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise FolderExists(self.path, begun=(self.path / CONFIG).exists())

    def check_writable(self) -> None:
        """Raise if the folder cannot be made; called before the data are read, which may take long."""
        with self._explained():
            parent = next(parent for parent in self.path.absolute().parents if parent.exists())
            # Permissions are not enough: root seems to have them on a read-only file system too.
            with tempfile.TemporaryDirectory(prefix=f".{self.path.name}.", dir=parent):
                pass

    def create(
        self, config: RunConfig, task: Task, data: str, labelled: NDArray[np.int64], table: Encoding | None = None
    ) -> None:
        """Make the folder with the files known before the first step: all of them or, if killed, none."""
        self.check_absent()
        with self._explained():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{self.path.name}.", dir=self.path.parent) as temporary:
                # One level deeper, so that the temporary folder is still there to be removed.
                half = RunFolder(Path(temporary, self.path.name))
                half._write_json("task.json", asdict(task))
                half._write_json("split.json", {"data": data, "labelled": labelled.tolist()})
                half._write_json("environment.json", environment())
                if table is not None:
                    half._write_json("table.json", table.as_json())
                write_yaml(config, half.path / CONFIG)
                half.path.replace(self.path)
        self.config = config

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn an OSError into a `UserError` about this folder."""
        try:
            yield
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror or error}. Choose another folder") from error

    @cached_property
    def config(self) -> RunConfig:
        """The run's config, read and checked once."""
        return read_run(self.path)

    def task(self) -> Task:
        with self._damage("task.json") as read:
            scales = {key: tuple(float(number) for number in read[key]) for key in ("offset", "scale")}
            classes = tuple(str(name) for name in read["classes"])
            return Task(tuple(int(side) for side in read["shape"]), classes, str(read["dtype"]), **scales)

    def table_encoding(self) -> Encoding | None:
        """How the columns of the training table become numbers; None if the data are not a table."""
        if not (self.path / "table.json").exists():
            return None
        with self._damage("table.json") as read:
            return Encoding.from_json(read)

    def environment(self) -> dict[str, Any]:
        """The versions that decide how results round, as the run was started; None if not recorded."""
        with self._damage("environment.json") as read:
            return {"torch": str(read["torch"]), "processor": read.get("processor")}

    def labelled(self) -> NDArray[np.int64]:
        with self._damage("split.json") as read:
            return np.array(read["labelled"], dtype=np.int64)

    def check_same_data(self, task: Task, data: str) -> None:
        """Raise if the data are not those that the run was started with."""
        with self._damage("split.json") as read:
            # Not the normalisation: it follows from the data, and features differ by machine in the last bits.
            stored = self.task()
            before = (stored.shape, stored.classes, stored.dtype, read["data"])
        if (task.shape, task.classes, task.dtype, data) != before:
            raise UserError(f"{self.path} was started with other data: the samples or labels have changed since")

    @property
    def has_checkpoint(self) -> bool:
        return (self.path / CHECKPOINT).exists() or (self.path / PREVIOUS).exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in this folder, and remove what a killed one left half written."""
        lock = FileLock(self.path / ".lock", timeout=0)
        with self._explained():
            try:
                lock.acquire()
            except Timeout as error:
                raise Busy(f"another process is training in {self.path}: wait for it, or stop it") from error
        try:
            for half in self.path.glob(".*.*"):  # left by `atomic_write` or `_link`
                if half.name.startswith(tuple(f".{name}." for name in WRITTEN)):
                    shutil.rmtree(half) if half.is_dir() else half.unlink()
            yield
        finally:
            lock.release()

    def save(self, state: TrainState) -> None:
        """Write a checkpoint, the weights and the metrics; keep the previous and the best checkpoint."""
        newest = self.path / CHECKPOINT
        if newest.exists():
            newest.replace(self.path / PREVIOUS)
        write_checkpoint(newest, state.state_dict())
        if _best_so_far(state.history, state.step):
            _link(newest, self.path / BEST)
        self.save_tensors(AVERAGED, state.evaluated.state_dict())
        self.save_tensors(RAW, state.network.state_dict())
        self.write_history(state.history)

    def stored_state(self) -> tuple[dict[str, Any], str | None]:
        """The state in the newest readable checkpoint, {} without any, and a note if a newer one is damaged."""
        damaged: list[str] = []
        for checkpoint in (self.path / name for name in (CHECKPOINT, PREVIOUS)):
            if checkpoint.exists():
                try:
                    stored = read_checkpoint(checkpoint)
                except Damaged as error:
                    damaged.append(str(error))
                else:
                    note = f"{'; '.join(damaged)}; resuming from {checkpoint}, step {stored['step']}"
                    return stored, note if damaged else None
        if damaged:
            raise UserError(f"{'; '.join(damaged)}: no checkpoint to resume from. Remove the folder and start again")
        return {}, None

    def save_tensors(self, name: str, tensors: dict[str, Tensor]) -> None:
        with atomic_write(self.path / name, "wb") as file:
            file.write(save_tensors({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}))

    def weights(self, name: str = AVERAGED) -> dict[str, Tensor]:
        """The averaged weights, or with `RAW` those of the last step."""
        return self.tensors(name, "weights yet", "let the run reach its first evaluation")

    def tensors(self, name: str, what: str, remedy: str) -> dict[str, Tensor]:
        """The tensors in a file of the run; `what` it lacks if that is missing, and what to do then."""
        try:
            return load_tensors((self.path / name).read_bytes())
        except OSError as error:
            raise UserError(f"{self.path} has no {what} ({name}): {remedy}") from error
        except SafetensorError as error:
            raise UserError(f"{self.path / name} is damaged: {error}") from error

    @property
    def crossfit(self) -> tuple[int, float] | None:
        """How many folds of the labels were left out in turn, and the temperature by that; None if none were."""
        if not (self.path / CROSSFIT).exists():
            return None
        with self._damage(CROSSFIT) as read:
            return int(read["folds"]), float(read["temperature"])

    @property
    def temperature(self) -> float:
        """That of the run's predictions."""
        return self.crossfit[1] if self.crossfit else 1.0

    def write_crossfit(self, folds: int, temperature: float) -> None:
        self._write_json(CROSSFIT, {"folds": folds, "temperature": temperature})

    def seconds_per_step(self) -> float | None:
        """How long a step took, evaluations aside; None if that was not recorded."""
        try:
            rows = [json.loads(line) for line in (self.path / "timings.jsonl").read_text(encoding="utf-8").splitlines()]
            return float(sum(row["stepping"] for row in rows) / sum(row["steps"] for row in rows))
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
            return None  # a kill may have left half a line

    def write_history(self, history: list[dict[str, Any]]) -> None:
        with atomic_write(self.path / "metrics.jsonl") as file:
            file.writelines(json.dumps(row) + "\n" for row in history)

    def history(self) -> list[dict[str, Any]]:
        """The evaluations so far."""
        try:
            lines = (self.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
            return [json.loads(line) for line in lines]
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {self.path / 'metrics.jsonl'}: {error}") from error

    def add_timing(self, row: dict[str, Any]) -> None:
        path = self.path / "timings.jsonl"
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from error

    def write_result(self, result: dict[str, Any]) -> None:
        self._write_json("result.json", result)

    def _write_json(self, name: str, content: Any) -> None:
        with atomic_write(self.path / name) as file:
            json.dump(content, file, indent=1, ensure_ascii=False)
            file.write("\n")

    @contextmanager
    def _damage(self, name: str) -> Iterator[Any]:
        """The content of a JSON file; errors in the block that reads it are reported as damage."""
        try:
            yield json.loads((self.path / name).read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"cannot read {self.path / name}: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{self.path / name} is damaged: {error!r}") from error


def _best_so_far(history: list[dict[str, Any]], step: int) -> bool:
    """Whether this step was evaluated, and more accurate than every evaluation before it."""
    accuracies = [row["accuracy"] for row in history if "accuracy" in row]
    evaluated = bool(accuracies) and history[-1]["step"] == step
    return evaluated and accuracies[-1] > max(accuracies[:-1], default=-1.0)


def _link(source: Path, target: Path) -> None:
    """Hard-link the file, without a copy: checkpoints are replaced, never modified."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as temporary:
        half = Path(temporary, target.name)
        try:
            half.hardlink_to(source)
        except OSError:  # a file system without links
            shutil.copyfile(source, half)
        half.replace(target)
