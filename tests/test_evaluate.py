import numpy as np
import pytest
import torch

from surelabel import build
from surelabel.evaluate import NotFinite, fixed_part, known, predict, some


@pytest.fixture
def network(tiny, digits_data):
    return build.build_network(build.resolve(tiny), build.task_of(digits_data))


def test_predictions_do_not_depend_on_the_batch_and_leave_the_network_in_its_mode(network, digits_data):
    index = np.arange(50)
    network.train()
    before = network.backbone.norm.running_mean.clone()
    small, large = (predict(network, digits_data.test, index, batch).probs for batch in (7, 50))
    torch.testing.assert_close(small, large)
    assert network.training
    assert torch.equal(before, network.backbone.norm.running_mean)


def test_predictions_that_are_no_numbers_are_refused(network, digits_data):
    network.head.weight.data.fill_(torch.nan)
    with pytest.raises(NotFinite):
        predict(network, digits_data.test, np.arange(3), 3)


def test_the_part_of_the_test_set_is_the_same_at_every_evaluation_and_for_every_seed(digits_data):
    part = fixed_part(digits_data.test, 100)
    assert len(np.unique(part)) == 100
    assert np.array_equal(part, fixed_part(digits_data.test, 100))
    assert np.array_equal(fixed_part(digits_data.test, None), known(digits_data.test))
    assert len(some(digits_data.test, 10**6)) == len(digits_data.test)
