"""The folder that a run leaves behind: what was asked for, what was measured, and what was learnt."""

import json
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
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

import surelabel
from surelabel.config.run import RunConfig
from surelabel.config.settings import CONFIG, read_run, write_yaml
from surelabel.data.batch import Task
from surelabel.data.tables.encoding import Encoding
from surelabel.training.checkpoints import Damaged, read_checkpoint, write_checkpoint
from surelabel.training.state import TrainState
from surelabel.utils.errors import Busy, FolderExists, UserError
from surelabel.utils.files import atomic_write

CHECKPOINT, PREVIOUS, BEST = "checkpoint.pt", "checkpoint-previous.pt", "checkpoint-best.pt"
AVERAGED, RAW = "weights.safetensors", "weights-raw.safetensors"
# What is written while a run goes on.
WRITTEN = (CHECKPOINT, PREVIOUS, BEST, AVERAGED, RAW, "metrics.jsonl", "result.json")


class RunFolder:
    """Reads and writes the files of one run.

    config.yaml        the complete configuration
    task.json          shape, classes and normalisation of the samples
    table.json         of a table: how its columns become numbers
    split.json         the indices of the labelled training samples, and a fingerprint of the data
    environment.json   versions, commit, threads
    metrics.jsonl      one line an evaluation
    timings.jsonl      images per second and seconds by part, one line an evaluation
    checkpoint.pt      all of the training state; checkpoint-previous.pt is the one before, checkpoint-best.pt the one
                       with the most accurate evaluation
    weights*.safetensors  the averaged weights (those evaluated) and the raw ones
    result.json        the figures at the end

    A run on own data ends with predictions.csv, report.html and perhaps estimate.json beside these (`conclude`).
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def check_absent(self) -> None:
        """Raise where the folder already holds something."""
        with self._written():
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise FolderExists(self.path, begun=(self.path / CONFIG).exists())

    def check_writable(self) -> None:
        """Raise where the folder could not be made: before the data are read, which may take long."""
        with self._written():
            parents = self.path.absolute().parents
            there = next((place for place in parents if place.exists()), parents[-1])
            # Permissions alone do not tell: to root they say yes on a file system that is read-only.
            with tempfile.TemporaryDirectory(prefix=f".{self.path.name}.", dir=there):
                pass

    def create(
        self, config: RunConfig, task: Task, data: str, labelled: NDArray[np.int64], table: Encoding | None = None
    ) -> None:
        """Make the folder with what is known before the first step: whole, or, if killed, not at all."""
        self.check_absent()
        with self._written():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{self.path.name}.", dir=self.path.parent) as temporary:
                # One level deeper, so that the temporary folder itself is still there to be removed.
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
    def _written(self) -> Iterator[None]:
        """Within this block, what keeps the folder from being made is told in words."""
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
        """How the columns of the training table became numbers; None where the data were no table."""
        if not (self.path / "table.json").exists():
            return None
        with self._damage("table.json") as read:
            return Encoding.from_json(read)

    def environment(self) -> dict[str, Any]:
        """What the run was begun with."""
        with self._damage("environment.json") as read:
            return {"torch": str(read["torch"]), "processor": read.get("processor")}

    def labelled(self) -> NDArray[np.int64]:
        with self._damage("split.json") as read:
            return np.array(read["labelled"], dtype=np.int64)

    def check_same_data(self, task: Task, data: str) -> None:
        """Raise where the data are no longer those that the run was begun with."""
        with self._damage("split.json") as read:
            # How it is normalised follows from the data, and features are not the same to the bit everywhere.
            components = self.task()
            if (task.shape, task.classes, task.dtype, data) != (
                components.shape,
                components.classes,
                components.dtype,
                read["data"],
            ):
                raise UserError(f"{self.path} was begun with other data: the samples or labels have changed since")

    @property
    def has_checkpoint(self) -> bool:
        return (self.path / CHECKPOINT).exists() or (self.path / PREVIOUS).exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Within this block no other process can train in this folder; what a killed one left half written goes."""
        lock = FileLock(self.path / ".lock", timeout=0)
        try:
            with lock:
                self._sweep()
                yield
        except Timeout as error:
            raise Busy(f"another process is training in {self.path}: wait for it, or stop it") from error

    def _sweep(self) -> None:
        """Remove what `atomic_write` and `_link` had begun when they were killed."""
        for half in self.path.glob(".*.*"):
            if half.name.startswith(tuple(f".{name}." for name in WRITTEN)):
                shutil.rmtree(half) if half.is_dir() else half.unlink()

    def save(self, state: TrainState) -> None:
        """Write a checkpoint, keeping the one before it and the best one, and the weights."""
        newest = self.path / CHECKPOINT
        if newest.exists():
            newest.replace(self.path / PREVIOUS)
        write_checkpoint(newest, state.state_dict())
        if _best_so_far(state.history, state.step):
            _link(newest, self.path / BEST)
        self.save_weights(AVERAGED, state.evaluated.state_dict())
        self.save_weights(RAW, state.network.state_dict())
        self.write_history(state.history)

    def stored_state(self) -> tuple[dict[str, Any], str | None]:
        """What the newest checkpoint that can be read holds, and words to say where that is not the newest.

        Without any checkpoint, nothing.
        """
        damaged: list[str] = []
        for checkpoint in (self.path / name for name in (CHECKPOINT, PREVIOUS)):
            if not checkpoint.exists():
                continue
            try:
                stored = read_checkpoint(checkpoint)
            except Damaged as error:
                damaged.append(str(error))
                continue
            step = stored["step"]
            return stored, f"{damaged[0]}; going on from {checkpoint}, step {step}" if damaged else None
        if damaged:
            raise UserError(f"{'; '.join(damaged)}: there is nothing to go on from")
        return {}, None

    def save_weights(self, name: str, weights: dict[str, Tensor]) -> None:
        with atomic_write(self.path / name, "wb") as file:
            file.write(save_tensors({key: tensor.detach().cpu().contiguous() for key, tensor in weights.items()}))

    def weights(self, name: str = AVERAGED) -> dict[str, Tensor]:
        """The averaged weights, or, with `RAW`, those of the last step."""
        try:
            return load_tensors((self.path / name).read_bytes())
        except OSError as error:
            raise UserError(
                f"{self.path} has no weights yet ({name}): let the run reach its first evaluation"
            ) from error
        except SafetensorError as error:
            raise UserError(f"{self.path / name} is damaged: {error}") from error

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

    def _read_json(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {self.path / name}: {error}") from error

    @contextmanager
    def _damage(self, name: str) -> Iterator[Any]:
        """Within this block, what is missing in the content of this file is told as damage to it."""
        try:
            yield self._read_json(name)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{self.path / name} is damaged: {error!r}") from error


def _best_so_far(history: list[dict[str, Any]], step: int) -> bool:
    """Whether this step was evaluated, and more accurate than every evaluation before it."""
    accuracies = [row["accuracy"] for row in history if "accuracy" in row]
    evaluated = bool(accuracies) and history[-1]["step"] == step
    return evaluated and accuracies[-1] > max(accuracies[:-1], default=-1.0)


def _link(source: Path, target: Path) -> None:
    """The same file under another name: checkpoints are replaced, never changed, so that nothing is copied."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as temporary:
        half = Path(temporary, target.name)
        try:
            half.hardlink_to(source)
        except OSError:  # a file system without links
            shutil.copyfile(source, half)
        half.replace(target)


def commit() -> str | None:
    """The commit that this code was checked out from, if it was."""
    here = Path(__file__).parent
    try:
        # The file must be tracked: an installed package may lie in the checkout of another project.
        for question in (["ls-files", "--error-unmatch", __file__], ["describe", "--always", "--dirty", "--abbrev=40"]):
            answer = subprocess.run(["git", "-C", str(here), *question], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def environment() -> dict[str, Any]:
    """What a run is made with."""
    return {
        "surelabel": surelabel.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": torch.backends.cpu.get_cpu_capability(),  # whose instructions decide how sums round
        "threads": torch.get_num_threads(),
    }
