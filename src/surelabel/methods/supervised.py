"""The baseline: the labels alone."""

from surelabel.methods.selftraining import SelfTraining
from surelabel.select import Confidence
from surelabel.targets import Hard

supervised = SelfTraining(select=Confidence(1.0), target=Hard(), views=None, weight=0.0)
