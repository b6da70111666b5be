"""An encoder in an ONNX file: a model that takes pictures [n, C, H, W]."""

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from surelabel.data.images.scaling import Interpolation, Scaling
from surelabel.models.encoders.base import Batch, Encoder, Preprocessing, dimensions_of
from surelabel.utils.errors import UserError
from surelabel.utils.onnx import session

TYPES = {"tensor(uint8)": np.uint8, "tensor(float)": np.float32, "tensor(float16)": np.float16}


def _three(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(isinstance(one, int | float) for one in value)


METADATA: dict[str, Callable[[Any], bool]] = {
    "side": lambda value: isinstance(value, int) and value > 0,
    "mean": _three,
    "std": lambda value: _three(value) and min(value) > 0,
    "crop": lambda value: isinstance(value, int | float) and 0 < value <= 1,
    "interpolation": lambda value: value in get_args(Interpolation),
    "squash": lambda value: isinstance(value, bool),
}


def opened(name: str, rest: str, revision: str | None, side: int | None, offline: bool, device: str) -> Encoder:
    path = Path(rest)
    if not path.is_file():
        raise UserError(f"encoder {name}: there is no file {path}")
    return OnnxEncoder(name, path, side)


class OnnxEncoder(Encoder):
    """A model in onnxruntime. What its input does not say of the pictures, its metadata do (docs/encoders.md)."""

    reads = "pictures"
    preprocessing: Preprocessing

    def __init__(self, name: str, path: Path, side: int | None = None) -> None:
        self.name = name
        try:
            self.session = session(path, torch.get_num_threads())
        except Exception as error:  # whatever onnxruntime raises of a damaged file
            raise UserError(f"encoder {name} cannot be loaded: {error}") from error
        self._read_input(side)
        self.output = self._pooled_output()
        side = self.preprocessing.side
        try:
            self.dimensions = dimensions_of(name, self(np.zeros((2, 3, side, side), np.uint8)).shape)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"encoder {name} cannot read pictures of {side} × {side} pixels: {error}") from error
        digest = blake2b(repr(self.preprocessing).encode(), digest_size=16)
        for part in sorted(path.parent.glob(f"{path.name}*")):  # large weights lie in a file beside it
            digest.update(part.read_bytes())
        self.fingerprint = digest.hexdigest()

    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        pictures: NDArray[Any] = np.asarray(batch)
        if pictures.shape[1] == 1:
            pictures = pictures.repeat(3, axis=1)
        if self.dtype != np.uint8:
            seen = self.preprocessing
            pictures = (pictures - np.reshape(seen.mean, (1, 3, 1, 1))) / np.reshape(seen.std, (1, 3, 1, 1))
        pictures = pictures.astype(self.dtype)
        parts = [pictures[[row]] for row in range(len(pictures))] if self.one_by_one else [pictures]
        found = [self.session.run([self.output], {self.input: part})[0] for part in parts]
        return np.concatenate(found).astype(np.float32)

    def _read_input(self, side: int | None) -> None:
        """Learn from the model's only input, and from its metadata, how pictures are prepared."""
        inputs = self.session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in TYPES:
            taken = ", ".join(f"{one.name} {one.type} {one.shape}" for one in inputs)
            raise UserError(
                f"encoder {self.name} takes {taken}: it must take pictures [n, 3, height, width] and no more"
            )
        (given,) = inputs
        self.input, self.dtype = given.name, TYPES[given.type]
        batch, channels, height, width = (length if isinstance(length, int) else None for length in given.shape)
        if channels not in (3, None) or batch not in (1, None) or height != width:
            raise UserError(
                f"encoder {self.name} takes pictures {given.shape}: it must take squares [n, 3, side, side], any "
                "number of them or one at a time"
            )
        self.one_by_one = batch == 1
        said = self._metadata()
        side = height or side or said.get("side")
        if side is None:
            raise UserError(f"encoder {self.name} takes pictures of any size: set image_size, or its metadata side")
        if self.dtype != np.uint8 and not {"mean", "std"} <= said.keys():
            raise UserError(
                f"encoder {self.name} takes normalised pictures, and does not say by what: add the metadata mean and "
                "std to the file (docs/encoders.md)"
            )
        mean, std = (tuple(255.0 * value for value in said.get(key, (0.0,) * 3)) for key in ("mean", "std"))
        scaling = {key: said[key] for key in ("crop", "interpolation", "squash") if key in said}
        self.preprocessing = Preprocessing(side, mean, std, Scaling(**scaling))

    def _metadata(self) -> dict[str, Any]:
        """What the file says of its pictures: JSON values by name."""
        said: dict[str, Any] = {}
        for key, valid in METADATA.items():
            text = self.session.get_modelmeta().custom_metadata_map.get(key)
            if text is not None:
                try:
                    said[key] = json.loads(text)
                except ValueError:
                    said[key] = text
                if not valid(said[key]):
                    raise UserError(f"encoder {self.name}: its metadata {key} cannot be {text} (docs/encoders.md)")
        return said

    def _pooled_output(self) -> str:
        """The first output that has one row for each picture."""
        outputs = self.session.get_outputs()
        for output in outputs:
            if len(output.shape) == 2:
                return str(output.name)
        shapes = ", ".join(f"{output.name} {output.shape}" for output in outputs)
        raise UserError(f"encoder {self.name} has no pooled output [n, D], only {shapes}: choose another")
