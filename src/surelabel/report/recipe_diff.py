"""Which settings of a run its recipe does not explain."""

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from surelabel.config.recipes import RELEASED, SIZES, pictures, recipe
from surelabel.config.run import OF_THE_MACHINE, RunConfig
from surelabel.config.settings import flatten, with_settings
from surelabel.training import build
from surelabel.utils.errors import UserError

# What a recipe is chosen by, and what depends on the machine.
NOT_COMPARED = {"method", "data", "labels", "fidelity", "seed"} | OF_THE_MACHINE
Difference = tuple[str, Any, Any]  # a setting's name, its value here, its value in the recipe


def changed(run: RunConfig) -> tuple[str, list[Difference]] | None:
    """The size of the recipe that is nearest to a run, and the settings that differ from it; None without a recipe."""
    made = {size: partial(recipe, run.method, run.data, run.labels, size) for size in SIZES}
    if run.encoder != "none":
        made["pretrained"] = partial(pictures, run.method, run.data, run.labels)
    found = [(size, _differences(run, make)) for size, make in made.items()]
    return min(((size, rows) for size, rows in found if rows is not None), key=lambda pair: len(pair[1]), default=None)


def _differences(run: RunConfig, make: Callable[[], RunConfig]) -> list[Difference] | None:
    """The settings that differ from a recipe; None where there is no such recipe."""
    try:
        made = make()
    except UserError:
        return None
    if run.fidelity == "released":
        made = with_settings(made, RELEASED)
    # Complete, as a run folder stores it: with the method's own values.
    here, there = flatten(asdict(run)), flatten(asdict(build.resolve(replace(made, device="cpu"))))
    return [(key, here[key], there[key]) for key in here if key not in NOT_COMPARED and here[key] != there[key]]
