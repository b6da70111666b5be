from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from surelabel.data.multicrop import MultiCropLoader
from surelabel.data.views import Identity, paws_view


@pytest.fixture
def loader(digits_data):
    """Classes 0 to 9 with 2, 3, ... 11 labels."""
    labels = digits_data.train.labels
    labelled = np.concatenate([np.flatnonzero(labels == k)[: k + 2] for k in range(10)])
    same = Identity()
    return MultiCropLoader(
        digits_data.train, labelled, 3, 6, 5, torch.device("cpu"), same, same, paws_view(4, (0.3, 0.75), "crops"),
        support_views=2, small_crops=3,
    )  # fmt: skip


def test_multicrop_support_is_class_balanced(loader):
    for step in range(5):
        batch = loader(step)
        assert Counter(batch.labels.tolist()) == dict.fromkeys(range(10), 2 * 5)
        assert (len(batch.support), batch.support_images, batch.n_samples) == (100, 50, 56)


def test_multicrop_support_has_its_own_labels(loader):
    batch = loader(7)
    known = {loader.source.samples(np.array([i])).tobytes(): loader.source.labels[i] for i in loader.labelled}
    for image, label in zip(batch.support, batch.labels, strict=True):
        assert known[image.numpy().tobytes()] == label


def test_multicrop_support_uses_each_label_before_any_again(loader):
    nine = [i for i in loader.labelled if loader.source.labels[i] == 9]  # 11 labels, 5 a step: 11 steps are 5 passes
    used = Counter()
    for step in range(11):
        used.update(loader._of_class(9, step).tolist())
    assert used == dict.fromkeys(nine, 5)


def test_multicrop_support_of_few_labels_is_uniform(loader):
    """Chi-squared over 2,000 steps of a class with 3 labels: fails by chance once in a million."""
    from scipy.stats import chisquare

    drawn = Counter(index for step in range(2000) for index in loader._of_class(1, step).tolist())
    assert len(drawn) == 3
    assert chisquare(list(drawn.values())).pvalue > 1e-6


def test_multicrop_support_of_fewer_classes_covers_all(loader):
    few = replace(loader, classes=4)
    seen = Counter()
    for step in range(30):
        found = Counter(few(step).labels.tolist())
        assert sorted(found.values()) == [2 * 5] * 4
        seen.update(found)
    assert len(seen) == 10


def test_multicrop_orders_views_by_image(loader):
    batch = loader(1)
    assert batch.large.shape == (12, 1, 8, 8)
    assert torch.equal(batch.large[:6], batch.large[6:])  # the identity twice
    assert torch.equal(batch.support[:50], batch.support[50:])
    assert batch.small.shape == (18, 1, 4, 4)
    assert not torch.equal(batch.small[:6], batch.small[6:12])
    means = batch.large[:6].float().mean((1, 2, 3))
    small = batch.small.float().mean((1, 2, 3)).view(3, 6).mean(0)
    assert torch.corrcoef(torch.stack([means, small]))[0, 1] > 0.5


def test_multicrop_without_small_crops(loader):
    assert replace(loader, small_crops=0)(0).small is None


def test_multicrop_is_a_function_of_seed_and_step(loader):
    mine, again, other = loader(4), loader(4), replace(loader, seed=4)(4)
    assert torch.equal(mine.small, again.small)
    assert not torch.equal(mine.large, other.large)
