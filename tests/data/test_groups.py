import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surelabel.data.groups import group_numbers, joined

PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40)


@given(PAIRS)
def test_joined_groups_are_connected_components(pairs):
    """By a plain loop: the smaller number wins until nothing changes."""
    first, second = np.array(pairs).T
    expected = np.arange(len(first))
    for _ in range(len(first)):
        for groups in (first, second):
            for group in np.unique(groups):
                expected[groups == group] = expected[groups == group].min()
    found = joined(first, second)
    np.testing.assert_array_equal(found[:, None] == found, expected[:, None] == expected)


def test_missing_names_are_groups_of_their_own():
    names = np.array(["b", "", "a", "b", ""])
    groups = group_numbers(names, names == "")
    assert groups[0] == groups[3]
    assert len(set(groups.tolist())) == 4
    assert group_numbers(np.array(["", ""]), np.array([True, True])).tolist() == [0, 1]
