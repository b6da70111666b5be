"""Laplace's posterior against laplace-torch (values in fixtures/laplace.json) and against automatic differentiation."""

import json
from pathlib import Path

import pytest
import torch

from surelabel.models import laplace

STORED = json.loads((Path(__file__).parent / "fixtures" / "laplace.json").read_text())


class Case:
    """A layer, its inputs and what laplace-torch computes, whose parameters are all weights and then all biases."""

    def __init__(self, name):
        values = {key: torch.tensor(value, dtype=torch.float64) for key, value in STORED[name].items()}
        self.values, self.precision = values, STORED[name]["precision"]
        self.mean = torch.cat([values["weight"], values["bias"][:, None]], dim=1)
        self.inputs, self.new = (
            torch.cat([values[key], torch.ones(len(values[key]), 1, dtype=torch.float64)], dim=1)
            for key in ("inputs", "new")
        )
        self.posterior = laplace.fit(self.mean, self.inputs, self.precision)
        classes, width = self.mean.shape
        number = torch.arange(classes * (width - 1)).view(classes, width - 1)
        bias = classes * (width - 1) + torch.arange(classes)
        self.order = torch.cat([number, bias[:, None]], dim=1).flatten()

    def reordered(self, key):
        """A matrix over the parameters, in our order: class by class, each with its bias last."""
        return self.values[key][self.order][:, self.order]

    def root(self):
        """The square root of the covariance, by which `draw` scales."""
        return self.posterior.draw(torch.eye(self.mean.numel()).double()).flatten(1) - self.mean.flatten()


@pytest.fixture(params=["few", "many"])
def case(request):
    """Fewer and more labels than it takes to see all weights: the two ways to the eigenvectors."""
    made = Case(request.param)
    assert (made.inputs.shape[0] * made.mean.shape[0] < made.mean.numel()) == (request.param == "few")
    return made


def test_hessian_equals_laplace_torch(case):
    posterior = case.posterior
    hessian = posterior.vectors * posterior.values @ posterior.vectors.T
    torch.testing.assert_close(hessian, case.reordered("hessian"))


def test_hessian_is_that_of_the_cross_entropy(case):
    labels = torch.zeros(len(case.inputs), dtype=torch.int64)  # any: none enters it

    def loss(weights):
        return torch.nn.functional.cross_entropy(case.inputs @ weights.T, labels, reduction="sum")

    exact = torch.autograd.functional.hessian(loss, case.mean).reshape(case.mean.numel(), -1)
    posterior = case.posterior
    torch.testing.assert_close(posterior.vectors * posterior.values @ posterior.vectors.T, exact)


def test_covariance_equals_laplace_torch(case):
    root = case.root()
    torch.testing.assert_close(root @ root.T, case.reordered("covariance"))
    into_logits = torch.einsum("nd,kj->nkjd", case.new, torch.eye(len(case.mean)).double()).flatten(2) @ root
    expected = case.values["logit_covariance"]
    torch.testing.assert_close(into_logits @ into_logits.transpose(1, 2), expected)


def test_best_precision_equals_laplace_torch(case):
    chosen = laplace.fit(case.mean, case.inputs).precision
    # Where a function is flat to 1e-16, its argument is known to 1e-8.
    assert chosen == pytest.approx(case.values["best_precision"].item(), rel=1e-5)


def test_mean_of_draws_equals_laplace_torch(case):
    count = 200_000
    torch.manual_seed(1)
    weights = case.posterior.draw(torch.randn(count, case.mean.numel(), dtype=torch.float64))
    probs = torch.einsum("nd,mkd->nmk", case.new, weights).softmax(-1).mean(1)
    # 5 standard errors of both means together; the std of a probability is at most one half.
    tolerance = 5 * 0.5 * (1 / count + 1 / STORED["draws"]) ** 0.5
    torch.testing.assert_close(probs, case.values["mean_of_draws"], rtol=0, atol=tolerance)


def test_eigenvectors_held_are_counted(case):
    held = laplace.eigenvectors_held(len(case.inputs), *case.values["weight"].shape)
    assert case.posterior.vectors.numel() <= held
    assert case.posterior.vectors.numel() == held or len(case.inputs) == 2  # there, H has zeros besides
