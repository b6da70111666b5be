import zipfile
from dataclasses import fields, replace

import numpy as np
import pytest

from surelabel.phc.store import CrystalSet, classify, load, save
from surelabel.utils.errors import UserError


@pytest.fixture
def crystals():
    n = 3
    return CrystalSet(
        index=np.arange(n),
        coverage=np.full((n, 32, 32), 3, dtype=np.uint8),
        epsilon_in=np.array([10.0, 4.0, 1.0]),
        epsilon_out=np.array([1.0, 1.0, 7.0]),
        filling=np.full(n, 0.5),
        gaps=np.zeros((n, 9)),
        label=np.array([0, 4, 4]),
        test=np.array([False, True, False]),
        seed=np.array(0),
        draws=np.array(3),
        min_delta_eps=np.array(0.0),
        grid=np.array("midpoint"),
        recipe_version=np.array(1),
    )


def test_classify_intervals_are_closed_above():
    largest = np.array([0.0, 1e-3, 5.0, 5.001, 12.0, 12.001, 20.0, 20.001, 80.0])
    table = np.zeros((9, 9))
    table[np.arange(9), np.arange(9)] = largest  # whichever of the nine gaps is the largest
    assert classify(table).tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_load_returns_what_was_saved(crystals, tmp_path):
    save(crystals, tmp_path / "set.npz")
    back = load(tmp_path / "set.npz")
    for field in fields(CrystalSet):
        assert np.array_equal(getattr(back, field.name), getattr(crystals, field.name))
        assert getattr(back, field.name).dtype == getattr(crystals, field.name).dtype
    np.testing.assert_allclose(back.epsilon()[:, 0, 0], [4.0, 2.0, 5.0])
    np.testing.assert_allclose(back.epsilon(np.array([2]))[0], 5.0)
    assert back.counts().tolist() == [1, 0, 0, 0, 2]


def test_save_writes_no_dates(crystals, tmp_path):
    save(crystals, tmp_path / "set.npz")
    with zipfile.ZipFile(tmp_path / "set.npz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda path: path.unlink(), "does not exist"),
        (lambda path: path.write_bytes(path.read_bytes()[:500]), "not a readable"),
        (lambda path: path.write_bytes(b""), "not a readable"),
        (lambda path: np.savez(path, index=np.arange(3)), "not a readable"),
        (lambda path: np.savez(path, index=np.array([print], dtype=object)), "not a readable"),
    ],
)
def test_load_rejects_missing_and_damaged_files(crystals, tmp_path, spoil, complaint):
    path = tmp_path / "set.npz"
    save(crystals, path)
    spoil(path)
    with pytest.raises(UserError, match=complaint):
        load(path)


def test_load_rejects_other_versions_and_unequal_lengths(crystals, tmp_path):
    save(replace(crystals, recipe_version=np.array(99)), tmp_path / "new.npz")
    with pytest.raises(UserError, match="recipe version 99"):
        load(tmp_path / "new.npz")
    save(replace(crystals, label=np.array([0])), tmp_path / "short.npz")
    with pytest.raises(UserError, match="different lengths"):
        load(tmp_path / "short.npz")
