"""The methods by name, and where each is written. Imports no torch: a method is imported when it is asked for."""

from importlib import import_module
from typing import TYPE_CHECKING

from surelabel.utils.errors import UserError, suggestion

if TYPE_CHECKING:
    from surelabel.methods.base import Method

METHODS = {
    "supervised": "surelabel.methods.supervised:supervised",
    "pseudo-label": "surelabel.methods.pseudo_label:pseudo_label",
    "uda": "surelabel.methods.uda:uda",
    "fixmatch": "surelabel.methods.fixmatch:fixmatch",
    "bam-pseudo-label": "surelabel.methods.bam:bam_pseudo_label",
    "bam-uda": "surelabel.methods.bam:bam_uda",
    "bam-uda-no-sigma": "surelabel.methods.bam:bam_uda_no_sigma",
    "bam-fixmatch": "surelabel.methods.bam:bam_fixmatch",
    "paws": "surelabel.methods.paws:paws",
    "bam-paws": "surelabel.methods.paws:bam_paws",
}
# Any method may have one of these after a plus: an averaged network makes its pseudo-labels.
TEACHERS = ("ema", "swa")
# Settings, or sections of them, that mean something only to a method that reads them.
OWNED = ("batch.", "views.", "selection.", "target.", "head.", "paws.", "weight", "forward", "weak_norm", "fidelity")

# What a method fills in with its published values.
FILLED = ("selection.threshold", "selection.quantile", "target.temperature", "weight", "forward", "weak_norm")


def names() -> list[str]:
    """All that `method` can be."""
    return [*METHODS, *(f"{method}+{teacher}" for method in METHODS for teacher in TEACHERS)]


def find(name: str) -> "Method":
    """The method of this name, whatever teacher it has; its own settings are those that it was published with."""
    if name not in names():
        raise UserError(f"there is no method {name!r}.{suggestion(name, names())}")
    module, _, attribute = METHODS[name.partition("+")[0]].partition(":")
    found: Method = getattr(import_module(module), attribute)
    return found
