import pytest

from surelabel.cli.main import main
from surelabel.phc import audit as audit_module
from surelabel.phc import generate as generate_module
from surelabel.phc import pictures
from surelabel.phc.audit import Difference
from surelabel.phc.store import load


@pytest.mark.slow
def test_make_phc_writes_the_set_and_says_what_it_made(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(generate_module, "_CHUNK", 8)
    options = "--samples 10 --seed 2 --workers 2 --min-delta-eps 6"
    assert main(["data", "make-phc", "-o", str(tmp_path / "set.npz"), *options.split()]) == 0
    crystals = load(tmp_path / "set.npz")
    assert (crystals.seed, crystals.min_delta_eps, crystals.grid) == (2, 6.0, "midpoint")
    shown = capsys.readouterr().out
    assert f"10 crystals of {crystals.draws} draws" in shown
    assert f"no gap: {crystals.counts()[0]}" in shown


def test_audit_phc_prints_a_row_for_each_crystal_and_a_summary(capsys, monkeypatch):
    rows = [Difference(17, 2, 2, 7.5, 7.45, 1e-15, 0.001), Difference(4321, 1, 0, 0.2, 0.0, 3e-15, 0.003)]
    monkeypatch.setattr(audit_module, "audit", lambda *_, **__: rows)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["data", "audit-phc", "--samples", "2"]) == 0
    shown = capsys.readouterr().out
    assert "+0.050" in shown
    assert "4321" in shown
    assert "mean difference 0.125 points, worst 0.200; class differs in 1 of 2" in shown
    assert "mean relative difference 0.20%" in shown
    assert "worst pixel 3.0e-15" in shown


def test_phc_pictures_says_what_it_wrote(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(pictures, "draw_pictures", lambda out: [out / "phc-bands.png"])
    assert main(["data", "phc-pictures", "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "phc-bands.png")
