import torch

from surelabel.select import Confidence
from surelabel.types import Prediction


def test_confidence_accepts_at_and_above_the_threshold():
    probs = torch.tensor([[0.5, 0.5], [0.75, 0.25], [0.1, 0.9], [0.26, 0.74]])
    mask, state = Confidence(0.75)(Prediction(probs), Confidence(0.75).init(), step=0)
    assert mask.tolist() == [False, True, True, False]
    assert state == {}
