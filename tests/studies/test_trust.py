import numpy as np
import pytest

from surelabel.cli.main import main
from surelabel.studies import trust, trust_cells, trust_methods
from surelabel.studies.trust_cells import Cell, draw
from surelabel.studies.trust_methods import CROSSFITTED, of_pixels, of_surelabel

SMALL = {"network.name": "members-10-8", "steps": 20}


@pytest.mark.slow
def test_study_measures_all_methods_and_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    methods = {name: trust_methods.METHODS[name] for name in ("logistic regression", "label spreading", "supervised")}
    monkeypatch.setattr(trust_methods, "METHODS", {"sure": of_surelabel("sure", **SMALL)} | methods)
    monkeypatch.setattr(trust_cells, "CELLS", (Cell("wine", 30), Cell("wine", 30, "per-class", 3)))
    monkeypatch.setattr(trust_cells, "CHEAP", (Cell("wine", 30),))
    monkeypatch.setattr(trust, "MANY", 3)
    monkeypatch.setattr(trust_methods, "STEPS", 2)
    pixels = {CROSSFITTED: of_pixels("supervised", 2), "logistic regression": methods["logistic regression"]}
    monkeypatch.setattr(trust_methods, "ON_CRYSTALS", pixels)
    monkeypatch.setattr(trust_cells, "CRYSTALS", Cell("phc", 50, pool=300))
    command = ["study", "trust", "--seeds", "2", "--out", str(tmp_path)]
    assert main(command) == 0
    rows = trust.read(tmp_path / "results")
    assert len(rows) == 2 * (2 * 4 + 2) + 1
    assert all(row["accuracy"] > 0.5 for row in rows if row["cell"].startswith("wine"))
    page = (tmp_path / "results" / "trust.md").read_text()
    assert "## wine, long tail 3, 30 labels, as many of each class" in page
    assert "Its interval of the accuracy held the truth in" in page
    assert "of 3 draws" in page
    assert "Its sets of classes for 90% held the right one" in page
    assert f"{CROSSFITTED} minus it" in page.partition("## Networks from pixels")[2]
    written = (tmp_path / "results" / "trust.jsonl").read_bytes()
    assert main(command) == 0
    assert (tmp_path / "results" / "trust.jsonl").read_bytes() == written
    assert main([*command, "--list"]) == 0
    assert "21 of 21 records" in capsys.readouterr().out


def test_draws_have_every_class_and_the_tail_that_is_asked_for():
    random = np.random.default_rng(0)
    rows, classes = random.normal(size=(4000, 2)).astype(np.float32), np.arange(4000) % 4
    pool, truth, labelled = draw(Cell("a", 20), rows, classes, 0)
    assert len(pool) == 4000
    assert set(truth[labelled]) == {0, 1, 2, 3}
    _, truth, labelled = draw(Cell("a", 20, "per-class", 10), rows, classes, 1)
    counts = np.bincount(truth)
    assert counts.max() == 1000
    assert counts.min() == 100
    assert np.bincount(truth[labelled]).tolist() == [5] * 4
    again = draw(Cell("a", 20, "per-class", 10), rows, classes, 1)
    np.testing.assert_array_equal(again[2], labelled)
