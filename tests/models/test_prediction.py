import pytest
import torch

from surelabel.models.prediction import Prediction

PROBS = torch.tensor([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0], [0.4, 0.4, 0.2]], dtype=torch.float64)


def test_a_temperature_divides_the_logits():
    logits = torch.tensor([[2.0, -1.0, 0.5]], dtype=torch.float64)
    for temperature in (0.5, 3.0):
        tempered = Prediction(logits.softmax(-1)).at(temperature).probs
        assert torch.allclose(tempered, (logits / temperature).softmax(-1))


def test_at_one_nothing_changes():
    prediction = Prediction(PROBS)
    assert prediction.at(1.0) is prediction
    assert prediction.at(2.0).std is None


def test_std_is_that_of_tempered_draws_to_first_order():
    draws = torch.Generator().manual_seed(0)
    p = 0.8 + 0.01 * torch.randn(100_000, dtype=torch.float64, generator=draws)
    drawn = torch.stack([p, 1 - p], 1)
    expected = Prediction(drawn).at(2.0).probs.std(0)
    mean = Prediction(drawn.mean(0, keepdim=True), drawn.std(0, keepdim=True)).at(2.0)
    assert mean.std[0].tolist() == pytest.approx(expected.tolist(), rel=0.01)


def test_std_stays_possible_where_a_class_is_certain():
    std = Prediction(PROBS, torch.full_like(PROBS, 0.3)).at(4.0).std
    assert torch.isfinite(std).all()
    assert (std <= 0.5).all()
