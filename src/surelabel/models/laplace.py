"""Laplace's approximation to the posterior of a linear last layer, in closed form (Daxberger et al., 2021).

Around the weights θ̂ [K, D + 1], each row with its bias, the posterior is N(θ̂, (H + δ I)⁻¹). H is the Hessian of
the labels' cross-entropy: with features φ_n, a one at their end, and probabilities p_n it is the sum of
(diag(p_n) - p_n p_nᵀ) ⊗ φ_n φ_nᵀ. That is also the generalised Gauss-Newton matrix, as the layer is linear, and no
label enters it. δ is the precision of the weights' Gaussian prior.
"""

from dataclasses import dataclass
from math import exp, log, pi

import torch
from torch import Tensor

MOST = 2**25  # numbers in the eigenvectors: 256 MiB
BOUNDS = 1e-6, 1e6  # of a precision that is chosen
HALVINGS = 60


@dataclass(frozen=True)
class Posterior:
    """The Gaussian by the eigenvalues s [r] of H above zero, and their eigenvectors [P, r]; P = K (D + 1)."""

    mean: Tensor  # [K, D + 1]
    values: Tensor
    vectors: Tensor
    precision: float  # δ

    def covariances(self) -> Tensor:
        """The covariance [K, D + 1, D + 1] of the weights of each class, blocks of (H + δ I)⁻¹."""
        by_class = self.vectors.view(*self.mean.shape, -1)
        shrunk = self.values / (self.values + self.precision)
        return (torch.eye(self.mean.shape[1]).to(by_class) - (by_class * shrunk) @ by_class.mT) / self.precision


def probit(logits: Tensor, variances: Tensor) -> Tensor:
    """The mean of the softmax of Gaussian logits [N, K], about: softmax(z_k / √(1 + π/8 v_k)) (MacKay, 1992)."""
    return (logits / (1 + pi / 8 * variances.clamp_min(0)).sqrt()).softmax(dim=-1)


def eigenvectors_held(samples: int, classes: int, features: int) -> int:
    """How many numbers the eigenvectors of H are: P times the smaller of P and n K."""
    size = classes * (features + 1)
    return size * min(size, samples * classes)


def fit(mean: Tensor, features: Tensor, precision: float | None = None) -> Posterior:
    """The posterior around weights [K, D + 1], by the labelled samples' features [n, D + 1], in float64.

    Without a prior `precision`, it is the one that maximises the marginal likelihood.
    """
    values, vectors = eigen(features, (features @ mean.T).softmax(-1))
    chosen = best_precision(values, float(mean.square().sum())) if precision is None else precision
    return Posterior(mean, values, vectors, chosen)


def eigen(features: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues [r] and eigenvectors [P, r] of H, by features [n, D + 1] and probabilities [n, K].

    diag(p) - p pᵀ = L Lᵀ with L = diag(√p) - p √pᵀ, so H = B Bᵀ with B [P, n K] made of L_n ⊗ φ_n; few labels need
    only the small BᵀB, which has the same eigenvalues.
    """
    n, classes = probs.shape
    size = classes * features.shape[1]
    roots = torch.diag_embed(probs.sqrt()) - probs[:, :, None] * probs.sqrt()[:, None]  # L [n, K, K]
    if n * classes < size:
        factor = torch.einsum("nkj,nd->kdnj", roots, features).reshape(size, n * classes)
        values, inner = torch.linalg.eigh(factor.T @ factor)
        kept = values > values[-1] * n * classes * torch.finfo(values.dtype).eps
        values = values[kept]
        return values, factor @ inner[:, kept] / values.sqrt()
    hessian = features.new_zeros(classes, features.shape[1], classes, features.shape[1])
    for k in range(classes):
        for j in range(classes):
            curvature = (roots[:, k] * roots[:, j]).sum(-1)
            hessian[k, :, j] = (features * curvature[:, None]).T @ features
    values, vectors = torch.linalg.eigh(hessian.view(size, size))
    return values.clamp_min(0), vectors


def best_precision(values: Tensor, norm: float) -> float:
    """The δ of the largest marginal likelihood: ½ Σ_i log(δ / (s_i + δ)) - ½ δ |θ̂|² + const; `norm` is |θ̂|².

    Its slope, ½ Σ_i s_i / (δ (s_i + δ)) - ½ |θ̂|², falls as δ rises, so bisection finds the only zero.
    """
    low, high = map(log, BOUNDS)
    for _ in range(HALVINGS):
        middle = exp((low + high) / 2)
        rises = float((values / (middle * (values + middle))).sum()) > norm
        low, high = (log(middle), high) if rises else (low, log(middle))
    return exp((low + high) / 2)
