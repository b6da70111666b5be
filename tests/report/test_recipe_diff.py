from dataclasses import replace

import pytest

from surelabel.config.methods import names
from surelabel.config.recipes import RELEASED, SIZES, pictures, recipe
from surelabel.config.settings import with_settings
from surelabel.report.recipe_diff import changed
from surelabel.training.build import resolve


@pytest.mark.parametrize("method", names())
@pytest.mark.parametrize("size", SIZES)
def test_a_recipe_as_it_is_differs_in_nothing(method, size):
    run = replace(resolve(recipe(method, "cifar10", 250, size)), seed=3, threads=7, out="elsewhere")
    run = replace(run, device="cuda", precision="bf16-mixed", compile=True)
    assert changed(run) == (size, [])


def test_a_changed_setting_is_named_with_both_values():
    run = with_settings(recipe("uda", "phc", "10%"), {"optimizer.lr": 0.5, "steps": 77})
    assert changed(resolve(run)) == ("laptop", [("steps", 77, 800), ("optimizer.lr", 0.5, 0.03)])


def test_released_settings_are_part_of_the_recipe():
    run = with_settings(recipe("bam-uda", "cifar10", 250), RELEASED)
    assert changed(resolve(replace(run, fidelity="released"))) == ("laptop", [])


def test_a_data_set_with_one_size_alone():
    assert changed(resolve(recipe("paws", "imagenet", "10%", "paper"))) == ("paper", [])


def test_own_photographs_have_a_recipe_too():
    run = resolve(pictures("bam-uda", "photos"))
    assert changed(run) == ("pretrained", [])


def test_a_run_without_a_recipe_differs_from_none():
    assert changed(resolve(replace(recipe("paws", "imagenet", "10%"), method="supervised"))) is None
