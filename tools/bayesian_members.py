"""`sure` with a variational Gaussian last layer in each member instead of a linear one, beside it on the same draws.

    python tools/bayesian_members.py vowel satimage FEATURES.npz --labels 100 --draws 5

Data are those of tools/sure_settings.py. Logits are sampled for the loss and averaged over in closed form for
pseudo-labels and predictions; the KL term is divided by the size of the pool, or by the number of labels. Prints, for
each data set and form, accuracy / ECE / log loss as means over draws, and below them the difference from plain members
with its 95 % interval over sets and draws.
"""

import argparse
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from scipy.stats import t as student
from sure_settings import FIRST, scores
from torch import Tensor, nn
from torch.nn import functional

import surelabel.methods.sure as module
from surelabel.config.run import RunConfig
from surelabel.equations import gaussian_kl
from surelabel.methods.base import Losses, State
from surelabel.methods.sure import Sure, sure
from surelabel.models.gaussian_softmax import softmax_moments
from surelabel.models.members_head import MembersHead
from surelabel.models.network import Network
from surelabel.utils.rng import generator

PRIOR_STD = 1.0


class BayesianMembers(MembersHead):
    """Members whose last layer has a Gaussian for each weight; its std begins at softplus(-3) = 0.05."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.weight_rho, self.bias_rho = (nn.Parameter(torch.full_like(mean, -3)) for mean in (self.weight, self.bias))
        self.draws = 0

    def moments(self, components: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and std of the logits [E, N, K]."""
        members, _, width = self.hidden_weight.shape
        hidden = torch.baddbmm(
            self.hidden_bias.view(members, 1, width), components.expand(members, -1, -1), self.hidden_weight
        )
        hidden = functional.relu(functional.layer_norm(hidden, (width,)))
        variance = (
            functional.softplus(self.bias_rho)[:, None] ** 2 + hidden**2 @ functional.softplus(self.weight_rho) ** 2
        )
        return torch.baddbmm(self.bias[:, None], hidden, self.weight), variance.sqrt()

    def forward(self, components: Tensor, noise: None = None) -> Tensor:
        mean, std = self.moments(components)
        random = generator(0, "Bayesian members", self.draws).standard_normal(tuple(mean.shape), dtype=np.float32)
        self.draws += 1
        return (mean + std * torch.from_numpy(random)).transpose(0, 1)

    def member_logs(self, components: Tensor) -> Tensor:
        mean, std = self.moments(components)
        probs = softmax_moments(mean.flatten(0, 1), std.flatten(0, 1), 50)[0]
        return probs.clamp_min(1e-12).log().view(mean.shape).transpose(0, 1)

    def kl_of_members(self) -> Tensor:
        pairs = ((self.weight, self.weight_rho), (self.bias, self.bias_rho))
        return sum(
            (gaussian_kl(mean, functional.softplus(rho), PRIOR_STD).sum() for mean, rho in pairs), torch.zeros(())
        )


@dataclass(frozen=True)
class BayesianSure(Sure):
    """The KL term is divided by `by`, or by the size of the pool."""

    by: int | None = None

    def build_head(self, config: RunConfig, features: int, classes: int) -> BayesianMembers:
        members, width = config.members
        return BayesianMembers(features, width, classes, members, self.folds)

    def configured(self, config: RunConfig, samples: int = 1) -> Sure:
        return replace(super().configured(config, samples), by=self.by or samples)  # type: ignore[call-arg]

    def loss(self, model: nn.Module, teacher: Network, batch: Any, state: State, step: int) -> tuple[Losses, State]:
        losses, state = super().loss(model, teacher, batch, state, step)
        head = getattr(model, "module", model).head
        return Losses(losses.total + head.kl_of_members() / self.by, *list(vars(losses).values())[1:]), state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    forms = {
        "plain": sure,
        "Bayesian, KL / pool": BayesianSure(),
        "Bayesian, KL / labels": BayesianSure(by=options.labels),
    }
    found: dict[str, list[tuple[float, ...]]] = {form: [] for form in forms}
    for data in options.data:
        for number in range(options.draws):
            for form, method in forms.items():
                with patch.object(module, "sure", method):
                    found[form].append(scores(data, options.labels, FIRST + number, {})[:3])
        for form, rows in found.items():
            accuracy, ece, nll = np.mean(rows[-options.draws :], axis=0)
            print(f"{data}, {form}: {accuracy:.1%} / {ece:.3f} / {nll:.3f}", flush=True)
    plain = np.array(found.pop("plain"))
    for form, rows in found.items():
        off = np.array(rows) - plain
        half = student.ppf(0.975, len(off) - 1) * off.std(0, ddof=1) / len(off) ** 0.5
        print(form, "minus plain:", "; ".join(f"{m:+.4f} ± {h:.4f}" for m, h in zip(off.mean(0), half, strict=True)))


if __name__ == "__main__":
    main()
