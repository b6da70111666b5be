"""UDA, unsupervised data augmentation (Xie et al., 2020): sharpened soft pseudo-labels from confident weak views.

The threshold applies to the unsharpened probabilities, as in UDA's paper and code.
"""

from surelabel.methods.selection import Confidence
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Sharpen

uda = SelfTraining(select=Confidence(0.8), target=Sharpen(0.4))
