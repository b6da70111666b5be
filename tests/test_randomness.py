import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from surelabel.randomness import generator, sample_order, uniforms


def test_draws_are_a_function_of_seed_purpose_and_step():
    first = uniforms(1, "weak", 7, 5, 3)
    assert np.array_equal(first, uniforms(1, "weak", 7, 5, 3))
    for other in [(2, "weak", 7), (1, "strong", 7), (1, "weak", 8)]:
        assert not np.array_equal(first, uniforms(*other, 5, 3))


def test_keys_do_not_run_into_one_another():
    assert generator(1, "a", 23).random() != generator(12, "a", 3).random()
    assert generator(1, "a/2", 3).random() != generator(1, "a", 23).random()


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 7))
def test_a_row_depends_on_its_position_alone(rows, more, columns):
    assert np.array_equal(uniforms(0, "x", 3, rows + more, columns)[:rows], uniforms(0, "x", 3, rows, columns))


def test_uniforms_are_uniform_and_below_one():
    draws = uniforms(0, "x", 0, 100_000, 2)
    assert draws.min() >= 0
    assert draws.max() < 1
    # Fixed seed; a right generator fails for one seed in a thousand.
    assert stats.kstest(draws.ravel(), "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(draws.T)[0, 1]) < 3.3 / np.sqrt(len(draws))


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 5))
def test_every_pass_takes_each_sample_once(size, batch, seed):
    steps = -(-3 * size // batch)
    stream = np.concatenate([sample_order(seed, "x", step, batch, size) for step in range(steps)])
    for number in range(3):
        assert sorted(stream[number * size : (number + 1) * size]) == list(range(size))


def test_passes_have_orders_of_their_own():
    passes = [sample_order(0, "x", number, 100, 100) for number in range(3)]
    assert not np.array_equal(passes[0], passes[1])
    assert not np.array_equal(passes[1], passes[2])
