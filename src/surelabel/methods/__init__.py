"""The methods, by name. Each is a value; a variant is a swap of one part."""

from surelabel.methods.bam import bam, bam_fixmatch, bam_pseudo_label, bam_uda, bam_uda_no_sigma
from surelabel.methods.fixmatch import fixmatch
from surelabel.methods.paws import Paws, bam_paws, paws
from surelabel.methods.pseudo_label import pseudo_label
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.supervised import supervised
from surelabel.methods.uda import uda

__all__ = ["METHODS", "Paws", "SelfTraining", "bam"]

METHODS: dict[str, SelfTraining | Paws] = {
    "supervised": supervised,
    "pseudo-label": pseudo_label,
    "uda": uda,
    "fixmatch": fixmatch,
    "bam-pseudo-label": bam_pseudo_label,
    "bam-uda": bam_uda,
    "bam-uda-no-sigma": bam_uda_no_sigma,
    "bam-fixmatch": bam_fixmatch,
    "paws": paws,
    "bam-paws": bam_paws,
}
