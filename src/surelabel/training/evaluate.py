"""Predictions for a source of samples, and their metrics."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surelabel.config.run import RunConfig
from surelabel.data.long_tail import by_group
from surelabel.data.source import UNLABELLED, Source, in_batches
from surelabel.models.network import Network
from surelabel.models.prediction import Prediction
from surelabel.training import metrics
from surelabel.utils.devices import autocast
from surelabel.utils.distributed import ALONE, World
from surelabel.utils.errors import UserError
from surelabel.utils.literals import Precision
from surelabel.utils.rng import generator, sample_order


class NotFinite(UserError):
    """The network has diverged."""


@torch.no_grad()
def predict(
    network: Network,
    source: Source,
    index: NDArray[np.int64],
    batch: int,
    precision: Precision = "32",
    world: World = ALONE,
) -> Prediction:
    """Class probabilities of these samples, on the CPU. Restores the network's mode.

    Evaluating twice gives the same metrics: a Bayesian head draws nothing, one with dropout always the same. So do
    several ranks, which share the batches out: in another batch, a prediction could round differently.
    """
    device = network.scale.device
    training = network.training
    network.eval()
    draws = generator(0, "evaluation")
    shares = shared_out(index, batch, world)
    batches = in_batches(source, shares[world.rank % len(shares)], batch)
    with autocast(precision, device):
        parts = [network.predict(torch.from_numpy(images).to(device), draws) for images in batches]
    network.train(training)

    def joined(rows: list[Tensor]) -> Tensor:
        own = torch.cat([part.cpu() for part in rows])
        return own if len(shares) == 1 else world.gather(own.to(device), list(map(len, shares))).cpu()

    stds = [part.std for part in parts if part.std is not None]
    prediction = Prediction(joined([part.probs for part in parts]), joined(stds) if stds else None)
    if not torch.isfinite(prediction.probs).all():
        raise NotFinite("the network's predictions are not finite: the training diverged")
    return prediction


def shared_out(index: NDArray[np.int64], batch: int, world: World) -> list[NDArray[np.int64]]:
    """The samples of each rank, in whole batches; all of them as the only share, if there are fewer batches."""
    batches = -(-len(index) // batch)
    if batches < world.size:
        return [index]
    return np.split(index, np.cumsum(world.divided(batches).shares)[:-1] * batch)


def labelled_indices(source: Source) -> NDArray[np.int64]:
    """The indices of the labelled samples."""
    return np.flatnonzero(source.labels != UNLABELLED)


def evaluation_subset(source: Source, samples: int | None) -> NDArray[np.int64]:
    """The test samples for every evaluation: all labelled ones, or a draw that is the same in every run."""
    index = labelled_indices(source)
    return index if samples is None or samples >= len(index) else index[_draw(len(index), samples)]


def fixed_sample(source: Source, samples: int) -> NDArray[np.int64]:
    """A fixed draw of samples, labelled or not."""
    return np.arange(len(source)) if samples >= len(source) else _draw(len(source), samples)


def _draw(size: int, samples: int) -> NDArray[np.int64]:
    return np.sort(sample_order(0, "test part", 0, samples, size))


def metrics_on(
    network: Network,
    source: Source,
    index: NDArray[np.int64],
    batch: int,
    precision: Precision = "32",
    world: World = ALONE,
) -> dict[str, float]:
    """The metrics of a network on these samples."""
    probs = predict(network, source, index, batch, precision, world).probs
    return metrics.evaluation(probs, torch.from_numpy(source.labels[index]))


def predict_test(network: Network, test: Source, config: RunConfig, world: World = ALONE) -> Prediction:
    """The prediction for all labelled test samples, in order."""
    return predict(network, test, labelled_indices(test), config.evaluation.batch, world=world)


def final_metrics(
    prediction: Prediction, raw: Network, test: Source, config: RunConfig, pool: Source, world: World = ALONE
) -> dict[str, Any]:
    """The metrics of this prediction for the whole test set, overall, by class and by group, and of the raw network."""
    index = labelled_indices(test)
    labels = torch.from_numpy(test.labels[index])
    probs = prediction.probs
    classes = [{"class": name} | row for name, row in zip(test.classes, metrics.per_class(probs, labels), strict=True)]
    return {
        "samples": len(index),
        "averaged": metrics.evaluation(probs, labels),
        "raw": metrics_on(raw, test, index, config.evaluation.batch, world=world),
        "classes": classes,
        "groups": by_group(pool.labels, len(test.classes), (probs.argmax(1) == labels).numpy(), labels.numpy()),
    }
