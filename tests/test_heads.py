import torch

from surelabel.heads import LinearHead


def test_a_point_head_predicts_its_own_softmax_without_gradients_and_without_a_deviation():
    head = LinearHead(7, 3)
    features = torch.randn(5, 7)
    prediction = head.predict(features)
    expected = torch.softmax(features @ head.weight.T + head.bias, dim=1)
    torch.testing.assert_close(prediction.probs, expected.detach())
    assert not prediction.probs.requires_grad
    assert prediction.std is None
