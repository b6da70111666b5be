import json
from dataclasses import replace

import pytest

from surelabel.inference.trained_run import load
from surelabel.report import write_report
from surelabel.report.sections import ESTIMATE, sections
from tests.helpers.runs import fit_folder

pytest.importorskip("jinja2")
pytest.importorskip("mapie")


@pytest.mark.slow
def test_sections_show_calibration_and_estimate(tiny, tmp_path):
    run = load(fit_folder(replace(tiny, method="bam-uda")).path)
    (run.path / ESTIMATE).write_text(json.dumps({"words": "Right for <b>half</b>"}))
    made = sections([run], "test:200", 0.8)
    assert [section.title for section in made] == ["How accurate?", "Calibration on held-out labels"]
    write_report([run], tmp_path / "page.html", made)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    _, report = run.calibrate("test:200", 0.8)
    assert f"{100 * report.held_out.coverage:.1f} %" in page
    assert f"{report.held_out.ece_before:.3f}</td><td>{report.held_out.ece_after:.3f}" in page
    assert f"Temperature\n{report.temperature:.2f}" in page
    assert "Right for &lt;b&gt;half&lt;/b&gt;." in page


def test_sections_skip_a_damaged_estimate(tiny):
    folder = fit_folder(tiny)
    (folder.path / ESTIMATE).write_text("[]")
    assert sections([load(folder.path)]) == []
