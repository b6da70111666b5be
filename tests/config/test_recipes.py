from dataclasses import replace

import pytest

from surelabel.config.benchmarks import BENCHMARKS
from surelabel.config.methods import find, names, on_pixels
from surelabel.config.recipes import POOLS, SIZES, finetune, parse, recipe
from surelabel.config.run import steps_of
from surelabel.config.validate import validate
from surelabel.data.long_tail import class_sizes
from surelabel.training import build
from surelabel.utils.errors import UserError

AS_MANY = ("pseudo-label", "pi-model", "mean-teacher")  # unlabelled samples as labelled ones


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize(
    "method", [*on_pixels(), "fixmatch+ema", "bam-uda+ema", "paws+ema", "paws+swa", "pseudo-label+swa"]
)
def test_recipe_is_valid_for_every_benchmark(method, benchmark, size):
    named, data, labels = parse(f"{method}-{benchmark}")
    assert named == method
    if data == "imagenet" and "paws" not in method:
        with pytest.raises(UserError, match="ImageNet has recipes only for paws"):
            recipe(method, data, labels, size)
        return
    config = validate(recipe(method, data, labels, size))
    assert (config.method, config.data, config.labels) == (method, data, labels)
    for duration in (config.head.kl_warmup, config.optimizer.warmup, config.teacher.onset, config.teacher.warmup):
        assert steps_of(duration, config.steps) < config.steps
    if not config.base.endswith("paws"):
        assert config.batch.ratio == (1 if "phc" in benchmark or config.base.endswith(AS_MANY) else 7)


def test_parse_without_a_method():
    assert parse("phc-10") == (None, "phc", "10%")


def test_recipe_has_the_papers_constants():
    small, large = recipe("fixmatch", "cifar10", 250, "paper"), recipe("uda", "cifar100", 400, "paper")
    assert (small.steps, small.batch.labelled, small.network.name) == (2**20, 64, "wrn-28-2")
    assert (small.optimizer.lr, small.optimizer.weight_decay, small.average.decay) == (0.03, 5e-4, 0.999)
    assert (large.network.name, large.optimizer.weight_decay) == ("wrn-28-8", 1e-3)
    crystals = recipe("fixmatch", "phc", "10%", "paper")
    assert (crystals.steps, crystals.optimizer.lr, crystals.network.padding) == (300 * 155, 0.01, "zeros")
    assert set(vars(crystals.views).values()) == {"periodic"}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("base", ["", "bam-"])
def test_recipe_pseudo_label_on_crystals_is_fixmatch(base, size):
    """Weak and strong views are the same there, so a study needs only one of them."""
    one, two = (build.resolve(recipe(f"{base}{name}", "phc", "10%", size)) for name in ("pseudo-label", "fixmatch"))
    assert replace(one, method=two.method, out=two.out) == two
    methods = [replace(build.build_method(config), views=None, ratio=1) for config in (one, two)]
    assert methods[0] == methods[1]


def test_finetune_keeps_precision_and_compile():
    config = replace(recipe("paws+ema", "imagenet", "10%", "paper"), compile=False)
    tuned = finetune(config, "run", 100)
    assert config.precision == "32"
    assert (tuned.precision, tuned.compile) == ("32", False)


def test_recipe_epochs_match_the_data():
    """The sizes of long-tailed CIFAR, which the paper prints, are counted here."""
    for name, images in POOLS.items():
        kind, tail, alpha = name.partition("-lt")
        if tail:
            classes = 100 if kind == "cifar100" else 10
            assert images == sum(class_sizes(50_000 // classes, int(alpha), classes))
            assert recipe("paws", name, "10%", "paper").steps == 600 * -(-images // 256)
    assert recipe("paws", "fashion-mnist", 40, "paper").steps == 600 * 235


def test_recipe_has_the_constants_of_paws():
    """PAWS's released config for CIFAR-10, and the averages of the paper."""
    config = recipe("paws+ema", "cifar10", 4000, "paper")
    epoch = 196  # of 256 images in 50,000
    assert config.steps == 600 * epoch
    assert (config.paws.unlabelled, config.paws.per_class, config.paws.support_views) == (256, 64, 2)
    rate = config.optimizer
    assert (rate.lr * rate.start, rate.lr, rate.lr * rate.end) == pytest.approx((0.8, 3.2, 0.032))
    assert (rate.warmup, rate.lars_trust, rate.momentum, rate.weight_decay) == (10 * epoch, 0.001, 0.9, 1e-6)
    assert (config.paws.temperature, config.paws.smoothing, config.paws.width) == (0.1, 0.1, 128)
    assert (config.paws.large_scale, config.paws.small_scale_min, config.paws.small_scale) == (0.75, 0.3, 0.75)
    assert (config.teacher.schedule, config.teacher.gamma, config.teacher.warmup) == ("linear", 0.996, 50 * epoch)
    assert recipe("paws+swa", "cifar10", 4000, "paper").teacher.onset == 200 * epoch
    assert recipe("paws+swa", "cifar100", 4000, "paper").teacher.onset == 100 * epoch
    natural = recipe("paws+ema", "imagenet", "10%", "paper")
    assert (natural.network.name, natural.paws.width, natural.paws.prediction_head) == ("resnet-50", 2048, True)
    assert (natural.teacher.schedule, natural.teacher.gamma) == ("cosine", 0.95)
    rate = natural.optimizer
    assert (rate.lr * rate.start, rate.lr, rate.lr * rate.end) == pytest.approx((0.3, 6.4, 0.064))
    assert (natural.steps, natural.paws.unlabelled) == (200 * 313, 64 * 64)
    assert (natural.paws.classes, natural.paws.per_class, natural.paws.support_views) == (64 * 15, 6, 1)
    crops = natural.paws
    assert (crops.large_scale, crops.small_scale_min, crops.small_scale, crops.small_size) == (0.14, 0.05, 0.14, 96)
    match = recipe("fixmatch+ema", "cifar10", 250, "paper").teacher
    assert (match.schedule, match.gamma) == ("cosine", 0.25)


def test_recipe_suggests_the_closest_name():
    with pytest.raises(UserError, match="Did you mean 'fixmatch-cifar10-250'"):
        parse("fixmatch-cifar10-25")
    with pytest.raises(UserError, match="Did you mean 'laptop'"):
        recipe(size="labtop")


def test_find_knows_every_name():
    assert all(find(name).reads for name in names())


@pytest.mark.parametrize(("benchmark", "quantile"), [("cifar10-250", 0.95), ("cifar100-400", 0.75), ("phc-10", 0.9)])
def test_recipe_has_the_papers_quantile(benchmark, quantile):
    _, data, labels = parse(benchmark)
    for method in on_pixels():
        asked = quantile if method in ("bam-pseudo-label", "bam-uda", "bam-fixmatch") else None
        for teacher in ("", "+ema", "+swa"):
            assert recipe(method + teacher, data, labels, "paper").selection.quantile == asked
