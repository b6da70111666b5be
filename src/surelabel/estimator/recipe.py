"""The config that the estimator's parameters stand for."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from surelabel.config.encoders import DEFAULT, NGRAMS, check_name
from surelabel.config.recipes import embeddings, pictures, recipe, table, texts, trained_encoder
from surelabel.config.run import CUSTOM, RunConfig, Views
from surelabel.config.settings import with_settings
from surelabel.config.validate import validate
from surelabel.data.probe import suit_encoder
from surelabel.training import build
from surelabel.utils.errors import UserError

if TYPE_CHECKING:
    from surelabel.estimator.classifier import SureLabelClassifier

SMALL_IMAGE = 16  # pixels a side; smaller images get a smaller network, without stride in the stem


def config_of(model: "SureLabelClassifier", shape: tuple[int, ...], count: int) -> RunConfig:
    """The recipe for so many samples of this shape, changed by the parameters."""
    settings = dict(model.settings or {})
    if "encoder" in settings:
        raise UserError(f"encoder is a parameter of its own: SureLabelClassifier(encoder={settings['encoder']!r})")
    encoder = _encoder(model, shape, count)
    if model.kind == "texts":
        config = texts("sure" if model.method == "auto" else model.method, CUSTOM, encoder=encoder)
    elif len(shape) == 1:
        of_rows = embeddings if model.kind == "embeddings" else table
        config = of_rows("sure" if model.method == "auto" else model.method, CUSTOM)
    elif (encoder != "none" or model.method == "sure") and not settings.get("train_encoder"):
        config = pictures("sure" if model.method == "auto" else model.method, CUSTOM, encoder=encoder)
    else:
        method = "bam-uda" if model.method == "auto" else model.method
        further = settings.get("train_encoder") and encoder != "none"
        config = trained_encoder(method, CUSTOM, encoder=encoder) if further else recipe(method, CUSTOM, "all")
        config = replace(config, views=Views() if model.mirror else Views("shift", "shift", "strong-shift"))
        if min(shape[1:]) < SMALL_IMAGE and not further:
            config = replace(config, steps=300, network=replace(config.network, name="wrn-10-1", stem_stride=1))
    threads = None if config.small else torch.get_num_threads()
    config = replace(config, seed=_seed(model.random_state), device=model.device, threads=threads)
    if model.steps is not None:
        config = replace(config, steps=model.steps)
    # There is no test set to evaluate on during training.
    config = replace(config, evaluation=replace(config.evaluation, every=config.steps))
    config = with_settings(config, settings) if settings else validate(config)
    return build.resolve(replace(config, out=None if model.out is None else str(model.out)))


def _encoder(model: "SureLabelClassifier", shape: tuple[int, ...], count: int) -> str:
    """The pretrained network that describes the images: the one asked for, or one where the default method needs it."""
    encoder = CUSTOM if callable(model.encoder) else model.encoder
    if encoder != "auto":
        check_name(encoder)
    if model.kind == "texts":
        return NGRAMS if encoder == "auto" else encoder
    if len(shape) == 1:
        if encoder not in ("auto", "none"):
            raise UserError(f"encoder {encoder} describes images, and X has rows: leave it out")
        return "none"
    if encoder != "auto":
        return encoder
    if model.method == "sure":
        return DEFAULT
    own_network = "network.name" in (model.settings or {})
    return DEFAULT if model.method == "auto" and not own_network and suit_encoder(shape, count) else "none"


def _seed(random_state: int | np.random.RandomState | None) -> int:
    """The seed; for None one from the operating system, without using numpy's global generator."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return int(random_state)
