"""A linear layer whose weights are uncertain."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.equations import gaussian_kl


class GaussianLinear(nn.Module):
    """A Gaussian over weights and biases, each independent of the others: θ = µ + σ ε with σ = softplus(ρ).

    Blundell et al. (2015), "Weight uncertainty in neural networks"; the paper's appendix B.1.
    """

    def __init__(self, inputs: int, outputs: int, prior_std: float) -> None:
        super().__init__()
        self.prior_std = prior_std
        # The released code's initial values.
        self.weight_mean = nn.Parameter(torch.randn(outputs, inputs) * 0.1)
        self.weight_rho = nn.Parameter(torch.randn(outputs, inputs) * 0.1 - 3)
        self.bias_mean = nn.Parameter(torch.randn(outputs) * 0.1)
        self.bias_rho = nn.Parameter(torch.randn(outputs) * 0.1 - 3)

    def noise(self, draws: np.random.Generator) -> Tensor:
        """Standard normal numbers [K, D + 1] for one draw of weights and bias."""
        outputs, inputs = self.weight_mean.shape
        return self.normals(draws, outputs, inputs + 1)

    def normals(self, draws: np.random.Generator, *shape: int) -> Tensor:
        return torch.from_numpy(draws.standard_normal(shape, dtype=np.float32)).to(self.weight_mean.device)

    def forward(self, features: Tensor, noise: Tensor) -> Tensor:
        """Outputs [N, K] of features [N, D] under one draw of the weights, shared by all of them."""
        weight = self.weight_mean + F.softplus(self.weight_rho) * noise[:, :-1]
        bias = self.bias_mean + F.softplus(self.bias_rho) * noise[:, -1]
        return F.linear(features, weight, bias)

    def moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean µᵀv + b and deviation √(σ²ᵀv² + σ_b²) of the outputs [N, K], which are independent Gaussians."""
        variances = [F.softplus(rho).square() for rho in (self.weight_rho, self.bias_rho)]
        return self.mean(features), F.linear(features.square(), *variances).sqrt()

    def mean(self, features: Tensor) -> Tensor:
        """The outputs [N, K] under the mean weights."""
        return F.linear(features, self.weight_mean, self.bias_mean)

    def kl(self) -> tuple[Tensor, Tensor]:
        """KL(q ‖ prior) of each weight [K, D] and of each bias [K]."""
        pairs = ((self.weight_mean, self.weight_rho), (self.bias_mean, self.bias_rho))
        weights, biases = (gaussian_kl(mean, F.softplus(rho), self.prior_std) for mean, rho in pairs)
        return weights, biases
