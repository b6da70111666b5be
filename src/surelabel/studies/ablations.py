"""Studies of single settings: Tables 7 to 10, Figures 1 and 6, and two not in the paper."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from surelabel.studies import paper_tables as printed
from surelabel.studies.cells import SMALL, benchmark_title, cell, method_title, run_of, seeds_of
from surelabel.studies.plan import Cell, Printed, Study

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
QUANTILES = (0.95, 0.7, 0.5, 0.3)
LONGER, STRONG = "3 × the steps", "labels in strong views"
SOFT, SOFT_ALL, AT_ONCE = "UDA, t = 0.9", "UDA, t = 0.9, all accepted", "BAM-UDA, Q at once"
# From UDA to BAM-UDA, whose Q rises from 0.1.
PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "UDA": ("uda", {}),
    SOFT: ("uda", {"target.temperature": 0.9}),
    SOFT_ALL: ("uda", {"target.temperature": 0.9, "selection.threshold": 0.0}),
    AT_ONCE: ("bam-uda", {"selection.start": 0.95}),
    "BAM-UDA": ("bam-uda", {}),
}
PART_PAIRS = ((SOFT_ALL, AT_ONCE), (AT_ONCE, "BAM-UDA"), (SOFT_ALL, "BAM-UDA"), ("UDA", "BAM-UDA"))
PAWS_EPOCHS = 600  # length of the paper's runs on CIFAR


def _rows(method: str, rows: Mapping[str, Mapping[str, Any]], table: str | None, place: str, scale: str) -> list[Cell]:
    """One cell per row of settings, on SMALL at laptop scale, with the paper's values."""
    known = printed.read(table) if table else {}
    here = place if scale == "paper" else SMALL
    cells = []
    for row, settings in rows.items():
        value = known.get((row, place))
        cells.append(
            cell(method, here, scale, seeds_of(scale), row=row, settings=settings, printed=_on(value, place, here))
        )
    return cells


def _on(value: Printed | None, place: str, here: str) -> Printed | None:
    return value if value is None or place == here else replace(value, on=benchmark_title(place))


def _sigma(scale: str) -> list[Cell]:
    cells = []
    for place in ("cifar100-400", "cifar100-4000") if scale == "paper" else ("cifar100-400",):
        variants: list[tuple[str, str, str, dict[str, Any]]] = [
            ("uda", "uda", "UDA (t = 0.4)", {}),
            ("no-sigma-0.4", "bam-uda-no-sigma", "BAM-UDA, no σ² (t = 0.4)", {"target.temperature": 0.4}),
            ("no-sigma-0.9", "bam-uda-no-sigma", "BAM-UDA, no σ² (t = 0.9)", {"target.temperature": 0.9}),
            ("bam-uda", "bam-uda", "BAM-UDA (t = 0.9)", {}),
        ]
        for label, method, row, settings in variants:
            (made,) = _rows(method, {label: settings}, printed.TABLE_7, place, scale)
            cells.append(replace(made, row=row))
    return cells


def _parts(scale: str) -> list[Cell]:
    """From UDA to BAM-UDA: softer targets, all accepted, the Bayesian head, Q's warm-up."""
    return [
        cell(method, place, scale, seeds_of(scale), row=row, settings=settings)
        for place in (("cifar100-400",) if scale == "paper" else (SMALL, "cifar10-250"))
        for row, (method, settings) in PARTS.items()
    ]


def _temperature(scale: str) -> list[Cell]:
    rows = {t: {"target.temperature": float(t)} for t in ("0.4", "0.8", "0.9", "1.0")}
    return _rows("bam-uda", rows, printed.TABLE_8, "cifar100-400", scale)


def _samples(scale: str) -> list[Cell]:
    rows = {m: {"head.samples": int(m)} for m in ("2", "5", "10", "50")}
    return _rows("bam-uda", rows, printed.TABLE_9, "cifar100-400", scale)


def _duration(epochs: int, place: str, scale: str) -> float:
    """A duration as in the recipes: in steps, or at laptop scale as a fraction of the run."""
    fraction = epochs / PAWS_EPOCHS
    return fraction if scale == "laptop" else round(fraction * run_of("paws", place, scale).steps)


def _momentum(scale: str) -> list[Cell]:
    names = [row for row, _ in printed.read(printed.TABLE_10)]
    rows = {}
    for name in names:
        epochs, gamma = name.split("-")
        rows[name] = {
            "teacher.schedule": "linear",
            "teacher.warmup": _duration(int(epochs), "cifar100-4000", scale),
            "teacher.gamma": float(gamma),
        }
    cells = _rows("paws+ema", rows, printed.TABLE_10, "cifar100-4000", scale)
    return [replace(made, row="W = {}, γ = {}".format(*made.row.split("-"))) for made in cells]


def _swa_onset(scale: str) -> list[Cell]:
    rows = {
        f"+SWA after {epochs} epochs": {"teacher.onset": _duration(epochs, "cifar10-4000", scale)}
        for epochs in (10, 50, 100, 200)
    }
    return [
        *_rows("paws", {"PAWS": {}}, None, "cifar10-4000", scale),
        *_rows("paws+swa", rows, None, "cifar10-4000", scale),
    ]


def _threshold_sweep(scale: str) -> list[Cell]:
    rows = {f"{threshold:g}": {"selection.threshold": threshold} for threshold in THRESHOLDS}
    return _rows("fixmatch", rows, None, "cifar100-4000", scale)


def _paws_sweep(scale: str) -> list[Cell]:
    """The temperature τ_p by the sharpening t; without me-max; without label smoothing."""
    rows: dict[str, dict[str, Any]] = {
        f"τ = {tau:g}, t = {t:g}": {"paws.temperature": tau, "target.temperature": t}
        for tau in (0.03, 0.05, 0.07, 0.1)
        for t in (0.1, 0.25, 0.5)
    }
    rows |= {"no me-max": {"paws.me_max": False}, "no label smoothing": {"paws.smoothing": 0.0}}
    return _rows("paws", rows, None, "cifar100-4000", scale)


def _bam_settings(scale: str) -> list[Cell]:
    """BAM-FixMatch with one setting changed, on benchmarks where it does not beat FixMatch.

    Soft targets are left out: they make it BAM-UDA. The quantile comes first, because it decides how
    many wrong pseudo-labels are trained on.
    """
    cells = []
    for place in ("cifar10-250",) if scale == "paper" else (SMALL, "cifar10-2500", "cifar10-lt-100", "phc-10"):
        own = run_of("bam-fixmatch", place, scale)
        both: dict[str, dict[str, Any]] = {LONGER: {"steps": 3 * own.steps}}
        if own.views.strong == "strong":
            both[STRONG] = {"views.labelled": "strong"}
        changes: dict[str, dict[str, Any]] = {
            f"Q = {q:g}": {"selection.quantile": q} for q in QUANTILES if q != (own.selection.quantile or QUANTILES[0])
        }
        changes |= {
            "KL × 0.1": {"head.kl_weight": 0.1 * own.head.kl_weight},
            "no KL": {"head.kl_weight": 0.0},
            "quantile over 5 steps": {"selection.window": 5},
            "batch statistics": {"forward": "split", "weak_norm": "batch"},
        }
        for method, changed in (("fixmatch", both), ("bam-fixmatch", changes | both)):
            cells.append(cell(method, place, scale, seeds_of(scale)))
            for name, settings in changed.items():
                row = f"{method_title(method)}, {name}"
                made = cell(method, place, scale, seeds_of(scale), row=row, settings=settings)
                cells.append(replace(made, turn="selection.quantile" not in settings))
    return cells


_STUDIES = (
    Study(
        "sigma-ablation", "the Bayesian head for averaging alone, without its uncertainty",
        "Table 7 (tab:buda_sigma)", _sigma,
        pairs=(("UDA (t = 0.4)", "BAM-UDA, no σ² (t = 0.4)"), ("BAM-UDA, no σ² (t = 0.9)", "BAM-UDA (t = 0.9)"),
               ("UDA (t = 0.4)", "BAM-UDA (t = 0.9)")),
    ),
    Study("temperature", "BAM-UDA's sharpening t", "Table 8 (stab:uda_temp)", _temperature, heading="t",
          base="0.9"),
    Study("samples", "how many predictions BAM-UDA averages, M", "Table 9 (stab:uda_bayes_sam)", _samples, heading="M",
          base="50"),
    Study("momentum", "how γ of PAWS+EMA rises: over W of 600 epochs, up to γ", "Table 10 (stab:paws_ablate_momsch)",
          _momentum, heading="warm-up", base="W = 50, γ = 0.996",
          note=f"Epochs are parts of a run: W of {PAWS_EPOCHS}."),
    Study("swa-onset", "when SWA should begin", "Figure 6 (sfig:paws_ablate_swa)", _swa_onset, shows="curves",
          base="PAWS", note=f"Epochs are parts of a run: of {PAWS_EPOCHS}."),
    Study("threshold-sweep", "FixMatch's threshold τ: do accuracy and calibration go together?",
          "Figure 1a (fig:combined_emp)", _threshold_sweep, heading="τ", shows="correlation", base="0.95"),
    Study("paws-sweep", "PAWS's temperature, sharpening, me-max, label smoothing: accuracy against calibration",
          "Figure 1b (fig:combined_emp)", _paws_sweep, heading="setting", shows="correlation",
          base="τ = 0.1, t = 0.25"),
    Study("bam-parts", "from UDA to BAM-UDA step by step: which of them helps?", "not in the paper", _parts,
          pairs=(("UDA", SOFT), (SOFT, SOFT_ALL), *PART_PAIRS)),
    Study("bam-settings", "what BAM-FixMatch gains or loses by each of its settings", "not in the paper", _bam_settings,
          pairs=(("FM", "BAM-FM"), *((f"FM, {name}", f"BAM-FM, {name}") for name in (LONGER, STRONG)),
                 *(("FM", f"FM, {name}") for name in (LONGER, STRONG)),
                 *(("BAM-FM", f"BAM-FM, {name}") for name in (
                     *(f"Q = {q:g}" for q in QUANTILES), "KL × 0.1", "no KL", "quantile over 5 steps",
                     "batch statistics", LONGER, STRONG)))),
)  # fmt: skip
STUDIES = tuple(replace(study, settings=True) for study in _STUDIES)
