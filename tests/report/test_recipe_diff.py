from dataclasses import replace

import pytest

from surelabel.config.methods import ON_FEATURES, names
from surelabel.config.recipes import RELEASED, SIZES, pictures, recipe
from surelabel.config.settings import with_settings
from surelabel.report.recipe_diff import changed
from surelabel.training.build import resolve


@pytest.mark.parametrize("method", [name for name in names() if name not in ON_FEATURES])
@pytest.mark.parametrize("size", SIZES)
def test_changed_is_empty_for_a_recipe(method, size):
    config = replace(resolve(recipe(method, "cifar10", 250, size)), seed=3, threads=7, out="elsewhere")
    config = replace(config, device="cuda", precision="bf16-mixed", compile=True)
    assert changed(config) == (size, [])


def test_changed_names_settings_with_both_values():
    config = with_settings(recipe("uda", "phc", "10%"), {"optimizer.lr": 0.5, "steps": 77})
    assert changed(resolve(config)) == ("laptop", [("steps", 77, 800), ("optimizer.lr", 0.5, 0.03)])


def test_changed_knows_released_settings_single_sizes_and_pictures():
    config = with_settings(recipe("bam-uda", "cifar10", 250), RELEASED)
    assert changed(resolve(replace(config, fidelity="released"))) == ("laptop", [])
    assert changed(resolve(recipe("paws", "imagenet", "10%", "paper"))) == ("paper", [])
    assert changed(resolve(pictures("bam-uda", "photos"))) == ("pretrained", [])
    assert changed(resolve(pictures("sure", "photos"))) == ("laptop", [])
    assert changed(resolve(recipe("sure", "table.csv"))) == ("laptop", [])


def test_changed_is_none_without_a_recipe():
    assert changed(resolve(replace(recipe("paws", "imagenet", "10%"), method="supervised"))) is None
