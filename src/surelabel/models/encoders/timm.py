"""Encoders of timm: its models by name, or one in a folder as timm saves it."""

from pathlib import Path
from typing import Any

from surelabel.data.images.scaling import Scaling
from surelabel.models.encoders import hub
from surelabel.models.encoders.base import Preprocessing, TorchEncoder
from surelabel.utils.errors import UserError, suggestion

WEIGHTS = ("model.safetensors", "open_clip_model.safetensors")


def opened(name: str, rest: str, revision: str | None, side: int | None, offline: bool, device: str) -> TorchEncoder:
    import timm

    folder, commit = Path(rest), None
    if folder.is_dir():
        source = f"local-dir:{rest}"
    else:
        source = rest
        repository = _repository(name, rest)
        folder, commit = hub.model_folder(name, repository, revision, offline, WEIGHTS)
    weights = folder / hub.chosen_files(name, [file.name for file in folder.iterdir()], WEIGHTS)[0]
    # This very file, read as safetensors, whatever else the model's own settings name.
    file = {"file": str(weights), "source": "", "custom_load": False}
    try:
        model = timm.create_model(source, pretrained=True, pretrained_cfg_overlay=file, num_classes=0)
        if side is not None and hasattr(model, "set_input_size"):
            model.set_input_size(img_size=side)
    except Exception as error:  # of files that do not fit
        raise UserError(f"encoder {name} cannot be loaded: {error}") from error
    encoder = TorchEncoder(name, model, _preprocessing(name, model).at(side), device)
    encoder.revision = commit
    return encoder


def _repository(name: str, model: str) -> str:
    """Where the weights of a model are on the hub."""
    import timm

    known = timm.list_models()
    if timm.is_model(model.partition(".")[0]):
        known = timm.list_pretrained(f"{model.partition('.')[0]}.*")
    try:
        found = timm.get_pretrained_cfg(model)
    except RuntimeError:  # of a tag that it does not know
        found = None
    if found is None:
        raise UserError(f"encoder {name}: timm has no model {model!r}.{suggestion(model, known)}")
    if not found.hf_hub_id:
        raise UserError(
            f"encoder {name}: timm has no weights of it on the hub: choose a model of timm.list_pretrained()"
        )
    return str(found.hf_hub_id)


def _preprocessing(name: str, model: Any) -> Preprocessing:
    from timm.data import resolve_model_data_config

    said = resolve_model_data_config(model)
    (_, height, width), how = said["input_size"], said["crop_mode"]
    if height != width or how not in ("center", "squash"):
        raise UserError(f"encoder {name} prepares pictures by {how} of {height} × {width}: only squares are supported")
    # "random" is of training.
    interpolation: Any = "bicubic" if said["interpolation"] == "random" else said["interpolation"]
    mean, std = (tuple(255.0 * value for value in said[key]) for key in ("mean", "std"))
    return Preprocessing(height, mean, std, Scaling(said["crop_pct"], interpolation, squash=how == "squash"))
