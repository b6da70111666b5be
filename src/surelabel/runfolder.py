"""The folder that a run leaves behind: what was asked for, what was measured, and what was learnt."""

import json
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

import surelabel
from surelabel.config import Run
from surelabel.errors import UserError
from surelabel.files import atomic_write
from surelabel.settings import read_run, write_yaml
from surelabel.state import TrainState
from surelabel.types import Task

CHECKPOINT, PREVIOUS = "checkpoint.pt", "checkpoint-previous.pt"
AVERAGED, RAW = "weights.safetensors", "weights-raw.safetensors"


class RunFolder:
    """Reads and writes the files of one run.

    config.yaml        the complete configuration
    task.json          shape, classes and normalisation of the images
    split.json         the indices of the labelled training samples
    environment.json   versions, commit, threads
    metrics.jsonl      one line an evaluation
    timings.jsonl      images per second and seconds by part, one line an evaluation
    checkpoint.pt      all of the training state; checkpoint-previous.pt is the one before
    weights*.safetensors  the averaged weights (those evaluated) and the raw ones
    result.json        the figures at the end
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def refuse_existing(self) -> None:
        """Raise where the folder already holds something."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise UserError(
                f"{self.path} exists already. Go on with that run by --resume {self.path}, "
                "choose another --out, or remove it"
            )

    def create(self, run: Run, task: Task, labelled: NDArray[np.int64]) -> None:
        """Make the folder and write what is known before the first step."""
        self.refuse_existing()
        self._write_json("task.json", asdict(task))
        self._write_json("split.json", {"labelled": labelled.tolist()})
        self._write_json("environment.json", environment())
        write_yaml(run, self.path / "config.yaml")

    def run(self) -> Run:
        if not (self.path / "config.yaml").is_file():
            raise UserError(f"{self.path} is not a run folder: it has no config.yaml")
        return read_run(self.path / "config.yaml")

    def task(self) -> Task:
        read = self._read_json("task.json")
        try:
            shape = tuple(int(number) for number in read["shape"])
            if len(shape) != 3:
                raise ValueError("shape needs three numbers")
            numbers = {key: tuple(float(number) for number in read[key]) for key in ("offset", "scale")}
            return Task(shape, tuple(str(name) for name in read["classes"]), **numbers)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{self.path / 'task.json'} is damaged: {error}") from error

    def labelled(self) -> NDArray[np.int64]:
        return np.array(self._read_json("split.json")["labelled"], dtype=np.int64)

    def save(self, state: TrainState) -> None:
        """Write a checkpoint, keeping the one before it, and the weights."""
        newest = self.path / CHECKPOINT
        if newest.exists():
            newest.replace(self.path / PREVIOUS)
        with atomic_write(newest, "wb") as file:
            torch.save(state.state_dict(), file)
        self.save_weights(AVERAGED, state.averaged.state_dict())
        self.save_weights(RAW, state.network.state_dict())
        self.write_history(state.history)

    def load(self, state: TrainState) -> None:
        """Bring the state to the newest checkpoint; without one it stays at the beginning."""
        found = [self.path / name for name in (CHECKPOINT, PREVIOUS) if (self.path / name).exists()]
        if not found:
            return
        try:
            state.load_state_dict(torch.load(found[0], map_location="cpu", weights_only=True))
        except Exception as error:
            raise UserError(f"{found[0]} cannot be read ({error}); the one before it is {PREVIOUS}") from error
        self.write_history(state.history)

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

    def add_timing(self, row: dict[str, Any]) -> None:
        with (self.path / "timings.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

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


def environment() -> dict[str, Any]:
    """The versions that a run was made with, and, from a checkout, the commit."""
    answer = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {
        "surelabel": surelabel.__version__,
        "commit": answer.stdout.strip() or None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
    }
