"""ReMixMatch's distribution alignment (Berthelot et al., 2020): pseudo-labels have the shares of the labels.

All are accepted and sharpened, as there; of ReMixMatch, its mixup and its rotation loss are left out.
"""

from surelabel.methods.alignment import MovingMean
from surelabel.methods.bam import bayesian
from surelabel.methods.selection import Confidence
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Sharpen

remixmatch_align = SelfTraining(select=Confidence(0.0), target=Sharpen(0.5), align=MovingMean("labels"), weight=1.5)
bam_remixmatch_align = bayesian(remixmatch_align)
