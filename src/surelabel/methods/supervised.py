"""The baseline: labels only."""

from surelabel.methods.selection import Confidence
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Hard

supervised = SelfTraining(select=Confidence(1.0), target=Hard(), views=None, weight=0.0)
