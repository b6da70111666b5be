import torch

from surelabel.methods.targets import Hard, Sharpen

PROBS = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])


def test_hard_is_the_likeliest_class():
    assert Hard()(PROBS).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_sharpen_is_a_normalised_power():
    powers = PROBS ** (1 / 0.4)
    torch.testing.assert_close(Sharpen(0.4)(PROBS), powers / powers.sum(1, keepdim=True))
