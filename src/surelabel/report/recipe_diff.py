"""The settings of a run that differ from its recipe."""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from surelabel.config.recipes import RELEASED, SIZES, pictures, recipe, texts, trained_encoder
from surelabel.config.run import OF_THE_MACHINE, RunConfig
from surelabel.config.settings import flatten, with_settings
from surelabel.training import build
from surelabel.utils.errors import UserError

# Settings that choose the recipe, or depend on the machine.
NOT_COMPARED = {"method", "data", "labels", "fidelity", "seed"} | OF_THE_MACHINE
Difference = tuple[str, Any, Any]  # a setting's name, its value here, its value in the recipe


def changed(config: RunConfig) -> tuple[str, list[Difference]] | None:
    """The size of the nearest recipe, and the settings that differ from it; None without a recipe."""
    recipes = {size: partial(recipe, config.method, config.data, config.labels, size) for size in SIZES}
    if config.train_encoder:
        recipes = {"pretrained, trained further": partial(trained_encoder, config.method, config.data, config.labels)}
    if config.of_texts:
        recipes["texts"] = partial(texts, config.method, config.data, config.labels)
    elif config.on_features:
        recipes["pretrained"] = partial(pictures, config.method, config.data, config.labels)
    found = [(size, _differences(config, make)) for size, make in recipes.items()]
    return min(((size, rows) for size, rows in found if rows is not None), key=lambda pair: len(pair[1]), default=None)


def _differences(config: RunConfig, make: Callable[[], RunConfig]) -> list[Difference] | None:
    """The settings that differ from a recipe; None if there is no such recipe."""
    try:
        made = make()
    except UserError:
        return None
    if config.fidelity == "released":
        made = with_settings(made, RELEASED)
    # Resolved, as a run folder stores it: with the method's defaults.
    here, there = flatten(asdict(config)), flatten(asdict(build.resolve(replace(made, device="cpu"))))
    return [(key, here[key], there[key]) for key in here if key not in NOT_COMPARED and here[key] != there[key]]
