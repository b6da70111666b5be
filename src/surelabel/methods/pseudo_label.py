"""Pseudo-Label (Lee, 2013): hard pseudo-labels from confident images, both views weak."""

from surelabel.methods.selection import Confidence
from surelabel.methods.self_training import SelfTraining
from surelabel.methods.targets import Hard

pseudo_label = SelfTraining(select=Confidence(0.95), target=Hard(), views=("weak", "weak"), ratio=1)
