import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from surelabel.data.arrays.source import ArraySource
from surelabel.models.prediction import Prediction
from surelabel.report.gallery import FIRST, MOST, MOST_BYTES, OF_CLASS, TopPrediction, choose, gallery

SCORES = st.integers(0, 200).flatmap(
    lambda n: st.tuples(
        arrays.arrays(np.float64, n, elements=st.sampled_from([-np.inf, 0.0, 0.25, 0.5, 1.0])),
        arrays.arrays(np.int64, n, elements=st.integers(0, 3)),
    )
)


@given(SCORES)
def test_choose_matches_a_plain_loop(drawn):
    score, group = drawn
    order = [i for i in sorted(range(len(score)), key=lambda i: -score[i]) if np.isfinite(score[i])]
    shown, taken = order[:FIRST], {}
    for i in shown:
        taken[group[i]] = taken.get(group[i], 0) + 1
    later = []
    for i in order[FIRST:]:
        place = taken[group[i]] = taken.get(group[i], 0) + 1
        if place <= OF_CLASS:
            later.append((place, i))
    expected = shown + [i for _, i in sorted(later, key=lambda pair: pair[0])]
    assert choose(score, group).tolist() == expected[:MOST]


def test_gallery_limits_its_bytes_but_shows_the_first():
    random = np.random.default_rng(0)
    source = ArraySource(random.integers(0, 256, (300, 3, 64, 64), dtype=np.uint8), random.integers(0, 10, 300))
    probs = torch.from_numpy(random.dirichlet(np.ones(10), 300))
    shown = gallery(source, np.arange(300), TopPrediction.of(Prediction(probs)), probs.amax(1).numpy())
    assert sum(sample.first for sample in shown) == FIRST
    assert FIRST < len(shown) < 100
    assert sum(len(sample.picture.address) for sample in shown) <= MOST_BYTES


def test_gallery_has_no_true_class_for_unlabelled_samples():
    source = ArraySource(np.zeros((3, 8, 8), dtype=np.uint8), [-1, 0, 1])
    probs = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    shown = gallery(source, np.arange(3), TopPrediction.of(Prediction(probs)), np.array([3.0, 2.0, 1.0]))
    assert [(sample.name, sample.true, sample.predicted) for sample in shown] == [
        ("0", None, 0),
        ("1", 0, 1),
        ("2", 1, 1),
    ]
