"""The methods by name. Imports no torch: a method is imported when it is needed."""

from importlib import import_module
from typing import TYPE_CHECKING

from surelabel.utils.errors import UserError, suggestion

if TYPE_CHECKING:
    from surelabel.methods.base import Method

METHODS = {
    "sure": "surelabel.methods.sure:sure",
    "supervised": "surelabel.methods.supervised:supervised",
    "pseudo-label": "surelabel.methods.pseudo_label:pseudo_label",
    "uda": "surelabel.methods.uda:uda",
    "fixmatch": "surelabel.methods.fixmatch:fixmatch",
    "bam-pseudo-label": "surelabel.methods.bam:bam_pseudo_label",
    "bam-uda": "surelabel.methods.bam:bam_uda",
    "bam-uda-no-sigma": "surelabel.methods.bam:bam_uda_no_sigma",
    "bam-fixmatch": "surelabel.methods.bam:bam_fixmatch",
    "remixmatch-align": "surelabel.methods.remixmatch_align:remixmatch_align",
    "flexmatch": "surelabel.methods.flexmatch:flexmatch",
    "adamatch": "surelabel.methods.adamatch:adamatch",
    "debiaspl": "surelabel.methods.debiaspl:debiaspl",
    "softmatch": "surelabel.methods.softmatch:softmatch",
    "freematch": "surelabel.methods.freematch:freematch",
    "finessl-margin": "surelabel.methods.finessl_margin:finessl_margin",
    "dash": "surelabel.methods.dash:dash",
    "pi-model": "surelabel.methods.mean_teacher:pi_model",
    "mean-teacher": "surelabel.methods.mean_teacher:mean_teacher",
    "bam-remixmatch-align": "surelabel.methods.remixmatch_align:bam_remixmatch_align",
    "bam-flexmatch": "surelabel.methods.flexmatch:bam_flexmatch",
    "bam-adamatch": "surelabel.methods.adamatch:bam_adamatch",
    "bam-debiaspl": "surelabel.methods.debiaspl:bam_debiaspl",
    "bam-softmatch": "surelabel.methods.softmatch:bam_softmatch",
    "bam-freematch": "surelabel.methods.freematch:bam_freematch",
    "bam-finessl-margin": "surelabel.methods.finessl_margin:bam_finessl_margin",
    "bam-dash": "surelabel.methods.dash:bam_dash",
    "bam-pi-model": "surelabel.methods.mean_teacher:bam_pi_model",
    "bam-mean-teacher": "surelabel.methods.mean_teacher:bam_mean_teacher",
    "paws": "surelabel.methods.paws:paws",
    "bam-paws": "surelabel.methods.paws:bam_paws",
}
# These train on tables and features, not on pixels.
ON_FEATURES = ("sure",)
# Suffixes of any other method, after a plus: an averaged network makes the pseudo-labels.
TEACHERS = ("ema", "swa")
# These have one without a suffix.
TAUGHT = {"mean-teacher": "ema", "bam-mean-teacher": "ema"}
# Settings, or sections of them, that have an effect only for some methods.
OWNED = (
    "batch.",
    "views.",
    "align.",
    "selection.",
    "target.",
    "head.",
    "paws.",
    "sure.",
    "weight",
    "forward",
    "weak_norm",
    "fidelity",
)
# Settings with a published default for each method.
FILLED = (
    *(f"align.{name}" for name in ("rule", "prior", "decay", "queue")),
    *(f"selection.{name}" for name in ("threshold", "quantile", "decay")),
    "target.temperature",
    "weight",
    "forward",
    "weak_norm",
)


def names() -> list[str]:
    """All values of `method`."""
    return [*METHODS, *(f"{method}+{teacher}" for method in on_pixels() for teacher in TEACHERS)]


def on_pixels() -> list[str]:
    """The methods that can train on images themselves, without a teacher's suffix."""
    return [method for method in METHODS if method not in ON_FEATURES]


def find(name: str) -> "Method":
    """The method of this name with its published settings; the teacher is ignored."""
    if name not in names():
        raise UserError(f"there is no method {name!r}.{suggestion(name, names())}")
    module, _, attribute = METHODS[name.partition("+")[0]].partition(":")
    found: Method = getattr(import_module(module), attribute)
    return found
