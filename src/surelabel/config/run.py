"""The config of a run: frozen dataclasses, whose docstrings are the help page. Imports no torch, to be quick.

None stands for the published value of the method (see `methods/`), which the config in a run folder has filled in.
A duration is a number of steps or, below one, a fraction of the run.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from surelabel.config.benchmarks import NAMED_DATA
from surelabel.config.constraints import (
    POSITIVE,
    AtLeast,
    NotNegative,
    NotNegativeInt,
    PositiveFloat,
    PositiveInt,
    Proportion,
    ReadIf,
    Share,
)
from surelabel.config.encoders import NGRAMS
from surelabel.config.methods import TAUGHT, find
from surelabel.utils.errors import UserError
from surelabel.utils.literals import Device, Drawn, Precision

Forward = Literal["joint", "split"]
WeakNorm = Literal["batch", "batch-kept", "running"]
Alignment = Literal["none", "mean", "sinkhorn", "debias"]
Prior = Literal["uniform", "labels", "labelled-predictions"]
CalibratorName = Literal[
    "none", "label-smoothing", "margin-penalty", "mixup", "mc-dropout", "last-layer-ensemble", "laplace"
]
AVERAGING = ("mc-dropout", "last-layer-ensemble")  # calibrators whose predictions have a std

CUSTOM = "custom"  # the name of a user component that is passed in Python
TABLE_VIEWS = ("noise", "corrupt")  # the other views are for images
TABLE_FILES = (".csv", ".parquet")
ARRAY_FILES = (".npy", ".npz")
JSON_LINES = ".jsonl"
TEXT_COLUMN = "text"  # of JSON lines, unless another is named
ViewName = Literal["none", "weak", "strong", "shift", "strong-shift", "periodic", "noise", "corrupt", "custom"]

# Settings about where a run is computed, not about what.
OF_THE_MACHINE = frozenset({"out", "data_dir", "device", "threads", "devices", "nodes", "precision", "compile"})
MACHINE = {"threads", "devices", "nodes"}  # may change on resume
MORE_STEPS = "the learning rate falls along a cosine to the planned last step, so more steps are another run"

OWN_NETWORK = ReadIf(lambda config: not config.train_encoder)
CONVOLUTIONAL = ReadIf(
    lambda config: not (config.train_encoder or config.network.name.startswith(("mlp-", "members-")))
)
TRAINED_ENCODER = ReadIf(lambda config: config.train_encoder)
WARMUP_COSINE = ReadIf(lambda config: config.optimizer.schedule == "warmup-cosine")
TO_PRIOR = ReadIf(lambda config: config.alignment in ("mean", "sinkhorn"))
HAS_SMALL_CROPS = ReadIf(lambda config: config.paws.small_crops > 0)


def calibrated_by(*names: CalibratorName) -> ReadIf:
    """The setting is read by these calibrators."""
    return ReadIf(lambda config: config.calibrator in names)


@dataclass(frozen=True)
class Batch:
    """The batch of a step.

    Args:
        labelled: labelled samples per step (the paper's B)
        ratio: unlabelled samples per labelled one (the paper's µ)
    """

    labelled: Annotated[int, AtLeast(2, "BatchNorm needs more than one sample")] = 64
    ratio: PositiveInt = 7


@dataclass(frozen=True)
class Network:
    """The network.

    Args:
        name: wrn-DEPTH-WIDTH (depth 10, 16, 22, 28, ...), resnet-18 or resnet-50; for tables, and on an encoder's
            features, mlp-DEPTH-WIDTH, for sure members-NUMBER-WIDTH
        padding: zeros, or circular for periodic images such as crystals
        stem_stride: 2 halves the image at the first layer: a quarter of the work
        norm: BatchNorm, or GroupNorm (in an mlp: LayerNorm), which does not depend on the other samples of the batch
        norm_momentum: momentum of BatchNorm's running statistics; in PAWS's projection always 0.1
    """

    name: Annotated[str, OWN_NETWORK] = "wrn-28-2"
    padding: Annotated[Literal["zeros", "circular"], CONVOLUTIONAL] = "zeros"
    stem_stride: Annotated[PositiveInt, CONVOLUTIONAL] = 1
    norm: Annotated[Literal["batch", "group"], ReadIf(lambda config: config.chooses_norm)] = "batch"
    norm_momentum: Annotated[Share, ReadIf(lambda config: config.chooses_norm and config.network.norm != "group")] = (
        0.001
    )


@dataclass(frozen=True)
class Tuning:
    """An encoder that is trained further: see `train_encoder`.

    Args:
        lr_share: its learning rate, as a share of optimizer.lr, which the head has
        norm: frozen: its BatchNorm keeps the statistics of the original training; batch: it takes each batch's
    """

    lr_share: Annotated[Share, TRAINED_ENCODER] = 0.01
    norm: Annotated[Literal["frozen", "batch"], TRAINED_ENCODER] = "frozen"


@dataclass(frozen=True)
class Views:
    """The random views of a sample.

    Args:
        labelled: of the labelled samples. Images: none, weak, strong; shift and strong-shift, the same without
            mirroring, as for digits; periodic. Tables: none, noise, corrupt
        weak: of the unlabelled samples, to predict on
        strong: of the unlabelled samples, to learn from
    """

    labelled: ViewName = "weak"
    weak: ViewName = "weak"
    strong: ViewName = "strong"


@dataclass(frozen=True)
class Table:
    """How a table is read, and the strength of its views.

    Args:
        categorical: columns of numbers to treat as categories, separated by commas
        ignored: columns to leave out, separated by commas
        noise: std of the noise that the view noise adds to a numeric column, in units of the column's std
        corruption: probability that the view corrupt replaces a value by that of another row
    """

    categorical: Annotated[str, ReadIf(lambda config: config.tabular)] = ""
    ignored: Annotated[str, ReadIf(lambda config: config.tabular)] = ""
    noise: Annotated[NotNegative, ReadIf(lambda config: config.sees("noise"))] = 0.3
    corruption: Annotated[Share, ReadIf(lambda config: config.sees("corrupt"))] = 0.2


@dataclass(frozen=True)
class Align:
    """Distribution alignment: pseudo-labels are given the classes' shares, before they are selected.

    Args:
        rule: none; mean: each class by its share over the moving mean of the predictions; sinkhorn: the last
            predictions until all classes have their shares. Default: the method's own
        prior: the classes' shares: uniform, labels (those of the labels), labelled-predictions (the moving mean of the
            predictions for them), or a number for each class, separated by commas, which sum to 1
        decay: decay of the moving means
        queue: over how many predictions sinkhorn meets the shares; at least ten for each class
    """

    rule: Literal["none", "mean", "sinkhorn"] | None = None
    prior: Annotated[str | None, TO_PRIOR] = None
    decay: Annotated[Share | None, ReadIf(lambda config: config.alignment in ("mean", "debias"))] = None
    queue: Annotated[PositiveInt | None, ReadIf(lambda config: config.alignment == "sinkhorn")] = None


@dataclass(frozen=True)
class Selection:
    """Which pseudo-labels to accept.

    Args:
        threshold: accept if the largest probability is at least this (the paper's τ)
        sharpened: apply the threshold to the sharpened probabilities, as UDA's released code does
        quantile: accept this share of the least uncertain (the paper's Q; for a Bayesian head)
        start: the share at the first step
        warmup: a duration: how long the share rises from start to quantile, or until pseudo-labels count fully
        window: over how many batches the threshold is averaged
        statistic: what is averaged over those batches: variance or std
        inclusive: accept at the threshold too
        lagged: leave the current batch out of the threshold
        decay: decay of the moving means that a rule compares with
    """

    threshold: Share | None = None
    sharpened: bool = False
    quantile: Share | None = None
    start: Share = 0.1
    warmup: NotNegative = 10_240
    window: PositiveInt = 50
    statistic: Literal["variance", "std"] = "variance"
    inclusive: bool = True
    lagged: bool = False
    decay: Share | None = None


@dataclass(frozen=True)
class Target:
    """From a prediction to a pseudo-label.

    Args:
        temperature: sharpen the prediction to the power 1/t; 0 takes only the most likely class
        sharpen_samples: also sharpen each sampled prediction of a Bayesian head, before the mean
    """

    temperature: NotNegative | None = None
    sharpen_samples: bool = False


@dataclass(frozen=True)
class Head:
    """The Bayesian last layer of a bam- method, trained by Adam without weight decay (bam-paws: like the backbone).

    Args:
        samples: how many predictions are averaged (the paper's M); at least 2 to select by their std
        sampling: of pseudo-labels: draw logits from the Gaussian that the layer induces, or weights as in the paper, or
            compute mean and std in closed form, as all predictions of a trained network are
        prior_std: std of the weights' Gaussian prior
        lr: Adam's learning rate, with the schedule of optimizer.lr
        kl: the KL term of the loss: elbo is the sum over the weights divided by the number of training samples;
            mean is the released code's mean over the weights divided by the labelled batch size
        kl_weight: weight of that term
        kl_warmup: a duration: how long that weight rises from zero, along a cosine
    """

    samples: PositiveInt = 50
    sampling: Literal["logits", "weights", "closed-form"] = "logits"
    prior_std: PositiveFloat = 1.0
    lr: PositiveFloat = 0.01
    kl: Literal["elbo", "mean"] = "elbo"
    kl_weight: NotNegative = 1.0
    kl_warmup: NotNegative = 0


@dataclass(frozen=True)
class Calibration:
    """The constants of the calibrators: see `calibrator`.

    Args:
        smoothing: label-smoothing: the share of a label that is spread over all classes
        margin: margin-penalty: how far a logit may be below the largest at no cost
        margin_weight: margin-penalty: weight of its term of the loss
        mixup_alpha: mixup: the shares of two samples are drawn from Beta(α, α)
        dropout: mc-dropout: probability that a feature is left out
        samples: mc-dropout: how many sampled predictions are averaged
        members: last-layer-ensemble: number of last layers
        bootstrap: last-layer-ensemble: weigh the labels differently for each layer
        prior_precision: laplace: one over the variance of the weights' Gaussian prior; default: what makes the labels
            most likely
    """

    smoothing: Annotated[Proportion, calibrated_by("label-smoothing")] = 0.1
    margin: Annotated[NotNegative, calibrated_by("margin-penalty")] = 10.0
    margin_weight: Annotated[NotNegative, calibrated_by("margin-penalty")] = 0.1
    mixup_alpha: Annotated[PositiveFloat, calibrated_by("mixup")] = 0.2
    dropout: Annotated[Proportion, calibrated_by("mc-dropout")] = 0.5
    samples: Annotated[int, AtLeast(2), calibrated_by("mc-dropout")] = 50
    members: Annotated[int, AtLeast(2), calibrated_by("last-layer-ensemble")] = 5
    bootstrap: Annotated[bool, calibrated_by("last-layer-ensemble")] = True
    prior_precision: Annotated[PositiveFloat | None, calibrated_by("laplace")] = None


@dataclass(frozen=True)
class Paws:
    """PAWS (Assran et al., 2021): views of an image must find the same neighbours in a labelled support set.

    Args:
        unlabelled: unlabelled images per step
        per_class: support images of each class per step, repeated if a class has fewer labels
        classes: number of classes in the support of a step; default: all
        support_views: views of each support image
        view: cifar (crops, colours, solarize, equalize), imagenet (crops, colours, grey, blur), crops, or periodic
        large_scale: the smallest area of the two large views, as a share of the image; the largest is 1
        small_crops: number of small views
        small_scale: the largest area of a small view
        small_scale_min: the smallest area of a small view
        small_size: side of a small view in pixels; default: 9/16 of the image's shorter side, so 18 of 32
        temperature: temperature of the similarities to the support (the paper's τ_p)
        smoothing: label smoothing of the support
        me_max: reward a mean prediction that is spread over the classes
        width: width of the projection
        prediction_head: a bottleneck between a representation and what is compared with the support
    """

    unlabelled: PositiveInt = 256
    per_class: PositiveInt = 64
    classes: PositiveInt | None = None
    support_views: PositiveInt = 2
    view: Literal["cifar", "imagenet", "crops", "periodic"] = "cifar"
    large_scale: Annotated[Share, POSITIVE, ReadIf(lambda config: config.paws.view != "periodic")] = 0.75
    small_crops: NotNegativeInt = 6
    small_scale: Annotated[Share, HAS_SMALL_CROPS] = 0.75
    small_scale_min: Annotated[PositiveFloat, HAS_SMALL_CROPS] = 0.3
    small_size: Annotated[PositiveInt | None, HAS_SMALL_CROPS] = None
    temperature: PositiveFloat = 0.1
    smoothing: Share = 0.1
    me_max: bool = True
    width: PositiveInt = 128
    prediction_head: bool = False


@dataclass(frozen=True)
class Sure:
    """The cross-fitted ensemble of the method sure.

    Args:
        folds: of the labels; a member leaves one out, and labels are judged by members that left them out
        components: samples are projected to this many principal components
        project: project samples to their components even if they have no more numbers: for embeddings, whose columns
            are no quantities of their own
        own: power of a member's own prediction in its pseudo-labels; the rest is the teacher's
        noise: std of the noise added to what is learnt from; default: 0.3 for columns that are not projected, 0.8 for
            principal components, whose mean square is 1
        corruption: probability that an unlabelled sample loses a column or component (in a table: gets another row's);
            default: 0.2, for principal components 0.4
    """

    folds: Annotated[int, AtLeast(2)] = 10
    components: PositiveInt = 256
    project: bool = False
    own: Share = 0.9
    noise: NotNegative | None = None
    corruption: Share | None = None


@dataclass(frozen=True)
class Optimizer:
    """Stochastic gradient descent.

    Args:
        lr: the highest learning rate
        momentum: momentum
        nesterov: Nesterov momentum
        weight_decay: weight decay, except for biases and norms
        lars_trust: LARS's coefficient: a weight matrix's rate is this times its norm over its gradient's; 0: no LARS
        schedule: the rate falls as cos(7πk / 16K), or rises linearly and then falls as half a cosine
        warmup: a duration: how long the rate rises
        start: share of lr at the first step, with a warmup
        end: share of lr at the last step, with warmup-cosine
    """

    lr: PositiveFloat = 0.03
    momentum: Share = 0.9
    nesterov: bool = True
    weight_decay: NotNegative = 5e-4
    lars_trust: NotNegative = 0.0
    schedule: Literal["cosine-7-16", "warmup-cosine"] = "cosine-7-16"
    warmup: Annotated[NotNegative, WARMUP_COSINE] = 0
    start: Annotated[Share, WARMUP_COSINE, ReadIf(lambda config: config.optimizer.warmup > 0)] = 0.25
    end: Annotated[Share, WARMUP_COSINE] = 0.01


@dataclass(frozen=True)
class Average:
    """The averaged copy of the network.

    Args:
        decay: decay of the average; for a +ema or +swa method, see teacher instead
        warm: start with a smaller decay, (1 + n) / (10 + n), so that a short run forgets its initial weights
        buffers: copy BatchNorm's running statistics from the network, or average them too
    """

    decay: Annotated[Share, ReadIf(lambda config: config.teaches is None and config.averages)] = 0.999
    warm: Annotated[bool, ReadIf(lambda config: config.teaches is None and config.averages)] = False
    buffers: Annotated[Literal["copy", "average"], ReadIf(lambda config: config.averages)] = "copy"


@dataclass(frozen=True)
class Teacher:
    """The averaged network of a +ema or +swa method, which makes the pseudo-labels and is evaluated.

    Args:
        schedule: of EMA's decay γ: linear from 0 to gamma, then constant; or cosine from gamma to 1
        gamma: EMA's γ at the end (linear) or at the start (cosine)
        warmup: a duration: how long a linear γ rises
        onset: a duration: when SWA starts; before, the teacher is the network itself
    """

    schedule: Annotated[Literal["linear", "cosine"], ReadIf(lambda config: config.teaches == "ema")] = "cosine"
    gamma: Annotated[Share, ReadIf(lambda config: config.teaches == "ema")] = 0.25
    warmup: Annotated[
        NotNegative, ReadIf(lambda config: config.teaches == "ema" and config.teacher.schedule == "linear")
    ] = 0
    onset: Annotated[NotNegative, ReadIf(lambda config: config.teaches == "swa")] = 1 / 3


@dataclass(frozen=True)
class Evaluation:
    """Evaluation during training.

    Args:
        every: a duration: steps between two evaluations
        samples: number of test samples, the same at each evaluation; default: all, as always at the end
        batch: samples per batch
    """

    every: PositiveFloat = 1024
    samples: PositiveInt | None = None
    batch: PositiveInt = 256


@dataclass(frozen=True)
class RunConfig:
    """One training run.

    Args:
        method: sure; supervised, pseudo-label, uda, fixmatch, flexmatch, paws, ..., with bam- before it for a Bayesian
            last layer, and +ema or +swa after it; `surelabel methods` lists them all
        data: phc, cifar10, cifar100, mnist, fashion-mnist, imagenet, or the path of a folder of images, texts or tar
            shards, or of a .npz, .npy, .csv, .parquet or .jsonl file;
            cifar10-lt10, -lt100, and likewise cifar100: long-tailed, the largest class 10 or 100 times the smallest
        data_dir: folder with the files of a named data set
        label_column: the column of a table with the labels; default: label, class, target or y
        text_column: the column of a table, or key of JSON lines, with texts to learn from; default of .jsonl
            files: text
        group_column: a column that says which rows belong together, such as a patient's name; where one is left out or
            held out, no label of the others is learnt. It is no feature
        labels: a .csv file with the names of pictures (of a table or an array: the numbers of rows, from 0) and their
            classes, or several separated by commas; a .txt file with the names of the files to use as labelled, one per
            line, if the data has the classes; or how many labels to use: a number, a percentage of each class such as
            10%, or all
        drawn: how the labelled samples were chosen: at random, or per class; these do not tell how
            frequent the classes are. auto: per class if all classes have equally many
        encoder: a pretrained network, whose features of each picture or text are computed once; none: learn from
            pixels. efficientnet-lite2, or -lite0, which takes half the time; hf:NAME_OR_FOLDER, timm:NAME,
            torchvision:NAME, open_clip:NAME:TAG or onnx:FILE (docs/encoders.md); ngrams, of texts, is fitted to
            the pool
        train_encoder: train the encoder further, as the network, on views of the pictures: slow without a GPU
        image_size: side in pixels that pictures in a folder are scaled and cropped to; default: the encoder's own,
            else the most frequent side, at most 256
        holdout: labelled samples to hold out and test on: a percentage of each class such as 20%, or a fold: 2/5
        fidelity: which to follow where the paper and its released code differ; each difference is also a setting
        seed: seed of all random numbers
        steps: number of training steps
        out: the run folder; default: runs/METHOD-DATA-LABELS-seedSEED
        init: a run folder whose evaluated backbone this run starts from
        weight: weight of the unlabelled loss (the paper's λ)
        calibrator: what else makes the confidence of a method other than sure and paws honest: label-smoothing,
            margin-penalty, mixup, mc-dropout, last-layer-ensemble or laplace; see calibration.*
        forward: joint: one pass for labelled, weak and strong views; split: the weak views apart, without gradients
        weak_norm: with split, how BatchNorm normalises the weak views: by their batch statistics, which update the
            running ones (batch) or not (batch-kept), or by the running ones (running)
        device: cpu, cuda, mps (a Mac's GPU), or auto: cuda if available, else cpu
        threads: CPU threads per process; default: the cores divided among the processes
        devices: processes on this machine, one per GPU
        nodes: number of machines
        precision: 32 or 64 bits, or mixed with bfloat16; auto: mixed where that is faster
        compile: use torch.compile, which takes a minute; default: on a GPU
    """

    method: str = "fixmatch"
    data: str = "phc"
    data_dir: str | None = None
    label_column: Annotated[str | None, ReadIf(lambda config: config.has_columns)] = None
    text_column: Annotated[str | None, ReadIf(lambda config: config.has_columns)] = None
    group_column: Annotated[str | None, ReadIf(lambda config: config.has_columns)] = None
    labels: int | str = "10%"
    drawn: Annotated[Drawn, ReadIf(lambda config: config.leaves_labels_out)] = "auto"
    encoder: str = "none"
    train_encoder: bool = False
    image_size: Annotated[PositiveInt | None, ReadIf(lambda config: config.has_image_files)] = None
    holdout: str | None = None
    fidelity: Literal["paper", "released"] = "paper"
    seed: int = 0
    steps: PositiveInt = 2**20
    out: str | None = None
    init: str | None = None
    weight: NotNegative | None = None
    calibrator: CalibratorName = "none"
    forward: Annotated[Forward | None, ReadIf(lambda config: config.teaches is None)] = None
    weak_norm: Annotated[
        WeakNorm | None, ReadIf(lambda config: config.forward != "joint" or config.teaches is not None)
    ] = None
    device: Device = "auto"
    threads: PositiveInt | None = None
    devices: PositiveInt = 1
    nodes: PositiveInt = 1
    precision: Precision = "auto"
    compile: bool | None = None
    batch: Batch = field(default_factory=Batch)
    network: Network = field(default_factory=Network)
    tuning: Tuning = field(default_factory=Tuning)
    views: Views = field(default_factory=Views)
    table: Table = field(default_factory=Table)
    align: Align = field(default_factory=Align)
    selection: Selection = field(default_factory=Selection)
    target: Target = field(default_factory=Target)
    head: Head = field(default_factory=Head)
    calibration: Calibration = field(default_factory=Calibration)
    paws: Paws = field(default_factory=Paws)
    sure: Sure = field(default_factory=Sure)
    optimizer: Optimizer = field(default_factory=Optimizer)
    average: Average = field(default_factory=Average)
    teacher: Teacher = field(default_factory=Teacher)
    evaluation: Evaluation = field(default_factory=Evaluation)

    @property
    def base(self) -> str:
        """The method without its teacher."""
        return self.method.partition("+")[0]

    @property
    def members(self) -> tuple[int, int]:
        """The number of members of a network members-NUMBER-WIDTH, and their width."""
        number, width = self.network.name.split("-")[1:]
        return int(number), int(width)

    @property
    def processes(self) -> int:
        return self.devices * self.nodes

    def check_divisible(self, key: str, size: int) -> None:
        """Raise unless all processes get equal shares of a batch."""
        if size % self.processes:
            raise UserError(f"{key}, {size}, must be divisible by the number of processes, {self.processes}")

    @property
    def leaves_labels_out(self) -> bool:
        """Whether each label is judged by networks that have not seen it."""
        return self.method == "sure"

    @property
    def chooses_norm(self) -> bool:
        """Whether the network's norm is a setting; pretrained ones and members have theirs."""
        return not (self.train_encoder or self.network.name.startswith("members-"))

    @property
    def on_features(self) -> bool:
        """Whether the network learns from the features of an encoder that stays as it is."""
        return self.encoder != "none" and not self.train_encoder

    @property
    def has_image_files(self) -> bool:
        """Whether images are read from files, or for an encoder that is trained further, and may be scaled."""
        own = self.data not in NAMED_DATA or self.data == "imagenet" or self.train_encoder
        return own and not (self.has_columns or self.of_texts)

    def sees(self, view: str) -> bool:
        """Whether the method uses this view of tables or features."""
        read = find(self.method).reads
        roles = [role for role in ("labelled", "weak", "strong") if f"views.{role}" in read]
        return (self.tabular or self.on_features or self.small) and view in [
            getattr(self.views, role) for role in roles
        ]

    @property
    def averages(self) -> bool:
        """Whether an average of the network is evaluated."""
        return self.teaches is not None or find(self.method).averaged

    @property
    def has_columns(self) -> bool:
        """Whether the data are rows in a file whose columns have names."""
        return self.data.lower().endswith((*TABLE_FILES, JSON_LINES))

    @property
    def tabular(self) -> bool:
        """Whether the data are a table in a file, whose columns are learnt from."""
        return self.data.lower().endswith(TABLE_FILES) and self.text_column is None

    @property
    def of_texts(self) -> bool:
        """Whether the config alone tells that samples are texts; the files in a folder may tell it too."""
        return self.encoder == NGRAMS or self.text_column is not None or self.data.lower().endswith(JSON_LINES)

    @property
    def small(self) -> bool:
        """Whether only the small network of a table is computed."""
        return self.network.name.startswith("mlp-") and self.encoder == "none"

    @property
    def teaches(self) -> str | None:
        """The average that makes the pseudo-labels: ema or swa; None for the network itself."""
        return self.method.partition("+")[2] or TAUGHT.get(self.method)

    @property
    def alignment(self) -> Alignment:
        """How pseudo-labels are aligned."""
        return self.align.rule or find(self.method).alignment

    @property
    def label_paths(self) -> tuple[str, ...]:
        """The files in `labels`, if any: tables or a list."""
        named = str(self.labels)
        if named.lower().endswith(".txt"):
            return (named,)
        parts = [named] if Path(named).is_file() else named.split(",")
        return tuple(part for part in parts if part.lower().endswith(".csv"))

    @property
    def label_files(self) -> tuple[str, ...]:
        """The tables of files and their classes in `labels`, if any."""
        return () if self.label_list else self.label_paths

    @property
    def label_list(self) -> str | None:
        """The list of labelled files in `labels`, if any."""
        return next((path for path in self.label_paths if path.lower().endswith(".txt")), None)

    @property
    def folder(self) -> Path:
        """The run folder."""
        data = Path(self.data).resolve().stem if "/" in self.data or self.data in (".", "..") else self.data
        files = [Path(file).stem for file in self.label_paths]
        labels = "+".join(files) if files else str(self.labels).replace("%", "pct")
        part = "" if self.holdout is None else f"-without-{self.holdout.replace('%', 'pct').replace('/', 'of')}"
        return Path(self.out or f"runs/{self.method}-{data}-{labels}{part}-seed{self.seed}")


def steps_of(duration: float, steps: int) -> int:
    """A duration in steps: below one it is a fraction of the run's `steps`, and at least one step unless it is 0."""
    return max(1, round(duration * steps)) if 0 < duration < 1 else int(duration)
