import json
from pathlib import Path

import pytest

from surelabel.config.methods import METHODS
from tools import compare_methods
from tools.compare_methods import DEFAULT, compare, lines_of, table


@pytest.mark.slow
def test_compare_runs_each_method_once_and_writes_the_table(digits_file, tmp_path, monkeypatch):
    settings = {
        "data": str(digits_file),
        "encoder": "none",
        "network.name": "wrn-10-1",
        "steps": 4,
        "batch.labelled": 8,
    }
    settings |= {f"views.{role}": role for role in ("weak", "strong")} | {"views.labelled": "weak"}
    compare(["bam-flexmatch", "softmatch"], tmp_path, settings)
    first = (tmp_path / "methods.jsonl").read_text()
    assert [json.loads(line)["method"] for line in first.splitlines()] == ["bam-flexmatch", "softmatch"]
    monkeypatch.setattr(
        compare_methods, "measured", lambda run: {**json.loads(first.splitlines()[0]), "method": run.method}
    )
    compare(["softmatch", "supervised"], tmp_path, settings)  # supervised alone is missing
    lines = (tmp_path / "methods.jsonl").read_text().splitlines()
    assert lines[:2] == first.splitlines()
    assert [json.loads(line)["method"] for line in lines[2:]] == ["supervised"]
    rows = (tmp_path / "methods.md").read_text().splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == ["`supervised`", "`bam-flexmatch`", "`softmatch`"]
    assert rows[1].split("|")[-2].strip() == str(lines_of("flexmatch"))


def test_comparison_has_each_method_plain_and_bayesian():
    assert set(DEFAULT) <= set(METHODS)
    plain = [name for name in DEFAULT if not name.startswith("bam-")]
    assert {f"bam-{name}" for name in plain if name != "supervised"} == {name for name in DEFAULT if name not in plain}


def test_page_shows_the_table_of_the_records():
    """After a change of a method's file: python tools/compare_methods.py CIFAR_DIR, which runs none again."""
    root = Path(__file__).parents[2]
    rows = [json.loads(line) for line in (root / "results" / "methods.jsonl").read_text().splitlines()]
    assert sorted(row["method"] for row in rows) == sorted(DEFAULT)
    assert table(rows) == (root / "results" / "methods.md").read_text()
    assert table(rows) in (root / "docs" / "methods.md").read_text()
