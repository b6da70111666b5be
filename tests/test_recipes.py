import pytest

from surelabel.config import METHODS, validate
from surelabel.errors import UserError
from surelabel.methods import METHODS as BUILT
from surelabel.recipes import BENCHMARKS, SIZES, parse, recipe


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("method", METHODS)
def test_every_row_of_the_paper_has_a_valid_recipe(method, benchmark, size):
    named, data, labels = parse(f"{method}-{benchmark}")
    assert named == method
    run = validate(recipe(method, data, labels, size))
    assert (run.method, run.data, run.labels) == (method, data, labels)
    assert run.batch.ratio == (1 if "phc" in benchmark or method.endswith("pseudo-label") else 7)


def test_the_method_may_be_left_out():
    assert parse("phc-10") == (None, "phc", "10%")


def test_the_papers_constants():
    small, large = recipe("fixmatch", "cifar10", 250, "paper"), recipe("uda", "cifar100", 400, "paper")
    assert (small.steps, small.batch.labelled, small.network.name) == (2**20, 64, "wrn-28-2")
    assert (small.optimizer.lr, small.optimizer.weight_decay, small.average.decay) == (0.03, 5e-4, 0.999)
    assert (large.network.name, large.optimizer.weight_decay) == ("wrn-28-8", 1e-3)
    crystals = recipe("fixmatch", "phc", "10%", "paper")
    assert (crystals.steps, crystals.optimizer.lr, crystals.network.padding) == (300 * 155, 0.01, "zeros")
    assert set(vars(crystals.views).values()) == {"periodic"}


def test_a_mistyped_name_is_corrected():
    with pytest.raises(UserError, match="Did you mean 'fixmatch-cifar10-250'"):
        parse("fixmatch-cifar10-25")
    with pytest.raises(UserError, match="Did you mean 'laptop'"):
        recipe(size="labtop")


def test_the_names_of_methods_are_those_that_exist():
    assert tuple(BUILT) == METHODS


@pytest.mark.parametrize(("benchmark", "quantile"), [("cifar10-250", 0.95), ("cifar100-400", 0.75), ("phc-10", 0.9)])
def test_the_quantile_is_the_papers_for_the_methods_that_have_one(benchmark, quantile):
    _, data, labels = parse(benchmark)
    for method in METHODS:
        asked = quantile if method in ("bam-pseudo-label", "bam-uda", "bam-fixmatch") else None
        assert recipe(method, data, labels, "paper").selection.quantile == asked
