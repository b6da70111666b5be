from dataclasses import replace

import pytest

from surelabel.config.run import Average, Batch, Evaluation, Head, Network, Optimizer, RunConfig, Selection, Target
from surelabel.config.validate import validate
from surelabel.utils.errors import UserError


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "fixmach"}, "Did you mean 'fixmatch'"),
        ({"steps": 0}, "steps must be above zero"),
        ({"batch": Batch(labelled=1)}, r"batch\.labelled must be at least 2"),
        ({"evaluation": Evaluation(samples=-1)}, r"evaluation\.samples must be above zero"),
        ({"optimizer": Optimizer(lr=float("nan"))}, r"optimizer\.lr must be a finite number, but is nan"),
        ({"optimizer": Optimizer(weight_decay=-1)}, r"weight_decay must not be negative"),
        ({"optimizer": Optimizer(momentum=0)}, "nesterov needs a momentum"),
        ({"selection": Selection(1.5)}, r"selection\.threshold must lie between 0 and 1"),
        ({"target": Target(-0.1)}, r"target\.temperature must not be negative"),
        ({"average": Average(decay=1.01)}, r"average\.decay must lie between 0 and 1"),
        ({"network": Network(stem_stride=0)}, r"network\.stem_stride must be above zero"),
        ({"threads": 0}, "threads must be above zero"),
        ({"method": "bam-uda", "head": Head(samples=1)}, r"head\.samples must be at least 2"),
    ],
)
def test_validate_rejects_bad_values(change, message):
    with pytest.raises(UserError, match=message):
        validate(replace(RunConfig(), **change))


@pytest.mark.parametrize("method", ["bam-uda-no-sigma", "bam-paws", "fixmatch"])
def test_validate_accepts_one_sample_without_uncertainty(method):
    assert validate(RunConfig(method, head=Head(samples=1))).head.samples == 1


def test_validate_accepts_the_defaults():
    assert validate(RunConfig()) == RunConfig()
