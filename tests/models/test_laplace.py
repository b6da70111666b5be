"""Laplace's posterior against laplace-torch (values in fixtures/laplace.json) and against automatic differentiation."""

import json
from pathlib import Path

import pytest
import torch

from surelabel.models import laplace
from surelabel.models.laplace_head import LaplaceHead
from surelabel.utils.rng import generator

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


def test_covariances_equal_laplace_torch(case):
    classes, width = case.mean.shape
    whole = case.reordered("covariance").view(classes, width, classes, width)
    found = case.posterior.covariances()
    torch.testing.assert_close(found, torch.stack([whole[k, :, k] for k in range(classes)]))
    variances = torch.einsum("nd,kde,ne->nk", case.new, found, case.new)
    torch.testing.assert_close(variances, case.values["logit_covariance"].diagonal(dim1=1, dim2=2))


def test_best_precision_equals_laplace_torch(case):
    chosen = laplace.fit(case.mean, case.inputs).precision
    # Where a function is flat to 1e-16, its argument is known to 1e-8.
    assert chosen == pytest.approx(case.values["best_precision"].item(), rel=1e-5)


def test_predictions_equal_laplace_torch(case):
    classes, width = case.mean.shape
    head = LaplaceHead(width - 1, classes, case.precision).double().eval()
    head.load_state_dict({"weight": case.values["weight"], "bias": case.values["bias"]}, strict=False)
    head.fit(case.values["inputs"])
    prediction = head.predict(case.values["new"], generator(0, "not used"))
    torch.testing.assert_close(prediction.probs, case.values["probit"])


def test_probit_is_near_the_mean_over_gaussian_logits():
    """Of two classes, whose logits' difference is a Gaussian, by numerical integration."""
    for gap, variance in ((1.0, 0.5), (3.0, 4.0), (0.5, 20.0)):
        grid = torch.linspace(-9, 9, 20_001, dtype=torch.float64)
        density = torch.exp(-grid.square() / 2) / (2 * torch.pi) ** 0.5
        exact = torch.trapezoid(density * torch.sigmoid(gap + grid * variance**0.5), grid)
        # The other logit is certain, so the difference has the variance of the first.
        found = laplace.probit(torch.tensor([[gap, 0.0]]), torch.tensor([[variance, 0.0]]))[0, 0]
        assert found.item() == pytest.approx(exact.item(), abs=0.02)


def test_eigenvectors_held_are_counted(case):
    held = laplace.eigenvectors_held(len(case.inputs), *case.values["weight"].shape)
    assert case.posterior.vectors.numel() <= held
    assert case.posterior.vectors.numel() == held or len(case.inputs) == 2  # there, H has zeros besides


def test_labels_that_are_certain_leave_the_prior():
    mean = torch.tensor([[2000.0, 0.0], [-2000.0, 0.0]], dtype=torch.float64)
    posterior = laplace.fit(mean, torch.tensor([[1.0, 1.0]], dtype=torch.float64), 4.0)
    assert torch.equal(posterior.covariances(), torch.eye(2).double().expand(2, 2, 2) / 4)
