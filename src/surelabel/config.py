"""A run, complete: frozen plain dataclasses. Imports no torch, so that --help is quick.

Where a field of a method's part is None, the method's own published value holds (see `methods/`); the configuration
that a run folder stores has every value filled in.

A duration is a number of steps, or, below one, a fraction of the run.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from surelabel.errors import UserError, closest

Forward = Literal["joint", "split"]
WeakNorm = Literal["batch", "batch-kept", "running"]
Device = Literal["auto", "cpu", "cuda"]

METHODS = (
    "supervised",
    "pseudo-label",
    "uda",
    "fixmatch",
    "bam-pseudo-label",
    "bam-uda",
    "bam-uda-no-sigma",
    "bam-fixmatch",
)


@dataclass(frozen=True)
class Batch:
    """How many images a step sees.

    Args:
        labelled: labelled images in a step (the paper's B)
        ratio: unlabelled images for each labelled one (the paper's µ)
    """

    labelled: int = 64
    ratio: int = 7


@dataclass(frozen=True)
class Network:
    """The network.

    Args:
        name: wrn-DEPTH-WIDTH (depth 10, 16, 22, 28, ...), resnet-18 or resnet-50
        padding: what lies beyond an image's border: zeros, or, for a periodic image such as a crystal, its other side
        stem_stride: 2 halves the image at the first layer: a quarter of the work
        norm_momentum: how fast BatchNorm's running statistics follow the batches
    """

    name: str = "wrn-28-2"
    padding: Literal["zeros", "circular"] = "zeros"
    stem_stride: int = 1
    norm_momentum: float = 0.001


@dataclass(frozen=True)
class Views:
    """The random views of an image: none, weak, strong or periodic.

    Args:
        labelled: of the labelled images
        weak: of the unlabelled images, to predict on
        strong: of the unlabelled images, to learn from
    """

    labelled: Literal["none", "weak", "strong", "periodic"] = "weak"
    weak: Literal["none", "weak", "strong", "periodic"] = "weak"
    strong: Literal["none", "weak", "strong", "periodic"] = "strong"


@dataclass(frozen=True)
class Selection:
    """Which pseudo-labels to trust.

    Args:
        threshold: accept where the largest probability is at least this (the paper's τ)
        sharpened: apply that threshold to the sharpened probabilities, as the released code of UDA does
        quantile: accept this share of the least uncertain (the paper's Q; for a Bayesian head)
        start: the share at the first step
        warmup: a duration: how long the share takes to rise from start to quantile
        window: how many batches' quantiles the threshold is the mean of
        statistic: what is averaged over those batches: the variance or its root
        inclusive: accept at the threshold too
        previous: leave the present batch out of the threshold
    """

    threshold: float | None = None
    sharpened: bool = False
    quantile: float | None = None
    start: float = 0.1
    warmup: float = 10_240
    window: int = 50
    statistic: Literal["variance", "std"] = "variance"
    inclusive: bool = True
    previous: bool = False


@dataclass(frozen=True)
class Target:
    """What to learn from a prediction.

    Args:
        temperature: sharpen the prediction to the power 1/t; 0 takes the most likely class alone
        twice: sharpen each sampled prediction of a Bayesian head too, before their mean
    """

    temperature: float | None = None
    twice: bool = False


@dataclass(frozen=True)
class Head:
    """The Bayesian last layer of a bam- method, trained by Adam without weight decay.

    Args:
        samples: how many predictions are averaged (the paper's M)
        sampling: draw logits from the Gaussian that the layer induces, or weights as the paper does
        prior: deviation of the weights' Gaussian prior
        lr: Adam's learning rate, which falls as the other one does
        kl: the prior's term in the loss: elbo sums it over the weights and divides by the number of training samples;
            mean is the released code's mean over the weights divided by the labelled batch
        kl_weight: of that term
        kl_warmup: a duration: how long that weight takes to rise from zero, as one minus a cosine
    """

    samples: int = 50
    sampling: Literal["logits", "weights"] = "logits"
    prior: float = 1.0
    lr: float = 0.01
    kl: Literal["elbo", "mean"] = "elbo"
    kl_weight: float = 1.0
    kl_warmup: float = 0


@dataclass(frozen=True)
class Optimizer:
    """Stochastic gradient descent, its rate falling as lr · cos(7πk / 16K).

    Args:
        lr: learning rate at the first step
        momentum: momentum
        nesterov: Nesterov's form of it
        weight_decay: of weights; biases and BatchNorm are spared
    """

    lr: float = 0.03
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4


@dataclass(frozen=True)
class Average:
    """The moving average of the weights that is evaluated.

    Args:
        decay: share of the average that a step keeps
        warm: begin with a smaller decay, (1 + n) / (10 + n), so that a short run forgets its initial weights
        buffers: BatchNorm's running statistics in the averaged network: copied from the network, or averaged too
    """

    decay: float = 0.999
    warm: bool = False
    buffers: Literal["copy", "average"] = "copy"


@dataclass(frozen=True)
class Evaluation:
    """When and on what the network is tested while it trains.

    Args:
        every: a duration: steps between two evaluations
        samples: how many test images, the same at each evaluation; all of them when not given, and always at the end
        batch: images at a time
    """

    every: float = 1024
    samples: int | None = None
    batch: int = 256


@dataclass(frozen=True)
class Run:
    """One training run.

    Args:
        method: supervised, pseudo-label, uda, fixmatch, or bam- before one of the last three; bam-uda-no-sigma
        data: phc, cifar10, cifar100, mnist, fashion-mnist, or the path of a folder, .npz or .npy file
        data_dir: where the files of a named data set are
        labels: how many labels to use: a number, a percentage of each class such as 10%, or all
        fidelity: where the paper and its released code differ, which to follow; each point is also a setting of its own
        seed: of everything that is random
        steps: how many training steps
        out: the run folder; runs/METHOD-DATA-LABELS-seedSEED when not given
        weight: of the unlabelled loss (the paper's λ)
        forward: joint passes labelled, weak and strong views together; split passes the weak views without gradients
        weak_norm: with split, what BatchNorm normalises the weak views by: their own batch statistics, which also move
            the running ones (batch) or do not (batch-kept), or the running ones, which the other views make (running)
        device: auto, cpu or cuda
        threads: how many CPU threads; as many as there are cores when not given
    """

    method: str = "fixmatch"
    data: str = "phc"
    data_dir: str | None = None
    labels: int | str = "10%"
    fidelity: Literal["paper", "released"] = "paper"
    seed: int = 0
    steps: int = 2**20
    out: str | None = None
    weight: float | None = None
    forward: Forward | None = None
    weak_norm: WeakNorm | None = None
    device: Device = "auto"
    threads: int | None = None
    batch: Batch = field(default_factory=Batch)
    network: Network = field(default_factory=Network)
    views: Views = field(default_factory=Views)
    selection: Selection = field(default_factory=Selection)
    target: Target = field(default_factory=Target)
    head: Head = field(default_factory=Head)
    optimizer: Optimizer = field(default_factory=Optimizer)
    average: Average = field(default_factory=Average)
    evaluation: Evaluation = field(default_factory=Evaluation)

    @property
    def folder(self) -> Path:
        """Where the run is kept."""
        data = Path(self.data).stem if "/" in self.data else self.data
        labels = str(self.labels).replace("%", "pct")
        return Path(self.out or f"runs/{self.method}-{data}-{labels}-seed{self.seed}")


def steps_of(duration: float, steps: int) -> int:
    """A duration in steps: a number below one is a fraction of the run's `steps`, at least one step unless it is 0."""
    return max(1, round(duration * steps)) if 0 < duration < 1 else int(duration)


def validate(run: Run) -> Run:
    """The run itself, or a `UserError` for what no type can forbid."""
    if run.method not in METHODS:
        raise UserError(f"there is no method {run.method!r}.{closest(run.method, METHODS)}")
    positive = {
        "steps": run.steps,
        "batch.labelled": run.batch.labelled,
        "batch.ratio": run.batch.ratio,
        "optimizer.lr": run.optimizer.lr,
        "evaluation.every": run.evaluation.every,
        "evaluation.batch": run.evaluation.batch,
        "network.stem_stride": run.network.stem_stride,
        "selection.window": run.selection.window,
        "head.samples": run.head.samples,
        "head.prior": run.head.prior,
        "head.lr": run.head.lr,
    }
    if run.batch.labelled < 2:
        raise UserError("batch.labelled must be at least 2: BatchNorm needs more than one image")
    optional = {"evaluation.samples": run.evaluation.samples, "threads": run.threads}
    for key, value in (positive | {k: v for k, v in optional.items() if v is not None}).items():
        if not value > 0:
            raise UserError(f"{key} must be above zero, and is {value}")
    shares = {"average.decay": run.average.decay, "optimizer.momentum": run.optimizer.momentum}
    shares["selection.start"] = run.selection.start
    if run.selection.threshold is not None:
        shares["selection.threshold"] = run.selection.threshold
    if run.selection.quantile is not None:
        shares["selection.quantile"] = run.selection.quantile
    for key, value in (shares | {"network.norm_momentum": run.network.norm_momentum}).items():
        if not 0 <= value <= 1:
            raise UserError(f"{key} must lie between 0 and 1, and is {value}")
    weights = {"weight": run.weight, "target.temperature": run.target.temperature}
    weights |= {"head.kl_weight": run.head.kl_weight, "head.kl_warmup": run.head.kl_warmup}
    weights |= {"selection.warmup": run.selection.warmup}
    for key, amount in (weights | {"optimizer.weight_decay": run.optimizer.weight_decay}).items():
        if amount is not None and not amount >= 0:
            raise UserError(f"{key} must not be negative, and is {amount}")
    if run.optimizer.nesterov and run.optimizer.momentum == 0:
        raise UserError("optimizer.nesterov needs a momentum above zero")
    return run
