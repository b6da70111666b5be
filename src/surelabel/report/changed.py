"""Which settings of a run its recipe does not explain."""

from dataclasses import asdict, replace
from typing import Any

from surelabel import build
from surelabel.config import Run
from surelabel.errors import UserError
from surelabel.recipes import RELEASED, SIZES, recipe
from surelabel.settings import flatten, with_settings

# What a recipe is chosen by, and what depends on the machine.
NOT_COMPARED = {
    "method", "data", "data_dir", "labels", "fidelity", "seed", "out", "device", "threads", "devices", "nodes"
}  # fmt: skip
Difference = tuple[str, Any, Any]  # a setting's name, its value here, its value in the recipe


def changed(run: Run) -> tuple[str, list[Difference]]:
    """The size of the recipe that is nearest to a run, and the settings that differ from it."""
    found = {size: _differences(run, size) for size in SIZES}
    return min(((size, rows) for size, rows in found.items() if rows is not None), key=lambda pair: len(pair[1]))


def _differences(run: Run, size: str) -> list[Difference] | None:
    """The settings that differ from the recipe of this size; None where there is no such recipe."""
    try:
        made = recipe(run.method, run.data, run.labels, size)
    except UserError:
        return None
    if run.fidelity == "released":
        made = with_settings(made, RELEASED)
    # Complete, as a run folder stores it: with the method's own values.
    here, there = flatten(asdict(run)), flatten(asdict(build.resolve(replace(made, device="cpu"))))
    return [(key, here[key], there[key]) for key in here if key not in NOT_COMPARED and here[key] != there[key]]
