"""The methods, by name. Each is a value; a variant is a swap of one part."""

from surelabel.methods.fixmatch import fixmatch
from surelabel.methods.pseudo_label import pseudo_label
from surelabel.methods.selftraining import SelfTraining
from surelabel.methods.supervised import supervised
from surelabel.methods.uda import uda

METHODS: dict[str, SelfTraining] = {
    "supervised": supervised,
    "pseudo-label": pseudo_label,
    "uda": uda,
    "fixmatch": fixmatch,
}
