"""A linear layer with a Gaussian over its weights."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from surelabel.equations import gaussian_kl


class GaussianLinear(nn.Module):
    """Independent Gaussians over weights and biases: θ = µ + σ ε with σ = softplus(ρ).

    Blundell et al. (2015), "Weight uncertainty in neural networks"; the paper's appendix B.1.
    """

    def __init__(self, inputs: int, outputs: int, prior_std: float) -> None:
        super().__init__()
        self.prior_std = prior_std
        # Initial values as in the released code.
        self.weight_mean = nn.Parameter(torch.randn(outputs, inputs) * 0.1)
        self.weight_rho = nn.Parameter(torch.randn(outputs, inputs) * 0.1 - 3)
        self.bias_mean = nn.Parameter(torch.randn(outputs) * 0.1)
        self.bias_rho = nn.Parameter(torch.randn(outputs) * 0.1 - 3)

    def noise(self, rng: np.random.Generator) -> Tensor:
        """Standard normal noise [K, D + 1] for one draw of weights and bias."""
        outputs, inputs = self.weight_mean.shape
        return self.normals(rng, outputs, inputs + 1)

    def normals(self, rng: np.random.Generator, *shape: int) -> Tensor:
        return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)).to(self.weight_mean.device)

    def forward(self, features: Tensor, noise: Tensor) -> Tensor:
        """Features [N, D] -> outputs [N, K] under one draw of the weights, shared by all rows."""
        weight = self.weight_mean + F.softplus(self.weight_rho) * noise[:, :-1]
        bias = self.bias_mean + F.softplus(self.bias_rho) * noise[:, -1]
        return F.linear(features, weight, bias)

    def moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean µᵀv + b and std √(σ²ᵀv² + σ_b²) of the outputs [N, K], independent Gaussians."""
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
