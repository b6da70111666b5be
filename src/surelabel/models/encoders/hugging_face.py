"""Encoders of transformers: networks for pictures, image towers of models like CLIP, and sentence encoders."""

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from surelabel.data.images.scaling import Scaling
from surelabel.models.encoders import hub
from surelabel.models.encoders.base import Batch, Encoder, Preprocessing, TorchEncoder, dimensions_of, fingerprint_of
from surelabel.utils.errors import UserError

WEIGHTS = ("model.safetensors",)
SETTINGS = ("*.json", "*.txt", "*.model")  # of the model, and its words
# Nothing is looked up elsewhere, and no code of the model's is run.
SAFE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "class token"}
SILENT = 50  # of logging
READ_MODULES = ("Transformer", "Pooling", "Normalize")


def opened(name: str, rest: str, revision: str | None, side: int | None, offline: bool, device: str) -> Encoder:
    folder, commit = Path(rest), None
    if folder.is_dir():
        hub.chosen_files(name, [file.name for file in folder.iterdir()], WEIGHTS)
    else:
        folder, commit = hub.model_folder(name, rest, revision, offline, WEIGHTS, SETTINGS)
    encoder: Encoder
    with _explained(name):
        if (folder / "preprocessor_config.json").exists():
            encoder = _of_pictures(name, folder, side, device)
        elif (folder / "tokenizer_config.json").exists():
            encoder = SentenceEncoder(name, folder, device)
        else:
            raise UserError(
                f"encoder {name}: nothing says how samples are prepared. Add a preprocessor_config.json (of pictures) "
                "or a tokenizer_config.json (of texts) to the folder"
            )
    encoder.revision = commit
    return encoder


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Silence transformers, and turn whatever it raises of a model's files into a `UserError`."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(SILENT)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"encoder {name} cannot be loaded: {str(error).strip() or error!r}") from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _loaded(folder: Path) -> tuple[Any, set[str]]:
    """The model without its classifier, and the names of weights that the folder lacks."""
    from transformers import AutoModel

    # In 32 bits, whatever it is stored in: on a CPU half precision is slower.
    model, found = AutoModel.from_pretrained(
        folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True, **SAFE
    )
    return model, set(found["missing_keys"])


def _of_pictures(name: str, folder: Path, side: int | None, device: str) -> TorchEncoder:
    model, lacks = _loaded(folder)
    # Where only a classifier was stored, the pooling is not trained, and what the classifier saw is the class token.
    pooler = {key for key in lacks if "pooler." in key}
    if rest := sorted(lacks - pooler):
        raise UserError(f"encoder {name}: its file of weights lacks {rest[0]}: choose a complete model")
    preprocessing = _preprocessing(name, folder)
    other_side = side is not None and side != preprocessing.side
    network = Pooled(name, getattr(model, "vision_model", model), bool(pooler), other_side)
    return TorchEncoder(name, network, preprocessing.at(side), device)


class Pooled(nn.Module):
    """Normalised colours [N, 3, H, W] -> the pooled output [N, D] of a network for pictures."""

    def __init__(self, name: str, tower: nn.Module, class_token: bool, other_side: bool) -> None:
        super().__init__()
        self.name, self.tower, self.class_token = name, tower, class_token
        # Of a network that knows its positions: it can take other sizes, by interpolation.
        can = "interpolate_pos_encoding" in inspect.signature(tower.forward).parameters
        self.given = {"interpolate_pos_encoding": True} if can and other_side else {}

    def forward(self, images: Tensor) -> Tensor:
        found = self.tower(pixel_values=images, **self.given)
        pooled: Tensor | None = getattr(found, "pooler_output", None)
        if self.class_token:
            pooled = found.last_hidden_state[:, 0]
        if pooled is None:
            raise UserError(
                f"encoder {self.name}, a {type(self.tower).__name__}, has no pooled output: choose a model that "
                "describes a whole picture by one row of numbers"
            )
        return pooled.flatten(1)


def _preprocessing(name: str, folder: Path) -> Preprocessing:
    """What preprocessor_config.json says, with the defaults of its kind."""
    from transformers import AutoImageProcessor

    said = AutoImageProcessor.from_pretrained(folder, **SAFE)  # type: ignore[no-untyped-call]
    side, crop, squash = _fitting(name, said)
    factor = said.rescale_factor if said.do_rescale else 1.0
    mean, std = (said.image_mean, said.image_std) if said.do_normalize else ((0.0,) * 3, (1.0,) * 3)
    interpolation: Any = Image.Resampling(said.resample).name.lower()
    return Preprocessing(
        side,
        tuple(value / factor for value in mean),
        tuple(value / factor for value in std),
        Scaling(crop, interpolation, squash),
    )


def _fitting(name: str, said: Any) -> tuple[int, float, bool]:
    """The side of the pictures, the share of theirs that is seen, and whether their proportions are given up."""
    size = {key: length for key, length in dict(said.size).items() if length is not None}
    cut = dict(said.crop_size) if getattr(said, "do_center_crop", False) else {}
    if cut.get("height") != cut.get("width") or size.get("height") != size.get("width"):
        raise UserError(f"encoder {name} takes pictures of size {cut or size}: it must be a square")
    scaled = size.get("shortest_edge", size.get("height"))
    if scaled is None:
        raise UserError(f"encoder {name} takes pictures of any size, {size}, which is not supported: choose another")
    crop = getattr(said, "crop_pct", None)
    if crop is not None and "shortest_edge" in size:  # as ConvNeXt's are scaled
        return (scaled, crop, False) if scaled < 384 else (scaled, 1.0, True)
    side = cut.get("height", scaled)
    return side, min(1.0, side / scaled), "height" in size


class SentenceEncoder(Encoder):
    """Texts -> features: the last layer's mean over a text's tokens, unless the model's own files say otherwise."""

    reads = "texts"
    preprocessing = None

    def __init__(self, name: str, folder: Path, device: str) -> None:
        from transformers import AutoTokenizer

        model, lacks = _loaded(folder)
        if rest := sorted(key for key in lacks if "pooler." not in key):
            raise UserError(f"encoder {name}: its file of weights lacks {rest[0]}: choose a complete model")
        self.name, self.device = name, device
        network = model.get_encoder() if model.config.is_encoder_decoder else model
        self.network = network.eval().requires_grad_(False).to(device)
        self.words = AutoTokenizer.from_pretrained(folder, **SAFE)
        self.pooling, self.normalised = _pooling(name, folder)
        self.length = _length(folder, self.words.model_max_length, model.config)
        self.dimensions = dimensions_of(name, self(["one", "two words"]).shape)
        words = [path.read_bytes() for path in sorted(folder.glob("*")) if "token" in path.name or "vocab" in path.name]
        prepared = blake2b(b"".join(words), digest_size=8).hexdigest()
        self.fingerprint = fingerprint_of(self.network, (prepared, self.pooling, self.normalised, self.length))

    def __call__(self, batch: Batch) -> NDArray[np.float32]:
        given = self.words(list(batch), padding=True, truncation=True, max_length=self.length, return_tensors="pt")
        given = {key: tensor.to(self.device) for key, tensor in given.items()}
        with torch.inference_mode():
            tokens: Tensor = self.network(**given).last_hidden_state  # [n, tokens, D]
        if self.pooling == "mean":
            mask = given["attention_mask"][..., None].to(tokens.dtype)
            found = (tokens * mask).sum(1) / mask.sum(1).clamp_min(1)
        else:
            found = tokens[:, 0]
        return (F.normalize(found, dim=-1) if self.normalised else found).float().cpu().numpy()


def _pooling(name: str, folder: Path) -> tuple[str, bool]:
    """How a sentence encoder pools its tokens, and whether the result is scaled to length 1."""
    if not (folder / "modules.json").exists():
        return "mean", False
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    if unknown := [kind for kind in kinds if kind not in READ_MODULES]:
        raise UserError(f"encoder {name} has a part {unknown[0]}, and only {', '.join(READ_MODULES)} are read")
    chosen = ["mean"]
    if "Pooling" in kinds:
        path = folder / modules[kinds.index("Pooling")]["path"] / "config.json"
        said = json.loads(path.read_text(encoding="utf-8"))
        chosen = [key for key, value in said.items() if key.startswith("pooling_mode_") and value is True]
        chosen = [POOLINGS.get(key, key) for key in chosen] or [said.get("pooling_mode", "mean")]
    if len(chosen) != 1 or chosen[0] not in POOLINGS.values():
        raise UserError(
            f"encoder {name} pools by {' and '.join(chosen)}, and only by {' and '.join(POOLINGS.values())} is read"
        )
    return chosen[0], "Normalize" in kinds


def _length(folder: Path, most: int, config: Any) -> int:
    """The number of tokens after which a text is cut off."""
    own = folder / "sentence_bert_config.json"
    lengths = [most, getattr(config, "max_position_embeddings", None) or most]
    if own.exists():
        lengths.append(json.loads(own.read_text(encoding="utf-8")).get("max_seq_length") or most)
    return min(512, *lengths) if min(lengths) > 100_000 else min(lengths)
