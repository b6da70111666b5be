"""What Bayesian model averaging adds to a UDA step of WRN-28-2 with B = 16, µ = 7 on two threads."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from bench.step import RUN, noise_data, whole_step
from bench.timing import Row, interleaved
from surelabel.methods.base import Pool, PoolPrediction
from surelabel.methods.kl_term import PriorLoss
from surelabel.methods.selection import Confidence, Select, Uncertainty
from surelabel.models.heads import Bayesian, BayesianHead, LinearHead, Sampling
from surelabel.utils.rng import generator

LABELLED, UNLABELLED, FEATURES = 16, 112, 128


def run() -> list[Row]:
    torch.set_num_threads(2)
    data = noise_data(50_000)
    by_weights = replace(RUN.head, sampling="weights")
    runs = {
        "uda": replace(RUN, method="uda"),
        "bam-uda": replace(RUN, method="bam-uda"),
        "bam-uda, weights": replace(RUN, method="bam-uda", head=by_weights),
    }
    seconds = interleaved({name: whole_step(data, run) for name, run in runs.items()}, rounds=17)
    added = interleaved(
        {"bam": _head_work(10, 50, "logits"), "weights": _head_work(10, 50, "weights"), "point": _point(10)}
    )
    rows = [
        seconds.ratio("whole step, BAM-UDA / UDA", "bam-uda", "uda"),
        seconds.ratio("whole step, BAM-UDA sampling weights / UDA", "bam-uda, weights", "uda"),
        Row(
            "added by BAM, timed alone",
            100 * (added["bam"] - added["point"]) / seconds["uda"],
            "% of a step",
            "at most 1",
        ),
        Row("the same, sampling weights", 100 * (added["weights"] - added["point"]) / seconds["uda"], "% of a step"),
    ]
    growth = {(m, k): _head_work(k, m, "logits") for m in (2, 10, 50, 200) for k in (10, 100, 1000)}
    alone = interleaved({f"M = {m}, K = {k}": call for (m, k), call in growth.items()}, rounds=5)
    return rows + [Row(f"BAM's work alone, {name}", 1000 * time, "ms") for name, time in alone.items()]


def _head_work(classes: int, samples: int, sampling: Sampling) -> Callable[[], None]:
    """All that a Bayesian head does in a step: predict, select, forward, KL, backward, Adam."""
    head = BayesianHead(FEATURES, classes, Bayesian(samples, sampling))
    return _work(head, Uncertainty(0.95, warmup=0), torch.optim.Adam(head.parameters(), 0.01))


def _point(classes: int) -> Callable[[], None]:
    head = LinearHead(FEATURES, classes)
    return _work(head, Confidence(0.8), torch.optim.SGD(head.parameters(), 0.03, momentum=0.9, nesterov=True))


def _work(head: BayesianHead | LinearHead, select: Select, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    weak, learnt = torch.randn(UNLABELLED, FEATURES), torch.randn(LABELLED + UNLABELLED, FEATURES)
    pool = Pool(50_000, torch.ones(head.bias.shape if isinstance(head, LinearHead) else head.bias_mean.shape))
    state, prior = select.init(pool), PriorLoss(samples=50_000)

    def work() -> None:
        nonlocal state
        draws: np.random.Generator = generator(0, "bench")
        made = head.predict(weak, draws)
        _, state = select(PoolPrediction(made.probs, made.std), state, 0)
        loss = head(learnt, head.noise(draws)).logsumexp(-1).mean()
        kl = head.kl()
        torch.autograd.backward(loss if kl is None else loss + prior(kl, LABELLED))
        optimizer.step()
        optimizer.zero_grad()

    return work
