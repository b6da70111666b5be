"""Studies that compare methods on benchmarks: Tables 1 to 4 and 6."""

from dataclasses import replace

from surelabel.studies import paper_tables as printed
from surelabel.studies.cells import benchmark_title, cell, method_title, run_of, seeds_of
from surelabel.studies.plan import Cell, Study

FIRST = ("supervised", "strong-views", "fixmatch", "bam-fixmatch", "uda", "bam-uda")
OTHERS = ("pseudo-label", "bam-pseudo-label", "paws", "bam-paws", "paws+swa", "paws+ema")
TABLE_1_ROWS = (
    "supervised", "strong-views", "pseudo-label", "bam-pseudo-label", "fixmatch", "bam-fixmatch", "uda", "bam-uda",
    "paws", "bam-paws", "paws+swa", "paws+ema",
)  # fmt: skip
TABLE_1_COLUMNS = ("cifar10-250", "cifar10-2500", "cifar100-400", "cifar100-4000", "cifar100-10000")
LAPTOP_FIRST = ("fashion-mnist-40", "cifar10-250", "phc-10", "cifar10-lt-100")
LAPTOP_LATER = ("fashion-mnist-400", "cifar10-2500", "phc-1", "cifar10-lt-10")
# With the single kind of view of crystals these equal supervised, FixMatch and BAM-FixMatch.
ONE_VIEW_ASIDE = ("strong-views", "pseudo-label", "bam-pseudo-label")
PAIRS = tuple((method_title(base), method_title(f"bam-{base}")) for base in ("pseudo-label", "fixmatch", "uda", "paws"))
AVERAGES = tuple(("PAWS", method_title(f"paws+{teacher}")) for teacher in ("swa", "ema"))


def _table_1(scale: str) -> list[Cell]:
    """At laptop scale, self-training first, then other methods, then other numbers of labels."""
    if scale == "paper":
        return [_table_1_cell(method, place, scale) for place in TABLE_1_COLUMNS for method in TABLE_1_ROWS]
    turns = [(FIRST, LAPTOP_FIRST, 5), (OTHERS, LAPTOP_FIRST, 3), (FIRST + OTHERS, LAPTOP_LATER, 3)]
    return [
        replace(_table_1_cell(method, place, scale), seeds=seeds, turn=turn)
        for turn, (methods, places, seeds) in enumerate(turns)
        for place in places
        for method in methods
        if not (place.startswith("phc") and method in ONE_VIEW_ASIDE)
    ]


def _table_1_cell(method: str, benchmark: str, scale: str) -> Cell:
    known = {place: value for table in (printed.TABLE_1, printed.TABLE_3, printed.TABLE_4)
             for place, value in printed.read(table).items()}  # fmt: skip
    made = cell(method, benchmark, scale, seeds_of(scale), printed=known.get((method, benchmark)))
    if method != "bam-paws":
        return made
    # The warm-up T of the KL weight: 50 or 100 epochs in the paper, whichever is better.
    half = run_of(method, benchmark, scale).head.kl_warmup
    choices = [(f"T = {epochs} epochs", {"head.kl_warmup": half * (epochs // 50)}) for epochs in (50, 100)]
    both = cell(method, benchmark, scale, choices=choices).choices
    return replace(made, choices=both, compared=choices[0][0])


def _imagenet(scale: str) -> list[Cell]:
    benchmark = "imagenet-10" if scale == "paper" else "fashion-mnist-400"
    known = printed.read(printed.TABLE_2)
    return [
        cell(method, benchmark, scale, seeds_of(scale), finetune=(0.01, 0.02, 0.05),
             printed=replace(known[method, "imagenet-10"], on="" if scale == "paper" else "ImageNet-10%"))
        for method in ("paws", "paws+swa", "paws+ema")
    ]  # fmt: skip


def _long_tail(scale: str) -> list[Cell]:
    known = printed.read(printed.TABLE_3)
    places = [f"cifar10-lt-{alpha}" for alpha in (10, 100)]
    if scale == "paper":
        places += [f"cifar100-lt-{alpha}" for alpha in (10, 100)]
    return [
        cell(method, place, scale, seeds_of(scale), printed=known[method, place])
        for place in places
        for method in ("fixmatch", "bam-uda", "all-labels")
    ]


def _phc(scale: str) -> list[Cell]:
    """With a learning rate per method, as in the paper; at laptop scale rates for short runs."""
    known = printed.read(printed.TABLE_4)
    rates = (0.01, 0.001) if scale == "paper" else (0.03, 0.01)
    return [
        cell(method, place, scale, seeds_of(scale), printed=known[method, place],
             choices=[(f"learning rate {lr:g}", {"optimizer.lr": lr}) for lr in rates])
        for place in ("phc-10", "phc-1")
        for method in ("fixmatch", "bam-uda", "all-labels")
    ]  # fmt: skip


def _fm_ema(scale: str) -> list[Cell]:
    known = printed.read(printed.TABLE_6)
    places = (
        list(dict.fromkeys(place for _, place in known)) if scale == "paper" else ["fashion-mnist-40", "cifar10-250"]
    )
    return [
        cell(method, place, scale, seeds_of(scale), printed=known.get((method, place)))
        for place in places
        for method in ("fixmatch", "bam-fixmatch", "fixmatch+ema")
    ]


STUDIES = (
    Study(
        "table1", "all methods on the benchmarks: does better calibration go with better accuracy?",
        "Table 1 (tab:fm_main_results)", _table_1,
        pairs=(*PAIRS, ("FM", "BAM-UDA"), ("BAM-FM", "BAM-UDA"), ("supervised", "FM"), ("supervised", "BAM-UDA"),
               ("supervised, strong views", "BAM-UDA"), ("supervised, strong views", "PAWS"), ("FM", "PAWS"),
               *AVERAGES),
        rows=tuple(method_title(method) for method in TABLE_1_ROWS),
        note="BAM-PAWS: of two warm-ups T of the KL term, as in the paper, the better one by accuracy on the test set; "
        "its differences from PAWS are with T = 50 epochs, set beforehand. "
        "supervised: the same labels and nothing else, in weak or strong views, which the paper's table does not have. "
        "On the crystals, whose views are all of one kind, Pseudo-Label is FixMatch.",
    ),
    Study(
        "imagenet", "PAWS and its averages, then a linear head taught by the labels",
        "Table 2 (tab:paws_IN_results)", _imagenet, pairs=AVERAGES,
        note="Of three learning rates of the fine-tuning the best on the test set is shown. At laptop scale the data "
        f"are {benchmark_title('fashion-mnist-400')}: ImageNet does not fit a laptop.",
    ),
    Study(
        "long-tail", "class-imbalanced CIFAR, a tenth of each class labelled",
        "Table 3 (tab:lt_results)", _long_tail, pairs=(("FM", "BAM-UDA"),),
        note="The paper's supervised figures are another paper's, of another network and a method for long tails.",
    ),
    Study(
        "phc", "photonic crystals, classified by their band gaps",
        "Table 4 (tab:phc_results)", _phc, pairs=(("FM", "BAM-UDA"),),
        note="Of two learning rates, as in the paper, the better one by accuracy on the test set is shown.",
    ),
    Study(
        "fm-ema", "FixMatch with an averaged teacher, against its Bayesian version",
        "Table 6 (tab:fm_ema)", _fm_ema, pairs=(("FM", "BAM-FM"), ("FM", "FM+EMA")),
    ),
)  # fmt: skip
