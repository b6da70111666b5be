"""FixMatch (Sohn et al., 2020): hard pseudo-labels from confident weak views, learnt on strong views."""

from surelabel.methods.selection import Confidence
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Hard

fixmatch = SelfTraining(select=Confidence(0.95), target=Hard())
