"""Export a run's network to one ONNX file, which needs neither torch nor surelabel."""

import json
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

import surelabel
from surelabel import equations
from surelabel.data.batch import Task
from surelabel.inference.onnx_table import TableNetwork
from surelabel.inference.outputs import check_output
from surelabel.inference.trained_run import TrainedRun
from surelabel.models.encoders.base import Normalised, Preprocessing, TorchEncoder
from surelabel.models.gaussian_softmax import SPREAD, by_draws, closed_form, fixed_draws
from surelabel.models.heads import BayesianHead
from surelabel.models.laplace_head import LaplaceHead
from surelabel.models.layers_head import LayersHead, mean_and_std
from surelabel.models.members_head import MembersHead
from surelabel.models.network import Network
from surelabel.models.paws_head import PawsHead
from surelabel.models.prediction import Prediction
from surelabel.training.evaluate import fixed_sample
from surelabel.utils.errors import UserError, optional_import
from surelabel.utils.files import atomic_write
from surelabel.utils.onnx import runtime, session, traced
from surelabel.utils.rng import generator

CHECKED = 100  # real samples on which the file must agree with torch
TOLERANCE = 1e-5
TOLERANCE_WITH_ENCODER = 1e-4  # fifty layers deeper, in float32
Samples = dict[str, NDArray[Any]]  # by input name
COLUMNS = (
    "numbers: NaN if missing. categories: the index of the value in levels, from 0; the number of levels for any "
    "other value and if missing. An integer category is written without a decimal point. The model scales the columns"
)
RESIZE = "rotated as EXIF says; 8-bit RGB for three channels, grey for one; {interpolation} interpolation "
COVER = "and a centre crop to height × width (Pillow's ImageOps.fit)"
SQUASH = "to height × width, whatever the proportions (Pillow's resize)"
CROPPED = "; of larger pictures only the share {crop} of each side"


def export_onnx(run: TrainedRun, out: Path) -> float:
    """Write the evaluated network of a run to `out`; returns its largest difference from torch on real samples.

    The inputs are `images` [batch, C, H, W] as stored in the run's data, or the columns of a table; the outputs are
    `probabilities` [batch, K] and, for a head that averages, `std` [batch, K]. Nothing is written unless
    ONNX and torch agree to `TOLERANCE`.
    """
    with optional_import("export", "an ONNX file"):
        runtime()
        import onnxscript  # noqa: F401 - torch.onnx needs it, and would say so only after tracing
    check_output(out, [run])
    task, data = run.task, run.data
    encoder = None if run.config.train_encoder else _torch_encoder(run)
    module_of = None if encoder is None else deepcopy(encoder.module).cpu().float()
    network = Exported(deepcopy(run.network).cpu().float(), module_of).eval()
    source = data.train if data.test is None else data.test
    images = source.pictures(fixed_sample(source, CHECKED))
    module: nn.Module = network
    samples: Samples = {"images": images}
    plain = Preprocessing(0, task.offset, task.scale, run.form.scaling)
    preprocessing = _preprocessing(images.shape[1:], str(images.dtype), encoder.preprocessing if encoder else plain)
    if (encoding := run.form.encoding) is not None:
        module = TableNetwork(network, encoding)
        samples, preprocessing = module.decode(images), {"columns": module.describe(), "rule": COLUMNS}
    # The tracer would take a batch of one for a constant.
    two = tuple(torch.from_numpy(values[[0, 0]]) for values in samples.values())
    model = traced(module, two, [*samples], network.outputs, starred=isinstance(module, TableNetwork))
    _describe(model, task, network, preprocessing)
    content = model.SerializeToString()
    difference = _difference(module, session(content), samples)
    tolerance = TOLERANCE if run.encoder is None else TOLERANCE_WITH_ENCODER
    if not difference <= tolerance:
        raise UserError(
            f"the ONNX file would differ from torch by {difference:.3g}, more than {tolerance:g}, on samples of "
            f"{run.config.data}: not written. Try other versions of torch, onnxscript and onnxruntime"
        )
    with atomic_write(out, "wb") as file:
        file.write(content)
    return difference


def _torch_encoder(run: TrainedRun) -> TorchEncoder | None:
    if run.encoder is None or isinstance(run.encoder, TorchEncoder):
        return run.encoder
    raise UserError(
        f"{run.name}: encoder {run.config.encoder} is no torch network that the file could hold. Choose one of "
        "efficientnet, hf, timm, torchvision or open_clip"
    )


class Exported(nn.Module):
    """What the file computes: images [N, C, H, W] -> probabilities [N, K] and, if the head averages, their std [N, K].

    Of a Bayesian head both the closed form and the draws for uncertain images are computed for all, as a graph has no
    branches by image.
    """

    noise: Tensor
    weights: Tensor
    biases: Tensor
    covariances: Tensor
    support: Tensor
    votes: Tensor

    def __init__(self, network: Network, encoder: Normalised | None = None) -> None:
        super().__init__()
        self.network, self.encoder = network, encoder
        head = network.head
        if isinstance(head, BayesianHead):
            self.register_buffer("noise", fixed_draws(head.settings.samples, len(head.bias_mean)).float())
        if isinstance(head, LayersHead):
            weights, biases = head.layers(generator(0, "evaluation"))
            self.register_buffer("weights", weights.detach().contiguous())
            self.register_buffer("biases", biases.detach().contiguous())
        if isinstance(head, LaplaceHead):
            self.register_buffer("covariances", head.covariances)
        if isinstance(head, PawsHead):
            self.register_buffer("support", head.support.float().cpu())
            self.register_buffer("votes", F.one_hot(head.support_classes.cpu(), head.classes).float())

    @property
    def outputs(self) -> list[str]:
        has_std = isinstance(self.network.head, BayesianHead | LayersHead | MembersHead)
        return ["probabilities", "std"] if has_std else ["probabilities"]

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        predicted = self._prediction(images).at(self.network.temperature)
        return (predicted.probs,) if predicted.std is None else (predicted.probs, predicted.std)

    def _prediction(self, images: Tensor) -> Prediction:
        if self.encoder is not None:
            images = self.encoder(images)
        features, head = self.network.features(images), self.network.head
        if isinstance(head, BayesianHead):
            mean, std = head.moments(features)
            wide = std.amax(dim=-1, keepdim=True) > SPREAD
            both = zip(by_draws(mean, std, self.noise), closed_form(mean, std), strict=True)
            return Prediction(*(torch.where(wide, drawn, closed) for drawn, closed in both))
        if isinstance(head, LayersHead):
            return Prediction(*mean_and_std(features, self.weights, self.biases))
        if isinstance(head, LaplaceHead):
            return Prediction(head.probs(features, self.covariances))
        if isinstance(head, MembersHead):
            return Prediction(*head.mean_and_std(features))
        if isinstance(head, PawsHead):
            representations = head(features)[:, -1]
            return Prediction(
                equations.soft_nearest_neighbours(representations, self.support, self.votes, head.temperature)
            )
        return Prediction(head(features).softmax(dim=-1))


def _preprocessing(shape: tuple[int, ...], dtype: str, seen: Preprocessing) -> dict[str, Any]:
    """How to prepare images of this shape and dtype for the file."""
    how = (SQUASH if seen.scaling.squash else COVER) + (CROPPED if seen.scaling.crop < 1 else "")
    return {
        "shape": shape, "dtype": dtype, "offset": seen.mean, "scale": seen.std,
        "normalisation": "the model computes (image - offset) / scale per channel: give images as they are stored",
        "resize": f"{RESIZE}{how}".format(**asdict(seen.scaling)) if dtype == "uint8" else None,
    }  # fmt: skip


def _describe(model: Any, task: Task, module: Exported, preprocessing: dict[str, Any]) -> None:
    """Store class names, preprocessing and the meaning of the outputs as JSON in the model's metadata."""
    from onnx import helper

    # Added by the tracer, with source files and folders of this machine.
    for part in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        del part.metadata_props[:]
    head = module.network.head
    std = None
    if isinstance(head, BayesianHead):
        std = "std of each probability under the Gaussian of the last layer's outputs"
    if isinstance(head, LayersHead):
        std = f"std of each probability over {len(module.biases)} fixed linear last layers"
    if isinstance(head, MembersHead):
        std = f"std of each probability over {len(head.weight)} members of an ensemble"
    metadata = {
        "classes": task.classes, "preprocessing": preprocessing, "std": std,
        "surelabel": surelabel.__version__,
    }  # fmt: skip
    helper.set_model_props(model, {key: json.dumps(value, ensure_ascii=False) for key, value in metadata.items()})


@torch.no_grad()
def _difference(module: nn.Module, runtime: Any, samples: Samples) -> float:
    """The largest difference between torch and ONNX, with batches of one sample and of all."""
    largest = 0.0
    for count in (1, CHECKED):
        batch = {name: values[:count] for name, values in samples.items()}
        given = runtime.run(None, batch)
        for ours, theirs in zip(module(*map(torch.from_numpy, batch.values())), given, strict=True):
            largest = float(np.maximum(largest, np.abs(ours.numpy() - theirs).max()))  # keeps a NaN, unlike max()
    return largest
