"""FixMatch (Sohn et al., 2020): hard pseudo-labels of confident weak views, learnt on strong views."""

from surelabel.methods.selftraining import SelfTraining
from surelabel.select import Confidence
from surelabel.targets import Hard

fixmatch = SelfTraining(select=Confidence(0.95), target=Hard())
