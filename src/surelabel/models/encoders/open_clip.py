"""Encoders of open_clip: the image towers of its models, by name and tag."""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from surelabel.data.images.scaling import Scaling
from surelabel.models.encoders import hub
from surelabel.models.encoders.base import Preprocessing, TorchEncoder
from surelabel.utils.errors import UserError, suggestion


class Tower(nn.Module):
    """Normalised colours [N, 3, H, W] -> the image's place [N, D] in the space that it shares with texts."""

    def __init__(self, visual: nn.Module) -> None:
        super().__init__()
        self.visual = visual

    def forward(self, images: Tensor) -> Tensor:
        found = self.visual(images)
        pooled: Tensor = found[0] if isinstance(found, tuple) else found  # some give their tokens too
        return pooled


def opened(name: str, rest: str, revision: str | None, side: int | None, offline: bool, device: str) -> TorchEncoder:
    import open_clip

    model, _, tag = rest.partition(":")
    if model not in (known := open_clip.list_models()):
        raise UserError(f"encoder {name}: open_clip has no model {model!r}.{suggestion(model, known)}")
    weights, commit = Path(tag), None
    said: dict[str, Any] = {}
    if not weights.is_file():
        weights, said, commit = _of_tag(name, model, tag, revision, offline)
    hub.chosen_files(name, [weights.name], [weights.name] if weights.suffix == ".safetensors" else [".safetensors"])
    changes = {"force_quick_gelu": bool(said.get("quick_gelu")), "force_preprocess_cfg": said, "force_image_size": side}
    try:
        made = open_clip.create_model(model, pretrained=str(weights), **changes)
    except Exception as error:  # of a file that does not fit
        raise UserError(f"encoder {name} cannot be loaded: {error}") from error
    encoder = TorchEncoder(name, Tower(made.visual), _preprocessing(name, made.visual.preprocess_cfg), device)
    encoder.revision = commit
    return encoder


def _of_tag(name: str, model: str, tag: str, revision: str | None, offline: bool) -> tuple[Path, dict[str, Any], str]:
    """The weights that a tag names, what it says of them, and their commit."""
    import open_clip

    said = open_clip.get_pretrained_cfg(model, tag)
    if not said:
        known = open_clip.list_pretrained_tags_by_model(model)
        raise UserError(f"encoder {name}: {model} has no tag {tag!r}.{suggestion(tag, known)}")
    if not said.get("hf_hub"):
        raise UserError(f"encoder {name}: the weights of {tag} are not on the hub: choose another tag")
    repository, _, file = said["hf_hub"].rpartition("/")
    wanted = dict.fromkeys([str(Path(file or "model").with_suffix(".safetensors")), "open_clip_model.safetensors"])
    folder, commit = hub.model_folder(name, repository, revision, offline, [*wanted, "model.safetensors"])
    first = hub.chosen_files(name, [path.name for path in folder.iterdir()], [*wanted, "model.safetensors"])[0]
    return folder / first, said, commit


def _preprocessing(name: str, said: dict[str, Any]) -> Preprocessing:
    size = said["size"]
    side = size if isinstance(size, int) else size[0]
    if said["resize_mode"] == "longest" or (not isinstance(size, int) and size[0] != size[1]):
        raise UserError(f"encoder {name} prepares pictures by {said['resize_mode']} at size {size}: not supported")
    mean, std = (tuple(255.0 * value for value in said[key]) for key in ("mean", "std"))
    return Preprocessing(side, mean, std, Scaling(1.0, said["interpolation"], squash=said["resize_mode"] == "squash"))
