import pytest

from surelabel.cli.sweep_space import Space, check_used, read_space
from surelabel.config.recipes import recipe
from surelabel.utils.errors import UserError


def test_read_space_parses_ranges_and_choices():
    assert read_space("optimizer.lr=log:0.003:0.3") == Space("optimizer.lr", 0.003, 0.3, log=True)
    assert read_space("selection.threshold=0.7:0.99") == Space("selection.threshold", 0.7, 0.99)
    assert read_space("network.norm=batch,group") == Space("network.norm", choices=("batch", "group"))


def test_space_suggests_values_of_the_right_type():
    import optuna

    trial = optuna.trial.FixedTrial({"head.samples": 7, "optimizer.lr": 0.01, "network.norm": "group"})
    assert read_space("head.samples=2:50").suggest(trial) == 7
    assert read_space("optimizer.lr=log:0.003:0.3").suggest(trial) == 0.01
    assert read_space("network.norm=batch,group").suggest(trial) == "group"


@pytest.mark.parametrize(
    ("method", "texts"),
    [
        ("bam-uda", ["selection.threshold=0.7:0.99"]),
        ("bam-uda", ["selection.threshold=0.7:1.5"]),
        ("fixmatch", ["optimizer.lr=log:0.003:0.3", "head.samples=2:50"]),
        ("fixmatch", ["optimizer.start=0.1:0.2", "optimizer.end=0.1:0.2"]),
    ],
)
def test_check_used_rejects_a_setting_that_no_trial_reads(method, texts):
    spaces = [read_space(text) for text in texts]
    with pytest.raises(UserError, match=rf"--space {spaces[-1].key} has no effect"):
        check_used(recipe(method), spaces)


@pytest.mark.parametrize(
    ("method", "texts"),
    [
        ("fixmatch", ["selection.threshold=0.7:0.99"]),
        ("fixmatch+ema", ["teacher.schedule=linear,cosine", "teacher.warmup=10:100"]),
        ("paws", ["paws.small_size=12:20", "paws.small_crops=0:4"]),
    ],
)
def test_check_used_accepts_a_setting_that_some_trial_reads(method, texts):
    check_used(recipe(method), [read_space(text) for text in texts])
