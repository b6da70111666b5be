"""The alarm for kinds of things that no label names: how often it rings without one, and with one."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator
from scipy.stats import binomtest

from surelabel.inference import unnamed
from surelabel.inference.unnamed import RISK, Draw, emptiest, emptiest_by_chance, find_parts
from surelabel.methods.propagation import neighbour_graph

KINDS, EACH = 6, 80


@pytest.fixture(scope="module")
def pool():
    """Rows of several kinds, each around a centre, and the kind of each."""
    random = np.random.default_rng(0)
    centres = random.normal(scale=3, size=(KINDS, 12))
    rows = np.repeat(centres, EACH, axis=0) + random.normal(size=(KINDS * EACH, 12))
    kinds = np.repeat(np.arange(KINDS), EACH)
    return rows.astype(np.float32), kinds, find_parts(rows.astype(np.float32))


def uniform(rows, labels):
    return Draw(np.ones((len(rows), 1)), np.array([labels]))


def guessed(kinds, labels, random):
    """The rates of a draw by class, from predictions that are right for 95 % of the named classes, and as sure.

    What is of no named class is taken for the next one.
    """
    named = np.unique(labels)
    taken = np.where(np.isin(kinds, named), kinds, named[(kinds + 1) % len(named)])
    said = np.where(random.random(len(kinds)) < 0.95, taken, random.choice(named, len(kinds)))
    probs = np.where(said[:, None] == named, 0.95, 0.05 / (len(named) - 1))
    return Draw(probs, np.unique(labels, return_counts=True)[1])


def mask(labelled, count):
    return np.isin(np.arange(count), labelled)


def test_it_rings_as_rarely_as_it_says_for_labels_drawn_at_random(pool):
    """In at most RISK of draws; with that rate, the test fails in 0.1 % of all draws of 300."""
    rows, _, parts = pool
    random = np.random.default_rng(1)
    draw = uniform(rows, 40)
    by_chance = emptiest_by_chance(parts, draw, random)
    rung = 0
    for _ in range(300):
        known = mask(random.choice(len(rows), 40, replace=False), len(rows))
        rung += emptiest(parts, known, draw, draw, by_chance).risk <= RISK
    assert binomtest(rung, 300, RISK, alternative="greater").pvalue > 0.001
    assert rung  # it is not trivial


def test_it_rings_as_rarely_for_labels_drawn_per_class_from_an_uneven_pool(pool):
    """In at most RISK of draws; with that rate, the test fails in 0.1 % of all draws of 60."""
    rows, kinds, _ = pool
    random = np.random.default_rng(2)
    kept = np.flatnonzero(random.random(len(rows)) < 0.85 ** (3 * kinds))
    rows, kinds = rows[kept], kinds[kept]
    parts = find_parts(rows)
    rung = 0
    for _ in range(60):
        labelled = np.concatenate([random.permutation(np.flatnonzero(kinds == k))[:4] for k in range(KINDS)])
        draw = guessed(kinds, kinds[labelled], random)
        by_chance = emptiest_by_chance(parts, draw, random)
        rung += emptiest(parts, mask(labelled, len(rows)), draw, draw, by_chance).risk <= RISK
    assert binomtest(rung, 60, RISK, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize("drawn", ["random", "per class"])
def test_it_finds_a_kind_without_a_label(pool, drawn):
    """In nine of ten draws, and of what it shows, four fifths are of that kind."""
    rows, kinds, parts = pool
    random = np.random.default_rng(3)
    found, pure = 0, []
    for number in range(20):
        missing = number % KINDS
        named = random.permutation(np.flatnonzero(kinds != missing))
        labelled = named[:60]
        if drawn == "per class":
            labelled = np.concatenate([named[kinds[named] == k][:12] for k in range(KINDS)])
        by_class = guessed(kinds, kinds[labelled], random)
        draw = uniform(rows, len(labelled)) if drawn == "random" else by_class
        by_chance = emptiest_by_chance(parts, draw, random)
        part = emptiest(parts, mask(labelled, len(rows)), draw, by_class, by_chance)
        found += part.risk <= RISK
        pure.append((kinds[part.inside] == missing).mean())
    assert found >= 18
    assert np.mean(pure) > 0.8


def test_a_frequent_class_with_few_labels_is_not_without_a_name(pool):
    """As many labels of each class, from a pool in which one is far more frequent, taken for labels at random.

    It rings in at most two of ten draws, where it always would.
    """
    rows, kinds, _ = pool
    random = np.random.default_rng(4)
    kept = np.flatnonzero((kinds == 0) | (np.arange(len(rows)) % 5 == 0))
    rows, kinds = rows[kept], kinds[kept]
    parts, draw = find_parts(rows), uniform(rows, 10 * KINDS)
    by_chance = emptiest_by_chance(parts, draw, random)
    rung = 0
    for _ in range(10):
        labelled = np.concatenate([random.permutation(np.flatnonzero(kinds == k))[:10] for k in range(KINDS)])
        known, by_class = mask(labelled, len(rows)), guessed(kinds, kinds[labelled], random)
        assert emptiest(parts, known, draw, draw, by_chance).risk <= RISK
        rung += emptiest(parts, known, draw, by_class, by_chance).risk <= RISK
    assert rung <= 2


def test_labels_that_were_asked_for_name_a_kind(pool):
    rows, kinds, parts = pool
    random = np.random.default_rng(5)
    labelled = random.permutation(np.flatnonzero(kinds != 2))[:60]
    asked = random.permutation(np.flatnonzero(kinds == 2))[:10]
    draw = uniform(rows, 60)
    by_chance = emptiest_by_chance(parts, draw, random)
    assert emptiest(parts, mask(labelled, len(rows)), draw, draw, by_chance).risk <= RISK
    both = mask(np.concatenate([labelled, asked]), len(rows))
    assert emptiest(parts, both, draw, draw, by_chance).risk > RISK


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((60, 3)),  # all the same
        np.arange(60.0)[:, None],  # one column
        np.repeat(np.eye(3), 20, axis=0),  # few distinct
        np.concatenate([np.zeros((59, 4)), np.full((1, 4), 1e6)]),
    ],
)
def test_odd_rows_are_no_reason_to_ring(rows):
    """In more than five of 20 draws, at a rate of RISK, once in 260 times."""
    parts, random = find_parts(rows.astype(np.float32)), np.random.default_rng(0)
    draw = uniform(rows, 12)
    by_chance = emptiest_by_chance(parts, draw, random)
    known = [mask(random.choice(60, 12, replace=False), 60) for _ in range(20)]
    assert sum(emptiest(parts, one, draw, draw, by_chance).risk <= RISK for one in known) <= 5


def test_rates_decide_what_is_drawn():
    rates = np.array([[1.0, 0], [1, 0], [0, 1], [0, 3]])
    draw = Draw(rates, np.array([1, 1]))
    np.testing.assert_allclose(draw.expected, [0.5, 0.5, 0.25, 0.75])
    drawn = draw.again(np.random.default_rng(0))
    assert (drawn[:2].sum(0) == 1).all()
    assert binomtest(int(drawn[3].sum()), drawn.shape[1], 0.75).pvalue > 0.001


class Counted(LinearOperator):
    """A matrix that counts how often it is multiplied by a vector."""

    def __init__(self, matrix):
        super().__init__(float, matrix.shape)
        self.matrix, self.products = matrix, 0

    def _matvec(self, vector):
        self.products += 1
        return self.matrix @ vector

    def astype(self, dtype):
        return self


def test_rows_of_many_separate_groups_are_soon_told_apart(monkeypatch):
    random = np.random.default_rng(0)
    sizes = random.integers(20, 200, 30)
    centres = random.normal(scale=100, size=(30, 12))
    rows = (np.repeat(centres, sizes, axis=0) + random.normal(size=(sizes.sum(), 12))).astype(np.float32)
    graph = Counted(neighbour_graph(rows).astype(float))
    monkeypatch.setattr(unnamed, "neighbour_graph", lambda rows: graph)
    _, directions = unnamed.graph_directions(rows)
    assert directions.shape == (len(rows), 20)
    assert graph.products < 2000
    values = np.sum(directions * (graph.matrix @ directions), axis=0)
    np.testing.assert_allclose(graph.matrix @ directions, directions * values, atol=1e-3)
