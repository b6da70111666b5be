import torch

from surelabel.methods.targets import Hard, Sharpen

PROBS = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])


def test_a_hard_target_is_the_likeliest_class():
    assert Hard()(PROBS).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_a_sharpened_target_is_a_power_that_sums_to_one():
    powers = PROBS ** (1 / 0.4)
    torch.testing.assert_close(Sharpen(0.4)(PROBS), powers / powers.sum(1, keepdim=True))
