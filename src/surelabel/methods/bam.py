"""BAM-X (Loh et al.): method X with a Bayesian last layer, averaged predictions and selection by their std.

Methods with rules of their own have these kept: they are made by `bayesian`, beside the method itself.
"""

from dataclasses import replace

from surelabel.methods.fixmatch import fixmatch
from surelabel.methods.pseudo_label import pseudo_label
from surelabel.methods.selection import Confidence, Uncertainty
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Sharpen
from surelabel.methods.uda import uda
from surelabel.models.heads import Bayesian


def bam(method: SelfTraining) -> SelfTraining:
    """The method with a Bayesian head and selection by uncertainty."""
    return replace(method, head=Bayesian(), select=Uncertainty(quantile=0.95))


def bayesian(method: SelfTraining) -> SelfTraining:
    """The method with a Bayesian head: it predicts by averages, and keeps its own rules."""
    return replace(method, head=Bayesian())


bam_pseudo_label = bam(pseudo_label)
bam_fixmatch = bam(fixmatch)
bam_uda = replace(bam(uda), target=Sharpen(0.9))
# The ablation "BNN no σ²": averaged predictions, selected by confidence.
bam_uda_no_sigma = replace(bam_uda, select=Confidence(0.95))
