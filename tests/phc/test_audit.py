import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from surelabel.phc import audit as module
from surelabel.phc.audit import audit, choose, compare
from surelabel.phc.store import EMBEDDED, load
from surelabel.phc.zone import stages
from surelabel.utils.errors import UserError


@pytest.fixture(scope="module")
def crystals():
    return load(EMBEDDED)


def mpb_is_installed():
    try:
        module._require_mpb()
    except UserError:
        return False
    return True


def test_choose_is_class_balanced(crystals):
    rows = choose(crystals, 30, seed=0)
    assert np.bincount(crystals.label[rows]).tolist() == [6] * 5
    assert len(np.unique(rows)) == 30
    assert not np.array_equal(rows, choose(crystals, 30, seed=1))
    assert len(choose(crystals, 3, seed=0)) == 3


@pytest.mark.slow
def test_compare_shows_a_wrong_label_gap_or_image(crystals):
    row = int(np.flatnonzero(crystals.label == 2)[0])
    points = np.concatenate(stages())
    image = crystals.epsilon(np.array([row]))[0]
    frequencies = module.bands(image, points, 10)
    same = compare(crystals, row, points, image, frequencies)
    assert (same.label, same.epsilon, same.frequency) == (same.mpb_label, 0, 0)
    assert same.gap == pytest.approx(same.mpb_gap, abs=1e-6)

    wrong = replace(crystals, label=np.full_like(crystals.label, 4), gaps=crystals.gaps + 1)
    changed = compare(wrong, row, points, image + np.eye(32), frequencies * 1.01)
    assert (changed.label, changed.mpb_label) == (4, 2)
    assert changed.gap - changed.mpb_gap == pytest.approx(1)
    assert changed.epsilon == pytest.approx(1)
    assert changed.frequency == pytest.approx(0.01, rel=0.02)


@pytest.mark.parametrize("python", [Path(sys.executable), Path("/no/such/python")])
def test_audit_without_mpb_says_what_to_install(monkeypatch, python):
    monkeypatch.setattr(module, "SYSTEM_PYTHON", python)
    with pytest.raises(UserError, match="apt-get install mpb"):
        audit(samples=1)


def test_audit_rejects_an_empty_sample():
    with pytest.raises(UserError, match="samples = 0"):
        audit(samples=0)


@pytest.mark.slow
@pytest.mark.skipif(not mpb_is_installed(), reason="MPB is not installed")
def test_audit_agrees_with_mpb():
    calls = []
    (difference,) = audit(samples=1, seed=3, progress=lambda *counts: calls.append(counts))
    assert difference.label == difference.mpb_label
    assert difference.gap == pytest.approx(difference.mpb_gap, abs=0.1)
    assert difference.epsilon < 1e-13
    assert difference.frequency < 0.01
    assert calls == [(1, 1)]
