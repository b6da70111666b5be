from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.config.methods import find
from surelabel.training import build, build_data, evaluate
from surelabel.training.evaluate import NotFinite, evaluation_subset, fixed_sample, labelled_indices, predict
from surelabel.utils.rng import generator


@pytest.fixture
def network(tiny, digits_data):
    return build.build_network(build.resolve(tiny), build_data.task_of(digits_data))


def test_predict_ignores_batch_size_and_keeps_the_mode(network, digits_data):
    index = np.arange(50)
    network.train()
    before = network.backbone.norm.running_mean.clone()
    small, large = (predict(network, digits_data.test, index, batch).probs for batch in (7, 50))
    torch.testing.assert_close(small, large)
    assert network.training
    assert torch.equal(before, network.backbone.norm.running_mean)


def test_a_bayesian_prediction_depends_on_its_sample_alone(tiny, digits_data):
    network = build.build_network(build.resolve(replace(tiny, method="bam-uda")), build_data.task_of(digits_data))
    whole = predict(network, digits_data.test, np.arange(50), 50)
    for batch in (1, 7):
        turned = predict(network, digits_data.test, np.arange(50)[::-1], batch)
        torch.testing.assert_close(turned.probs.flip(0), whole.probs)
        torch.testing.assert_close(turned.std.flip(0), whole.std)


def test_predict_rejects_nan(network, digits_data):
    network.head.weight.data.fill_(torch.nan)
    with pytest.raises(NotFinite):
        predict(network, digits_data.test, np.arange(3), 3)


@pytest.mark.parametrize("batch", [3, 100])
def test_paws_support_is_each_labelled_image_with_its_class(tiny, digits_data, batch):
    config = replace(tiny, method="paws")
    network = build.build_network(config, build_data.task_of(digits_data)).train()
    labelled = build_data.build_split(config, digits_data)
    find("paws").before_evaluation(network, digits_data.train, labelled, batch)
    assert network.training
    network.eval()
    index = np.arange(30, 40)
    probs = evaluate.predict(network, digits_data.train, index, 4).probs
    with torch.no_grad():
        of = {i: network(torch.from_numpy(digits_data.train.samples(np.array([i])))).outputs[0, -1] for i in labelled}
        for row, n in zip(probs, index, strict=True):
            z = network(torch.from_numpy(digits_data.train.samples(np.array([n])))).outputs[0, -1]
            votes = torch.zeros(10)
            for i, support in of.items():
                votes[digits_data.train.labels[i]] += (torch.cosine_similarity(z, support, dim=0) / 0.1).exp()
            torch.testing.assert_close(row, votes / votes.sum(), rtol=1e-4, atol=1e-6)


def test_evaluation_subset_is_the_start_of_a_fixed_shuffle(digits_data):
    test = digits_data.test
    shuffled = generator(0, "test part").permutation(labelled_indices(test))
    assert np.array_equal(evaluation_subset(test, 50), np.sort(shuffled[:50]))
    assert np.array_equal(evaluation_subset(test, None), labelled_indices(test))


def test_fixed_sample_of_a_large_source_needs_little_memory(digits_data):
    assert np.array_equal(fixed_sample(digits_data.test, 10**6), np.arange(len(digits_data.test)))
    drawn = fixed_sample(range(10**10), 64)
    assert len(set(drawn.tolist())) == 64
    assert np.ptp(drawn) > 10**9
