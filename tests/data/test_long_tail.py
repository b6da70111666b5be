import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.data.long_tail import by_group, class_sizes, group_names, long_tailed
from surelabel.data.splits import draw_labelled, parse_labels
from surelabel.utils.errors import UserError

# The paper's Table 5, but for its 2,041 labels of CIFAR-10 with α = 10: its formula, however
# rounded, gives at most 2,040.
PRINTED = {
    (10, 10): (20_431, 2_040),
    (10, 100): (12_406, 1_236),
    (100, 10): (19_573, 1_911),
    (100, 100): (10_847, 1_051),
}


def balanced(classes: int, each: int):
    labels = np.tile(np.arange(classes), each)
    images = np.arange(len(labels), dtype=np.uint32).view(np.uint8).reshape(-1, 1, 2, 2)
    return user_data_set(
        "whole",
        ArraySource(images, labels, layout="NCHW"),
        ArraySource(images[:classes], labels[:classes], layout="NCHW"),
    )


@pytest.mark.parametrize(("classes", "alpha"), PRINTED)
def test_long_tailed_has_the_sizes_of_the_paper(classes, alpha):
    data = long_tailed(balanced(classes, 50_000 // classes), alpha)
    labels = data.train.labels
    labelled = draw_labelled(labels, classes, parse_labels("10%"), seed=0)
    assert (len(data.train), len(labelled)) == PRINTED[classes, alpha]
    sizes = np.bincount(labels)
    assert sizes[0] == alpha * sizes[-1] == 50_000 // classes
    assert (np.diff(sizes) <= 0).all()


@given(st.integers(1, 5000), st.integers(1, 200), st.integers(2, 100))
def test_class_sizes_fall_by_a_constant_factor(largest, alpha, classes):
    sizes = class_sizes(largest, alpha, classes)
    exact = largest * np.exp(-np.log(alpha) * np.arange(classes) / (classes - 1))
    assert ((sizes <= exact + 1e-6) & (exact - 1e-6 < np.add(sizes, 1))).all()
    assert sizes[0] == largest


def test_long_tailed_draws_the_same_subset_every_time():
    whole = balanced(10, 50)
    first, again = long_tailed(whole, 10), long_tailed(whole, 10)
    every = np.arange(len(first.train))
    assert (first.train.samples(every) == again.train.samples(every)).all()
    numbers = first.train.samples(every).reshape(-1, 4).view(np.uint32).ravel()
    assert len(set(numbers)) == len(every)
    assert (whole.train.labels[numbers] == first.train.labels).all()
    rarest = np.flatnonzero(whole.train.labels == 9)
    assert set(numbers[first.train.labels == 9]) != set(rarest[:5])  # drawn, not the first ones
    assert first.test is whole.test
    assert (first.classes, first.train.shape, first.name) == (whole.classes, whole.train.shape, "whole-lt10")


def test_long_tailed_rejects_a_class_with_too_few_images():
    labels = np.array([0] * 10 + [1] * 10 + [2])
    source = ArraySource(np.zeros((21, 2, 2), np.uint8), labels)
    with pytest.raises(UserError, match="class 2 has too few images"):
        long_tailed(user_data_set("small", source, None), 2)


def test_group_names_are_those_of_the_paper():
    assert group_names([101, 100, 10, 9]) == ["many", "medium", "medium", "few"]
    for alpha, expected in ((10, (69, 31, 0)), (100, (35, 50, 15))):
        named = group_names(class_sizes(500, alpha, 100))
        assert tuple(named.count(name) for name in ("many", "medium", "few")) == expected, alpha


def test_by_group_equals_a_plain_loop():
    random = np.random.default_rng(0)
    pool = np.repeat(np.arange(6), [500, 101, 100, 10, 9, 1])
    labels, right = random.integers(5, size=300), random.random(300) < 0.6
    found = by_group(pool, 6, right, labels)
    members = {"many": (0, 1), "medium": (2, 3), "few": (4, 5)}
    assert list(found) == list(members)
    for name, inside in members.items():
        hits = [bool(ok) for ok, label in zip(right, labels, strict=True) if label in inside]
        assert found[name] == {"classes": 2, "count": len(hits), "accuracy": pytest.approx(sum(hits) / len(hits))}
    assert by_group(pool[pool < 2], 2, right, labels % 2) == {}
    assert by_group(np.array([0, -1]), 2, right, labels % 2) == {}  # unknown classes in the pool
