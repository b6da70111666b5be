"""Pseudo-Label (Lee, 2013): hard pseudo-labels of confident images, both views weak."""

from surelabel.methods.selftraining import SelfTraining
from surelabel.select import Confidence
from surelabel.targets import Hard

pseudo_label = SelfTraining(select=Confidence(0.95), target=Hard(), views=("weak", "weak"))
