"""The equations of the paper, and the metrics, as pure functions on tensors.

Shapes: B labelled batch, U unlabelled batch (U = µB), N samples, K classes, M bins. `logits` are
the inputs of the softmax; `probs` are distributions over the K classes. Metrics are computed in
float64 and returned as 0-d tensors.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from surelabel.utils.devices import accumulation_dtype
from surelabel.utils.errors import UserError

# The smallest probability in `nll` (36.04 nats): float64's epsilon, as in scikit-learn's log_loss.
NLL_FLOOR = torch.finfo(torch.float64).eps


def sharpen(probs: Tensor, t: float) -> Tensor:
    """ρ_t(q), text below Eq. (1): q_k^(1/t) / Σ_c q_c^(1/t). probs [..., K] -> [..., K].

    For small t, tied maxima share the mass; `harden` picks one of them.
    """
    if not t > 0:
        raise UserError(f"a sharpening temperature must be above 0, not {t}; for t → 0 use hard targets")
    # The inner `where` keeps the gradient of log at 0, which is infinite, from becoming NaN.
    log_q = torch.where(probs > 0, torch.where(probs > 0, probs, 1).log(), -torch.inf)
    # Shift the maximum to 0 before the division, so that it stays 0 if the others overflow to -∞. t
    # must not round to zero in the dtype of q.
    return ((log_q - log_q.detach().amax(-1, keepdim=True)) / max(t, torch.finfo(probs.dtype).tiny)).softmax(-1)


def harden(probs: Tensor) -> Tensor:
    """ρ_0(q), text below Eq. (1): the most probable class, one-hot. probs [..., K] -> [..., K]."""
    return F.one_hot(probs.argmax(-1), probs.shape[-1]).to(probs.dtype)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """H(p, q) = -Σ_k p_k log q_k for each sample. logits [N, K], target [N, K] -> [N]."""
    return -(target * logits.log_softmax(-1)).sum(-1)


def labelled_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """L_l, text below Eq. (1): (1/B) Σ_l H(y_l, q_l). logits [B, K], labels [B] -> scalar."""
    return F.cross_entropy(logits, labels)


def masked_cross_entropy(logits: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """L_u, Eq. (1): (1/µB) Σ_u mask_u H(target_u, q_u).

    logits [U, K], target [U, K], mask [U], bool or weights -> scalar. The mean is over the batch, not
    over the accepted samples. No gradient reaches the target.
    """
    return (cross_entropy(logits, target.detach()) * mask).mean()


def smooth_labels(labels: Tensor, classes: int, smoothing: float) -> Tensor:
    """Label smoothing over the classes that occur in the batch. labels [S] -> [S, K]."""
    exact = F.one_hot(labels, classes).to(accumulation_dtype(labels.device))
    occurs = (exact.sum(0) > 0).to(exact.dtype)
    return (1 - smoothing) * exact + smoothing * occurs / occurs.sum()


def soft_nearest_neighbours(z: Tensor, support: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """π_d(z, {z_s}), Eq. (2): Σ_s d(z, z_s) / Σ_s' d(z, z_s') y_s, d(a, b) = exp(cos(a, b) / τ).

    z [N, D], support [S, D], label distributions [S, K] -> probs [N, K].
    """
    similarity = F.normalize(z, dim=-1) @ F.normalize(support, dim=-1).T
    return (similarity / temperature).softmax(-1) @ labels.to(similarity.dtype)


def soft_cross_entropy(probs: Tensor, target: Tensor) -> Tensor:
    """H(p, q) = -Σ_k p_k log q_k for each sample. probs [N, K], target [N, K] -> [N].

    A class of probability 0 in both (no such label in the support) adds nothing, without gradient.
    """
    return -(target * probs.clamp_min(torch.finfo(probs.dtype).tiny).log()).sum(-1)


def entropy(probs: Tensor) -> Tensor:
    """H(q) = -Σ_k q_k log q_k; me-max maximises that of the mean q̄. probs [..., K] -> [...]."""
    return soft_cross_entropy(probs, probs)


def gaussian_kl(mu: Tensor, sigma: Tensor, prior: float) -> Tensor:
    """KL(N(µ, σ²) ‖ N(0, s²)) = log(s/σ) + (σ² + µ²)/2s² - ½, elementwise (ELBO, appendix B.1)."""
    return (prior / sigma).log() + (sigma.square() + mu.square()) / (2 * prior**2) - 0.5


class Groups(NamedTuple):
    """Sums over the samples of each of G groups, float64 [G]; those of several batches add up."""

    size: Tensor
    confidence: Tensor
    correct: Tensor


def group(index: Tensor, groups: int, confidence: Tensor, correct: Tensor) -> Groups:
    """Sum N samples by group. index [N], confidence [N], correct [N] -> Groups of [G]."""
    held = torch.stack([torch.ones_like(confidence, dtype=torch.float64), confidence.double(), correct.double()])
    return Groups(*held.new_zeros(3, groups).index_add_(1, index, held))


def bin_of(confidence: Tensor, bins: int) -> Tensor:
    """The bin ((m-1)/M, m/M] of a confidence, from 0; 0.0 is in the first. [...] -> [...]."""
    # Edges in the dtype of the confidence, so that 0.6 is in (0.5, 0.6] in float32 and float64.
    edges = (torch.arange(1, bins, dtype=torch.float64, device=confidence.device) / bins).to(confidence.dtype)
    return torch.bucketize(confidence, edges)


def top(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence, and whether it is correct. probs [N, K], labels [N] -> [N], bool [N]."""
    confidence, predicted = probs.max(-1)
    return confidence, predicted == labels


def equal_width_bins(probs: Tensor, labels: Tensor, bins: int = 10) -> Groups:
    """The bins B_m of Eq. (3). probs [N, K], labels [N] -> Groups of [M]."""
    confidence, correct = top(probs, labels)
    return group(bin_of(confidence, bins), bins, confidence, correct)


def ece_of_bins(bins: Groups) -> Tensor:
    """ECE, Eq. (3): Σ_m |B_m|/N |acc(B_m) - conf(B_m)|; |B_m| cancels. Groups of [M] -> scalar."""
    return (bins.correct - bins.confidence).abs().sum() / bins.size.sum()


def mce_of_bins(bins: Groups) -> Tensor:
    """Maximum calibration error: the largest |acc(B_m) - conf(B_m)|. Groups of [M] -> scalar."""
    return ((bins.correct - bins.confidence).abs() / bins.size.clamp_min(1)).amax()


def ece(probs: Tensor, labels: Tensor, bins: int = 10) -> Tensor:
    """Expected calibration error, Eq. (3). probs [N, K], labels [N] -> scalar."""
    return ece_of_bins(equal_width_bins(probs, labels, bins))


def mce(probs: Tensor, labels: Tensor, bins: int = 10) -> Tensor:
    """Maximum calibration error in the bins of `ece`. probs [N, K], labels [N] -> scalar."""
    return mce_of_bins(equal_width_bins(probs, labels, bins))


def ece_of_batches(probs: Tensor, labels: Tensor, batch: int = 64, bins: int = 10) -> Tensor:
    """As the paper's released code: the mean ECE of test batches, weighted by size. -> scalar.

    Only for comparison: with few samples per bin, even a perfectly calibrated model scores well
    above zero.
    """
    confidence, correct = top(probs, labels)
    number = torch.arange(len(confidence), device=confidence.device) // batch
    index = number * bins + bin_of(confidence, bins)
    return ece_of_bins(group(index, -(-len(confidence) // batch) * bins, confidence, correct))


def residual(probs: Tensor, labels: Tensor) -> Tensor:
    """q - y with y one-hot, in float64. probs [N, K], labels [N] -> [N, K]."""
    # In place: for 50,000 x 1,000, a one-hot matrix would take most of the time.
    index = labels[:, None]
    return probs.to(torch.float64, copy=True).scatter_add_(1, index, -torch.ones_like(index, dtype=torch.float64))


def classwise_ece(probs: Tensor, labels: Tensor, bins: int = 10) -> Tensor:
    """Mean over classes k of the ECE of q_k against "the label is k" (Kull et al. 2019).

    probs [N, K], labels [N] -> scalar.
    """
    gap = residual(probs, labels)
    sums = gap.new_zeros(bins, probs.shape[-1]).scatter_add_(0, bin_of(probs, bins), gap)
    return sums.abs().sum() / probs.numel()


def by_confidence(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Confidence in descending order, and correctness. probs [N, K], labels [N] -> [N], [N].

    Samples of equal confidence (many saturate at 1.0) all get their mean correctness, so that the
    order among them does not matter.
    """
    confidence, correct = top(probs, labels)
    confidence, order = confidence.double().sort(descending=True)
    tie = (confidence.diff(prepend=confidence[:1]) != 0).cumsum(0)
    ties = group(tie, len(tie), confidence, correct[order])
    return confidence, (ties.correct / ties.size)[tie]


def equal_mass_ece(probs: Tensor, labels: Tensor, bins: int = 10) -> Tensor:
    """ECE over bins with equal numbers of samples (± 1). probs [N, K], labels [N] -> scalar.

    Where an edge cuts through a tie, each sample counts with the mean correctness of the tie.
    """
    confidence, correct = by_confidence(probs, labels)
    number = torch.arange(len(confidence), device=confidence.device) * bins // len(confidence)
    return ece_of_bins(group(number, bins, confidence, correct))


def aurc(probs: Tensor, labels: Tensor) -> Tensor:
    """Area under the risk-coverage curve: the error of the n most confident, averaged over n.

    probs [N, K], labels [N] -> scalar. Ties count with the expectation over their orders (Geifman
    et al. 2019).
    """
    _, correct = by_confidence(probs, labels)
    covered = torch.arange(1, len(correct) + 1, device=correct.device)
    return ((1 - correct).cumsum(0) / covered).mean()


def nll(probs: Tensor, labels: Tensor) -> Tensor:
    """Mean negative log-likelihood, with probabilities floored at `NLL_FLOOR`.

    probs [N, K], labels [N] -> scalar.
    """
    return -probs.gather(-1, labels[:, None]).double().clamp_min(NLL_FLOOR).log().mean()


def brier(probs: Tensor, labels: Tensor) -> Tensor:
    """Brier score of K classes, from 0 to 2: the mean of Σ_k (q_k - y_k)².

    probs [N, K], labels [N] -> scalar.
    """
    return residual(probs, labels).square_().sum(-1).mean()
