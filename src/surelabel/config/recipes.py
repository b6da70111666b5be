"""Recipes: functions that return a complete config. Imports no torch.

Size `paper` is the paper's: days on a GPU. `laptop` is the same method on a small network for some minutes on a CPU.
The paper's constants do not suit so short a run (an average with decay 0.999 and BatchNorm statistics with momentum
0.001 still hold half of their initial values after 600 steps), so durations are fractions of the run, and averages are
quicker.
"""

from dataclasses import replace
from typing import Any

from surelabel.config.benchmarks import BENCHMARKS
from surelabel.config.encoders import DEFAULT, NGRAMS, NONE
from surelabel.config.methods import ON_FEATURES, find, names
from surelabel.config.run import (
    Align,
    Average,
    Batch,
    Evaluation,
    Head,
    Network,
    Optimizer,
    Paws,
    RunConfig,
    Selection,
    Teacher,
    Views,
)
from surelabel.utils.errors import UserError, suggestion

SIZES = ("laptop", "paper")

# Where the released code departs from the paper; docs/departures.md explains each point.
RELEASED: dict[str, Any] = {
    "forward": "joint",
    "selection.sharpened": True,
    "selection.statistic": "std",
    "selection.lagged": True,
    "target.sharpen_samples": True,
    "head.kl": "mean",
}

# Training images in an epoch; user data count as CIFAR-10.
POOLS = {
    "cifar10": 50_000, "cifar100": 50_000, "mnist": 60_000, "fashion-mnist": 60_000, "imagenet": 1_281_167,
    "phc": 9876, "cifar10-lt10": 20_431, "cifar10-lt100": 12_406, "cifar100-lt10": 19_573, "cifar100-lt100": 10_847,
}  # fmt: skip
PHOTOGRAPH = 224  # pixels of a side of ImageNet's
CIFAR100_DECAY = 1e-3  # of FixMatch's authors


def parse(name: str) -> tuple[str | None, str, int | str]:
    """'fixmatch-cifar10-250' -> ('fixmatch', 'cifar10', 250); the method may be left out."""
    known: dict[str, tuple[str | None, str]] = {benchmark: (None, benchmark) for benchmark in BENCHMARKS}
    known |= {
        f"{method}-{benchmark}": (method, benchmark)
        for method in names()
        if method not in ON_FEATURES
        for benchmark in BENCHMARKS
    }
    if name not in known:
        raise UserError(f"there is no recipe {name!r}.{suggestion(name, known)} `surelabel recipes` lists them all")
    method, benchmark = known[name]
    return method, *BENCHMARKS[benchmark]


def recipe(
    method: str = "fixmatch", data: str = "phc", labels: int | str | None = None, size: str = "laptop"
) -> RunConfig:
    """The config of a method on a data set in one of `SIZES`; by default with 10 % of the labels, all of a table's."""
    if size not in SIZES:
        raise UserError(f"there is no size {size!r}.{suggestion(size, SIZES)}")
    family = find(method).family
    if data == "imagenet" and family != "paws":
        raise UserError(
            "ImageNet has recipes only for paws and its variants, as in the paper. For other methods, give its "
            "folder as data"
        )
    if RunConfig(data=data).tabular:
        if size != "laptop":
            raise UserError("the paper has no tables: leave the size out")
        return table(method, data, "all" if labels is None else labels)
    if RunConfig(data=data).of_texts:
        if size != "laptop":
            raise UserError("the paper has no texts: leave the size out")
        return texts(method, data, "all" if labels is None else labels)
    if family == "sure":
        if size != "laptop":
            raise UserError("sure is not of the paper: leave the size out")
        return pictures(method, data, "10%" if labels is None else labels)
    makers = {
        ("laptop", "self-training"): _laptop,
        ("paper", "self-training"): _paper,
        ("laptop", "paws"): _laptop_paws,
        ("paper", "paws"): _paper_paws,
    }
    return makers[size, family](method, data, "10%" if labels is None else labels)


def table(method: str, data: str, labels: int | str = "all") -> RunConfig:
    """A small network on the rows of a table: seconds to a minute on a CPU."""
    family = find(method).family
    if family == "paws":
        raise UserError(f"{method} compares crops of images, but a table has none: choose another method")
    config = replace(
        _laptop(method, data, labels),
        steps=300,
        batch=Batch(16, find(method).ratio),
        network=Network("mlp-2-128", norm_momentum=0.1),
        views=Views("noise", "noise", "corrupt"),
        evaluation=Evaluation(every=0.1, samples=1000),
    )
    return _members(config) if family == "sure" else config


def embeddings(method: str, data: str, labels: int | str = "all") -> RunConfig:
    """The same on rows whose columns are directions of one space."""
    config = table(method, data, labels)
    return replace(config, sure=replace(config.sure, project=find(method).family == "sure"))


def texts(method: str, data: str, labels: int | str = "all", encoder: str = NGRAMS) -> RunConfig:
    """Texts as features of an encoder, trained on like embeddings."""
    if encoder == NONE:
        raise UserError(f"texts are learnt from as an encoder describes them: choose one, such as {NGRAMS}")
    config = embeddings(method, data, labels)
    if find(method).family != "sure":
        config = replace(config, network=replace(config.network, name="mlp-1-256"))
    return replace(config, encoder=encoder)


def _members(config: RunConfig) -> RunConfig:
    """Fifty small networks; chosen on splits of CIFAR-10 and Fashion-MNIST that are in no table."""
    return replace(
        config,
        steps=400,
        batch=Batch(32, config.batch.ratio),
        network=Network("members-50-128"),
        views=Views(),
        optimizer=Optimizer(lr=0.05),
    )


def pictures(method: str, data: str, labels: int | str = "all", encoder: str = DEFAULT) -> RunConfig:
    """User pictures as features of a network pretrained on ImageNet, trained on like a table."""
    config = table(method, data, labels)
    if find(method).family != "sure":
        config = replace(config, network=replace(config.network, name="mlp-1-256"))
    return replace(config, encoder=encoder)


def trained_encoder(method: str, data: str, labels: int | str = "all", encoder: str = DEFAULT) -> RunConfig:
    """User pictures, on which a pretrained network is trained further: far slower than on its features."""
    return replace(_laptop(method, data, labels), encoder=encoder, train_encoder=True, steps=500)


def _paper(method: str, data: str, labels: int | str) -> RunConfig:
    """The constants of the paper and of the methods' authors, with 64 labelled images per step."""
    # The joint pass of the released code. A teacher cannot be part of it, and uses batch statistics: with BatchNorm's
    # slow momentum, the running ones are stale.
    config = RunConfig(method=method, data=data, labels=labels, batch=Batch(64, find(method).ratio), forward="joint")
    if config.teaches:
        config = replace(config, forward=None, weak_norm="batch-kept")
    config = replace(config, selection=Selection(quantile=_quantile(method, data)))
    if _family(data) == "cifar100":
        return replace(config, network=Network("wrn-28-8"), optimizer=Optimizer(weight_decay=CIFAR100_DECAY))
    if data == "phc":
        epoch = -(-POOLS["phc"] // 64)
        return replace(
            config,
            batch=Batch(64, 1),
            views=_periodic(),
            steps=300 * epoch,
            optimizer=Optimizer(lr=0.01),
            selection=replace(config.selection, warmup=10 * epoch),
            head=Head(kl_warmup=50 * epoch),
        )
    return config


def _laptop(method: str, data: str, labels: int | str) -> RunConfig:
    """A small network, minutes on two cores."""
    config = RunConfig(
        method=method,
        data=data,
        labels=labels,
        steps=1000,
        batch=Batch(16, find(method).ratio),
        network=Network("wrn-10-2", stem_stride=2, norm_momentum=0.1),
        average=Average(decay=0.99, warm=True, buffers="average"),
        evaluation=Evaluation(every=1 / 40, samples=1000),
        align=Align(decay=0.99 if find(method).alignment in ("mean", "debias") else None),
        selection=Selection(
            quantile=_quantile(method, data),
            warmup=0.1,
            decay=0.99 if "selection.decay" in find(method).reads else None,
        ),
    )
    if _family(data) == "cifar100":
        return replace(config, optimizer=Optimizer(weight_decay=CIFAR100_DECAY))
    if data == "phc":
        network = replace(config.network, padding="circular")
        head = Head(kl_warmup=1 / 6)  # 50 of the paper's 300 epochs
        config = replace(config, steps=800, batch=Batch(64, 1), network=network, views=_periodic(), head=head)
        if config.selection.quantile is not None:
            # After so few epochs, 90 % of the pool (the paper's Q) have too many wrong pseudo-labels.
            config = replace(config, selection=replace(config.selection, quantile=0.5))
    return config


def _paper_paws(method: str, data: str, labels: int | str) -> RunConfig:
    """The constants of PAWS for CIFAR-10 and ImageNet, and the paper's for the averages; see docs/departures.md."""
    epoch = -(-POOLS.get(data, POOLS["cifar10"]) // (4096 if data == "imagenet" else Paws.unlabelled))
    config = RunConfig(
        method=method,
        data=data,
        labels=labels,
        steps=600 * epoch,
        network=Network("wrn-28-2", norm_momentum=0.1),
        optimizer=_lars(lr=3.2, start=0.25, warmup=10 * epoch),
        average=Average(buffers="average"),
        teacher=Teacher("linear", 0.996, warmup=50 * epoch, onset=200 * epoch),
        head=Head(kl_warmup=50 * epoch),
        evaluation=Evaluation(every=epoch),
    )
    if _family(data) == "cifar100":
        paws = Paws(per_class=6)
        teacher = replace(config.teacher, onset=100 * epoch)
        return replace(config, network=replace(config.network, name="wrn-28-8"), paws=paws, teacher=teacher)
    if data == "phc":
        return replace(
            config, steps=300 * epoch, paws=_periodic_paws(Paws()), teacher=replace(config.teacher, onset=100 * epoch)
        )
    if data == "imagenet":
        paws = Paws(4096, per_class=6, classes=960, support_views=1, view="imagenet", width=2048, prediction_head=True)
        return replace(
            config,
            steps=200 * epoch,
            precision="32",  # according to the paper, half precision was unstable
            network=Network("resnet-50", norm_momentum=0.1),
            paws=replace(paws, large_scale=0.14, small_scale_min=0.05, small_scale=0.14, small_size=96),
            optimizer=_lars(lr=6.4, start=0.3 / 6.4, warmup=10 * epoch),
            teacher=Teacher("cosine", 0.95, onset=1 / 3),
        )
    return config


def _laptop_paws(method: str, data: str, labels: int | str) -> RunConfig:
    """PAWS on a small network: smaller batches, fewer small views, one view of each support image."""
    config = replace(
        _laptop(method, data, labels),
        paws=Paws(48, per_class=4, support_views=1, small_crops=2),
        optimizer=Optimizer(lr=0.1, schedule="warmup-cosine", warmup=0.05),
        teacher=Teacher("linear", 0.99, warmup=1 / 12, onset=1 / 3),
        head=Head(kl_warmup=1 / 12),
    )
    if data == "imagenet":  # small images and few classes per step, to fit a laptop
        return replace(config, steps=300, image_size=64, paws=replace(config.paws, view="imagenet", classes=10))
    if data == "phc":
        paws = _periodic_paws(replace(config.paws, unlabelled=64, per_class=8))
        return replace(config, paws=paws, optimizer=replace(config.optimizer, lr=0.3))
    return config


# The data and the machine; what belongs to the method is not taken over.
KEPT_BY_FINETUNE = (
    "data", "data_dir", "label_column", "group_column", "table", "labels", "image_size", "holdout", "seed", "network",
    "device", "precision", "compile", "threads",
)  # fmt: skip


def finetune(config: RunConfig, folder: str, labelled: int) -> RunConfig:
    """Train a linear head and the backbone of a run on the labels for 50 epochs, as PAWS does on ImageNet."""
    batch = min(64, max(2, labelled))
    views = config.views
    if find(config.method).family == "paws":
        views = _periodic() if config.paws.view == "periodic" else Views()
    return RunConfig(
        method="supervised", steps=50 * -(-labelled // batch), out=f"{folder.rstrip('/')}-finetuned", init=folder,
        **{name: getattr(config, name) for name in KEPT_BY_FINETUNE},
        batch=Batch(batch),
        views=views,
        optimizer=Optimizer(lr=0.02, weight_decay=0.0, schedule="warmup-cosine", end=0.0),
        average=Average(decay=0.0),  # the network itself
        evaluation=replace(config.evaluation, every=0.1),
    )  # fmt: skip


def _lars(lr: float, start: float, warmup: int) -> Optimizer:
    return Optimizer(
        lr=lr, nesterov=False, weight_decay=1e-6, lars_trust=0.001, schedule="warmup-cosine", warmup=warmup, start=start
    )


def _periodic_paws(settings: Paws) -> Paws:
    """Without small views: a part of a cell is another crystal. Without me_max: half of the crystals have no gap."""
    return replace(settings, view="periodic", small_crops=0, me_max=False)


def _family(data: str) -> str:
    """The data set whose settings apply: for a long-tailed one, the full one."""
    return data.partition("-lt")[0]


def _quantile(method: str, data: str) -> float | None:
    """The paper's Q, for the methods that select by uncertainty."""
    reads = "selection.quantile" in find(method).reads
    return {"cifar100": 0.75, "phc": 0.9}.get(_family(data), 0.95) if reads else None


def _periodic() -> Views:
    """Rolls, quarter turns and mirrors: the only changes that preserve a crystal's physics."""
    return Views("periodic", "periodic", "periodic")
