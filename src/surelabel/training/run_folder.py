"""The folder of a run: its config, metrics, checkpoints and weights."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
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
from surelabel.models.encoders.base import Encoder
from surelabel.models.encoders.ngrams import Ngrams
from surelabel.training.checkpoints import Damaged, read_checkpoint, write_checkpoint
from surelabel.training.environment import environment
from surelabel.training.state import TrainState
from surelabel.utils.bounded import (
    MOST_BYTES,
    MOST_SPLIT,
    Malformed,
    as_text,
    briefly,
    from_json,
    opened,
    read_bytes,
    read_json,
    read_json_lines,
)
from surelabel.utils.errors import Busy, FolderExists, UserError
from surelabel.utils.files import atomic_write
from surelabel.utils.typed import typed

CHECKPOINT, PREVIOUS, BEST = "checkpoint.pt", "checkpoint-previous.pt", "checkpoint-best.pt"
AVERAGED, RAW = "weights.safetensors", "weights-raw.safetensors"
CROSSFIT, ENCODER, FITTED = "crossfit.json", "encoder.json", "encoder.safetensors"
# Files written during training.
WRITTEN = (CHECKPOINT, PREVIOUS, BEST, AVERAGED, RAW, "metrics.jsonl", "result.json")

MOST_TENSORS = 2**34


@dataclass(frozen=True)
class Split:
    """split.json"""

    data: str
    labelled: list[int]


@dataclass(frozen=True)
class Rounding:
    """What environment.json says of how results round."""

    torch: str
    processor: str | None = None


@dataclass(frozen=True)
class Described:
    """encoder.json"""

    fingerprint: str
    revision: str | None


@dataclass(frozen=True)
class Crossfit:
    """crossfit.json"""

    folds: int
    temperature: float

    def __post_init__(self) -> None:
        if self.folds < 2 or self.temperature <= 0:
            raise ValueError(f"{self.folds} folds and a temperature of {self.temperature} are of no run")


class RunFolder:
    """Reads and writes the files of one run.

    config.yaml        the complete config
    task.json          shape, classes and normalisation of the samples
    table.json         for a table: how its columns become numbers
    encoder.json       of a run on features: which network made them, and a hash of its weights; encoder.safetensors is
                       what an encoder learnt from the pool
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
        self,
        config: RunConfig,
        task: Task,
        data: str,
        labelled: NDArray[np.int64],
        table: Encoding | None = None,
        encoder: Encoder | None = None,
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
                if encoder is not None and (learnt := encoder.tensors()):
                    half.save_tensors(FITTED, {name: torch.from_numpy(values) for name, values in learnt.items()})
                if encoder is not None:
                    keys = ("name", "revision", "fingerprint", "dimensions")
                    half._write_json(ENCODER, {key: getattr(encoder, key) for key in keys})
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
        task: Task = self._read_json("task.json", Task)
        return task

    def table_encoding(self) -> Encoding | None:
        """How the columns of the training table become numbers; None if the data are not a table."""
        if not (self.path / "table.json").exists():
            return None
        try:
            return Encoding.from_json(self._read_json("table.json", Any))
        except Malformed as error:
            raise UserError(f"{self.path / 'table.json'} is damaged: {error}") from error

    def environment(self) -> dict[str, Any]:
        """The versions that decide how results round, as the run was started; None if not recorded."""
        return asdict(self._read_json("environment.json", Rounding))

    def labelled(self) -> NDArray[np.int64]:
        return np.array(self._split.labelled, dtype=np.int64)

    @property
    def _split(self) -> Split:
        split: Split = self._read_json("split.json", Split, MOST_SPLIT)
        return split

    def check_same_data(self, task: Task, data: str, labels: NDArray[np.int64]) -> None:
        """Raise if the data are not those that the run was started with; `labels` [N] are those of its pool."""
        # Not the normalisation: it follows from the data, and features differ by machine in the last bits.
        stored, split = self.task(), self._split
        if (task.shape, task.classes, task.dtype, data) != (stored.shape, stored.classes, stored.dtype, split.data):
            raise UserError(f"{self.path} was started with other data: the samples or labels have changed since")
        index = np.array(split.labelled, dtype=np.int64)
        if not ((index >= 0) & (index < len(labels))).all() or (labels[index] < 0).any():
            raise UserError(f"{self.path / 'split.json'} is damaged: it names samples that have no label")

    def fitted_encoder(self) -> Encoder | None:
        """The encoder that was fitted to the pool; None if it was not."""
        if not (self.path / FITTED).exists():
            return None
        found = self.tensors(FITTED, "encoder", "train again")
        try:
            return Ngrams(**{name: tensor.numpy() for name, tensor in found.items()})
        except (TypeError, ValueError) as error:
            raise UserError(f"{self.path / FITTED} is damaged: {error}") from error

    def check_same_encoder(self, encoder: Encoder | None) -> None:
        """Raise if this is not the encoder that the run was trained with, as far as that is known."""
        if encoder is None or not (self.path / ENCODER).exists():
            return
        stored: Described = self._read_json(ENCODER, Described)
        if encoder.fingerprint != stored.fingerprint:
            remedy = f": pin its revision, {encoder.name}@{stored.revision}" if stored.revision else ""
            raise UserError(
                f"{self.path}: encoder {encoder.name} has other weights, or prepares samples otherwise, than the one "
                f"that the run was trained with{remedy}"
            )

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
        with self._explained():
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

    def shapes(self, name: str) -> dict[str, list[int]]:
        """The shapes of the tensors in a file, without reading them; {} if there is no such file."""
        path = self.path / name
        if not path.is_file():
            return {}
        try:
            if path.stat().st_size > MOST_TENSORS:
                raise UserError(f"{path} has more than {MOST_TENSORS:,} bytes: it is not of this run")
            with opened(path) as file:  # safetensors itself opens no path that is not UTF-8
                size = int.from_bytes(file.read(8), "little")
                header = typed(from_json(as_text(file.read(min(size, MOST_BYTES)))), dict[str, dict[str, Any]])
            entries = {key: entry for key, entry in header.items() if key != "__metadata__"}
            return {key: typed(entry.get("shape"), list[int]) for key, entry in entries.items()}
        except (OSError, Malformed) as error:
            raise UserError(f"{path} is damaged: {briefly(error)}") from error

    def tensors(self, name: str, what: str, remedy: str) -> dict[str, Tensor]:
        """The tensors in a file of the run; `what` it lacks if that is missing, and what to do then."""
        try:
            return load_tensors(read_bytes(self.path / name, MOST_TENSORS))
        except Malformed as error:
            raise UserError(f"{self.path / name} cannot be read: {error}") from error
        except OSError as error:
            raise UserError(f"{self.path} has no {what} ({name}): {remedy}") from error
        except SafetensorError as error:
            raise UserError(f"{self.path / name} is damaged: {briefly(error)}") from error

    @property
    def crossfit(self) -> tuple[int, float] | None:
        """How many folds of the labels were left out in turn, and the temperature by that; None if none were."""
        if not (self.path / CROSSFIT).exists():
            return None
        read: Crossfit = self._read_json(CROSSFIT, Crossfit)
        return read.folds, read.temperature

    @property
    def temperature(self) -> float:
        """That of the run's predictions."""
        return self.crossfit[1] if self.crossfit else 1.0

    def write_crossfit(self, folds: int, temperature: float) -> None:
        self._write_json(CROSSFIT, {"folds": folds, "temperature": temperature})

    def seconds_per_step(self) -> float | None:
        """How long a step took, evaluations aside; None if that was not recorded."""
        try:
            rows = read_json_lines(self.path / "timings.jsonl")
            return float(sum(row["stepping"] for row in rows) / sum(row["steps"] for row in rows))
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
            return None  # a kill may have left half a line

    def write_history(self, history: list[dict[str, Any]]) -> None:
        with atomic_write(self.path / "metrics.jsonl") as file:
            file.writelines(json.dumps(row) + "\n" for row in history)

    def history(self) -> list[dict[str, Any]]:
        """The evaluations so far."""
        try:
            rows: list[dict[str, Any]] = typed(read_json_lines(self.path / "metrics.jsonl"), list[dict[str, Any]])
            return rows
        except (OSError, Malformed) as error:
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

    def _read_json(self, name: str, kind: Any, most: int = MOST_BYTES) -> Any:
        """The content of a JSON file, which must be a `kind`."""
        try:
            return typed(read_json(self.path / name, most), kind)
        except OSError as error:
            raise UserError(f"cannot read {self.path / name}: {error}") from error
        except Malformed as error:
            raise UserError(f"{self.path / name} is damaged: {error}") from error


def _best_so_far(history: list[dict[str, Any]], step: int) -> bool:
    """Whether this step was evaluated, and more accurate than every evaluation before it."""
    accuracies = [row["accuracy"] for row in history if row.get("accuracy") is not None]
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
