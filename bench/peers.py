"""A FixMatch step of WRN-28-2, 16 labelled and 112 unlabelled images, beside those of two published codes; and the
seconds until 60 % on features of CIFAR-10, beside scikit-learn.

The steps, each on one thread, with the views made in the same thread:

- ours: batched views, a pass without gradients over the weak views, one with gradients over the labelled and strong
  ones, channels last; in float32, and in `precision auto`.
- USB (github.com/microsoft/Semi-supervised-learning, semilearn; `config/classic_cv/fixmatch`), by shape: convolutions
  with biases, activations that keep their input, channels first, float32 (`amp: False`); one pass over labelled, weak
  and strong together with gradients on everything (`use_cat: True`); views by Pillow, image by image, a crop and a
  flip, for the strong ones three operations of RandAugment, always, and a cutout of up to half a side (here of half);
  one worker process. SGD with Nesterov momentum. The average is updated weight by weight, and network and average are
  copied to a third network.
- the paper's released code (github.com/clott3/BaM-SSL, which started from kekmodel/FixMatch-pytorch), by shape: no
  biases, activations in place; one pass as above; views likewise, but two operations, each with probability 1/2; four
  worker processes. SGD and average likewise, without copies. Its autocast is CUDA's, so that on a CPU it
  computes in float32.

The shapes of the two are theirs and the code here is ours. The network is our own, changed to their shape, and the
Pillow views are those that our tests compare with. Left out of theirs: loading by worker processes, which would need
cores of their own, logging, and the released code's metrics of each batch. "views" is what such workers could hide.
Times are the thread's own, without those in which the machine did something else.

From features to 60 %: with CIFAR_DIR set to the folder of CIFAR-10; 5,000 test pictures are the pool, 40 of them
labelled, and the other 5,000 tell the accuracy. Features are EfficientNet-Lite0's, from the cache where they are there,
and their time is not counted. One run of each, one seed; evaluations do not count. `inf` is never.
"""

import os
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from bench.step import RUN, whole_step
from bench.timing import Row, interleaved
from surelabel.config.recipes import embeddings
from surelabel.config.run import RunConfig
from surelabel.data.arrays.embeddings import EmbeddingSource
from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.data.open import open_data
from surelabel.data.source import UNLABELLED, DataSet
from surelabel.data.statistics import channel_statistics
from surelabel.methods.base import Pool
from surelabel.models.backbones.wideresnet import Block, WideResNet
from surelabel.models.encoders import open_encoder
from surelabel.models.frozen_features import encoded
from surelabel.training import build, build_data
from surelabel.training.evaluate import predict
from surelabel.training.loop import lr_factor, prepare_to_save, set_learning_rates, training_step
from surelabel.utils.rng import generator
from tests.data.views import photographs, pillow_policy

ROUNDS, POOL = 9, 5_000
THRESHOLD, GOAL, SEED, PER_CLASS, EVERY = 0.95, 0.6, 2718, 4, 20
Images = NDArray[np.uint8]


@dataclass(frozen=True)
class Peer:
    """What a step of a published code is made of."""

    operations: int  # of RandAugment
    probability: float  # of each
    biases: bool  # in convolutions
    in_place: bool  # activations
    copies: bool  # of the network and of the average, to a third network


PEERS = {"USB": Peer(3, 1.0, True, False, True), "released": Peer(2, 0.5, False, True, False)}


def run() -> Iterator[Row]:
    torch.set_num_threads(1)
    yield from steps(RUN, photographs.crops(POOL, 3, 32, 32))
    if folder := os.environ.get("CIFAR_DIR"):
        with threadpool_limits(1):
            yield from until_goal(*cifar_features(folder))


def steps(config: RunConfig, images: Images, rounds: int = ROUNDS) -> list[Row]:
    """Images per second and ratios of whole steps, and of the peers' views alone."""
    data = user_data_set("photographs", ArraySource(images, np.arange(len(images)) % 10, list("0123456789")), None)
    config = replace(config, threads=1)
    candidates: dict[str, Callable[[], object]] = {
        "float32": whole_step(data, replace(config, precision="32")),
        "auto": whole_step(data, replace(config, precision="auto")),
    }
    for name, peer in PEERS.items():
        draw = partial(peer_views, peer, images, config, np.random.default_rng(0))
        learn = peer_step(peer, config, data)
        candidates |= {name: partial(_whole, learn, draw), f"{name}, views": draw}
    found = interleaved(candidates, rounds, time.process_time)
    count = config.batch.labelled * (1 + config.batch.ratio)
    rows = [Row(f"step: {name}", count / found[name], "images/s") for name in candidates]
    for ours, how in {"float32": "ours in float32", "auto": "ours, precision auto"}.items():
        rows += [found.ratio(f"step: {name} / {how}", name, ours) for name in PEERS]
    rows.append(found.ratio("step: ours in float32 / ours, precision auto", "float32", "auto"))
    return rows + [found.ratio(f"step: views / whole step of {name}", f"{name}, views", name) for name in PEERS]


def _whole(learn: Callable[[Tensor, Tensor], None], draw: Callable[[], tuple[Tensor, Tensor]]) -> None:
    learn(*draw())


def peer_network(peer: Peer, config: RunConfig, data: DataSet) -> nn.Sequential:
    made = build.build_network(build.resolve(config), build_data.task_of(data))
    network = nn.Sequential(made.backbone, made.head).to(memory_format=torch.contiguous_format).train()  # type: ignore[call-overload]
    for module in network.modules():
        if peer.biases and isinstance(module, nn.Conv2d):
            module.bias = nn.Parameter(torch.zeros(module.out_channels))
        if isinstance(module, Block | WideResNet):
            module.activation = nn.LeakyReLU(0.1, inplace=peer.in_place)
    return network  # type: ignore[no-any-return]


def peer_views(peer: Peer, pool: Images, config: RunConfig, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Labelled, weak and strong views as floats [B + 2U, C, H, W], and labels [B]; each image by itself."""
    batch, unlabelled = config.batch.labelled, config.batch.labelled * config.batch.ratio
    chosen = random.integers(len(pool), size=batch + unlabelled)
    mean, std = torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.25)

    def view(image: Images, strong: bool) -> Tensor:
        side = min(image.shape[1:])
        made = pillow_policy.flip_crop(pillow_policy.to_pillow(image), random.random(3).tolist(), side // 8)
        if strong:
            draws = random.random(4 * peer.operations + 2).tolist()
            made = pillow_policy.rand_augment(made, draws[:-2], peer.probability)
            made = pillow_policy.cutout(made, draws[-2:], side // 2)
        pixels = torch.from_numpy(np.array(made)).permute(2, 0, 1).contiguous()
        return pixels.to(torch.float32).div(255).sub(mean).div(std)

    both = [(view(image, False), view(image, True)) for image in pool[chosen[batch:]]]
    weak, strong = (torch.stack(views) for views in zip(*both, strict=True))
    labelled = torch.stack([view(image, False) for image in pool[chosen[:batch]]])
    return torch.cat([labelled, weak, strong]), torch.from_numpy(chosen[:batch] % 10)


def peer_step(peer: Peer, config: RunConfig, data: DataSet) -> Callable[[Tensor, Tensor], None]:
    """From views to updated weights and their average."""
    network = peer_network(peer, config, data)
    average, shown = deepcopy(network), deepcopy(network)
    weights = list(network.parameters())
    groups: list[dict[str, Any]] = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": 5e-4},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.SGD(groups, 0.03, momentum=0.9, nesterov=True)

    def step(images: Tensor, labels: Tensor) -> None:
        logits = network(images)
        weak, strong = logits[len(labels) :].chunk(2)
        confidence, target = weak.detach().softmax(-1).max(-1)
        loss = F.cross_entropy(logits[: len(labels)], labels)
        accepted = (confidence >= THRESHOLD).float()
        loss = loss + (F.cross_entropy(strong, target, reduction="none") * accepted).mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        with torch.no_grad():
            for mean, weight in zip(average.parameters(), weights, strict=True):
                mean.copy_(0.999 * mean + 0.001 * weight)
            if peer.copies:
                shown.load_state_dict(network.state_dict())
                shown.load_state_dict(average.state_dict())

    return step


def cifar_features(folder: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The features [N, d] and classes [N] of the test pictures."""
    test = open_data("cifar10", folder).test
    assert test is not None
    return encoded(test, open_encoder("efficientnet-lite0")).features, test.labels


def until_goal(features: NDArray[np.float32], classes: NDArray[np.int64], pool: int = POOL) -> Iterator[Row]:
    """Seconds and accuracy of each learner, and the seconds until it first passes the goal."""
    order = generator(SEED, "peers").permutation(len(features))
    train, test = order[:pool], order[pool:]
    labels = np.full(pool, UNLABELLED)
    for number in np.unique(classes):
        chosen = np.flatnonzero(classes[train] == number)[:PER_CLASS]
        labels[chosen] = number
    names = [str(number) for number in np.unique(classes)]
    data = user_data_set(
        "features",
        EmbeddingSource(features[train], labels, names),
        EmbeddingSource(features[test], classes[test], names),
    )
    data = replace(data, normalisation=channel_statistics(data.train, len(data.train)))
    small = embeddings("bam-uda", "custom")
    runs = {
        "sure": embeddings("sure", "custom"),
        "bam-uda": replace(small, network=replace(small.network, name="mlp-1-256")),
    }
    learners: dict[str, Callable[[], list[tuple[float, float]]]] = {
        f"scikit-learn's {name}": partial(at_once, model, features[train], labels, features[test], classes[test])
        for name, model in rivals().items()
    }
    learners |= {f"our {name}": partial(in_steps, replace(run, seed=SEED), data) for name, run in runs.items()}
    for name, learn in learners.items():
        course = learn()
        seconds, accuracy = course[-1]
        passed = next((when for when, reached in course if reached >= GOAL), float("inf"))
        yield Row(f"features: {name}, in all", seconds, "s")
        yield Row(f"features: {name}, accuracy at the end", 100 * accuracy, "%")
        yield Row(f"features: {name}, until {GOAL:.0%}", passed, "s")


def rivals() -> dict[str, Any]:
    """With scikit-learn's own settings, on standardised rows; its rbf kernel would be zero between all of them, so that
    LabelSpreading has ten neighbours, on rows of unit length.
    """
    linear = LogisticRegression(max_iter=1000)
    return {
        "LogisticRegression, labels alone": make_pipeline(StandardScaler(), OfLabelled(max_iter=1000)),
        "SelfTrainingClassifier(LogisticRegression)": make_pipeline(StandardScaler(), SelfTrainingClassifier(linear)),
        "LabelSpreading": make_pipeline(StandardScaler(), Normalizer(), LabelSpreading(kernel="knn", n_neighbors=10)),
    }


class OfLabelled(LogisticRegression):  # type: ignore[misc]
    """Logistic regression that leaves the unlabelled rows out."""

    def fit(self, X: Any, y: Any) -> "OfLabelled":
        super().fit(X[y != UNLABELLED], y[y != UNLABELLED])
        return self


def at_once(model: Any, rows: Any, labels: Any, test: Any, classes: Any) -> list[tuple[float, float]]:
    """Seconds to learn and to predict, and the accuracy."""
    start = time.process_time()
    right = model.fit(rows, labels).predict(test) == classes
    return [(time.process_time() - start, float(right.mean()))]


def in_steps(config: RunConfig, data: DataSet, every: int = EVERY) -> list[tuple[float, float]]:
    """The seconds and the accuracy after each so many steps; the time of earlier evaluations is not counted."""
    assert data.test is not None
    start, waited = time.process_time(), 0.0
    config = build.resolve(replace(config, device="cpu", threads=1))
    labelled = build_data.build_split(config, data)
    method = build.build_method(config, len(data.train))
    loader = build.build_loader(config, data, labelled)
    network = build.build_network(config, build_data.task_of(data))
    method.before_training(network, loader)
    state = build.build_state(config, network, method, Pool.of(loader))
    network.train()
    course = []
    while state.step < config.steps:
        set_learning_rates(state, lr_factor(config.optimizer, state.step, config.steps))
        training_step(method, network, state, loader(state.step), torch.autograd.backward, config.precision)
        if state.step % every == 0 or state.step == config.steps:
            pause = time.process_time()
            prepare_to_save(config, method, state, loader)
            probs = predict(state.networks[-1], data.test, np.arange(len(data.test)), config.evaluation.batch).probs
            accuracy = float((probs.argmax(1).numpy() == data.test.labels).mean())
            last = time.process_time()
            course.append((last - start - waited, accuracy))
            waited += last - pause
    return course
