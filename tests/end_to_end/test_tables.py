"""A table through the commands: fit, evaluate, predict."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from surelabel.cli.main import main
from surelabel.inference.trained_run import load
from surelabel.utils.errors import UserError
from tests.helpers.cli import fit_options
from tests.helpers.tables import read_csv


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """Real measurements of 178 wines, a few of them missing, with 24 labels."""
    frame, kind = load_wine(return_X_y=True, as_frame=True)
    random = np.random.default_rng(0)
    frame = frame.mask(random.random(frame.shape) < 0.02)
    frame["strength"] = pd.cut(frame["alcohol"], 3, labels=["light", "medium", "strong"]).astype(object)
    frame["bottle"] = [f"bottle {number}" for number in range(len(frame))]
    frame["split"] = np.where(random.random(len(frame)) < 0.4, "test", "train")
    known = (frame["split"] == "test") | (random.random(len(frame)) < 0.25)
    frame["cultivar"] = np.where(known, [f"cultivar {k}" for k in kind], "")
    path = tmp_path_factory.mktemp("wine") / "wine.csv"
    frame.to_csv(path)
    return path, frame


@pytest.fixture(scope="module")
def folder(wine):
    path, _ = wine
    out = path.parent / "run"
    options = [
        "--data",
        str(path),
        "--label-column",
        "cultivar",
        "--method",
        "bam-uda",
        "--steps",
        "60",
        "--threads",
        "1",
    ]
    assert main(["fit", *options, "--device", "cpu", "--out", str(out)]) == 0
    return out


@pytest.mark.slow
def test_fit_learns_a_table(folder, capsys):
    result = json.loads((folder / "result.json").read_text())
    assert result["averaged"]["accuracy"] > 0.8  # a third by chance
    assert main(["evaluate", str(folder)]) == 0
    assert f"{result['averaged']['accuracy']:.1%}" in capsys.readouterr().out


def test_fit_describes_a_table_first(wine, tmp_path, capsys):
    path, _ = wine
    options = ["--label-column", "cultivar", "--table.ignored", "ash", "--steps", "1", "--out", str(tmp_path / "run")]
    assert main(["fit", str(path), *options]) == 0
    said = capsys.readouterr().out
    assert "rows, with columns of numbers (alcohol, malic_acid, alcalinity_of_ash, " in said
    assert " and of categories (strength): " in said
    assert re.search(r"\d+ labelled \(cultivar 0 \d+, cultivar 1 \d+, cultivar 2 \d+\), \d+ unlabelled", said)


def test_predict_ignores_form_and_column_order(folder, wine, tmp_path, capsys):
    path, frame = wine
    other = frame.drop(columns=["cultivar", "split", "bottle"]).iloc[:, ::-1].assign(remark="new")
    other.to_parquet(tmp_path / "new.parquet")
    lines = []
    for data in (path, tmp_path / "new.parquet"):
        assert main(["predict", str(folder), str(data), "-o", str(tmp_path / "out.csv")]) == 0
        with (tmp_path / "out.csv").open() as file:
            lines.append(list(csv.DictReader(file)))
    assert lines[0] == lines[1]
    assert len(lines[0]) == 178
    assert set(lines[0][0]) == {"sample", "class", "confidence", "entropy", "confidence_std"}
    assert "not used, as the network was trained without: 'remark'" in capsys.readouterr().out


def test_predict_rejects_another_table(folder, wine, tmp_path, capsys):
    _, frame = wine
    frame.drop(columns=["ash"]).to_csv(tmp_path / "short.csv")
    np.save(tmp_path / "rows.npy", np.zeros((3, 4, 4), dtype=np.uint8))
    for data, message in (("short.csv", "lacks the column 'ash'"), ("rows.npy", "was trained on a table")):
        assert main(["predict", str(folder), str(tmp_path / data), "-o", str(tmp_path / "out.csv")]) == 2
        assert message in capsys.readouterr().err


def test_finetune_works_on_a_table(folder, tmp_path):
    assert main(["finetune", str(folder), "--out", str(tmp_path / "tuned"), "--steps", "2"]) == 0


TINY = ["--network.name", "members-10-8", "--sure.folds", "5", "--steps", "10", "--threads", "1", "--device", "cpu"]


def test_suggested_rows_are_labelled_in_their_own_file(tmp_path, capsys):
    """Fit, suggest, label, fit again: the first labels stay, and the new ones are learnt and judge nothing."""
    X, kind = load_wine(return_X_y=True)
    frame = pd.DataFrame(X).assign(name=[f"=bottle {n}" for n in range(len(X))])
    frame["y"] = np.where(np.arange(len(X)) % 3 == 0, [f"k{k}" for k in kind], "")
    table, new, run = (str(tmp_path / name) for name in ("wine.csv", "new.csv", "run"))
    frame.to_csv(table, index=False)
    assert main(["fit", table, *TINY, "--accept", "0.9", "--out", run]) == 0
    assert main(["suggest", run, "-n", "6", "-o", new]) == 0
    suggested = read_csv(Path(new))
    for row in suggested + read_csv(Path(run, "to_label.csv")):
        assert row["id"] == f"'=bottle {row['sample']}"
        assert row["drawn"] == "suggested"
    with Path(new).open("w", newline="") as file:
        lines = csv.DictWriter(file, list(suggested[0]))
        lines.writeheader()
        lines.writerows(row | {"label": f"k{kind[int(row['sample'])]}"} for row in suggested)
    capsys.readouterr()
    assert main(["fit", "--from", run, "--labels", new]) == 0
    again = load(f"{run}-2")
    assert len(again.labelled) == 60 + 6
    assert set(again.labelled) - set(load(run).labelled) == {int(row["sample"]) for row in suggested}
    assert len(again.trust.known.labels) == 60
    assert again.config.label_files == (new,)
    assert "by 60 labels" in capsys.readouterr().out
    # A third round keeps both files.
    assert main(["fit", "--from", f"{run}-2", "--labels", new, "--print-config"]) == 0
    assert f"labels: {new},{new}" in capsys.readouterr().out


def test_from_keeps_to_the_labels_that_a_run_used(tmp_path, capsys):
    table = tmp_path / "t.csv"
    table.write_text("x,y\n" + "".join(f"{x * x % 7},{'ab'[x % 2]}\n" for x in range(30)))
    run = str(tmp_path / "run")
    (tmp_path / "new.csv").write_text("sample,label\n5,b\n")
    assert main(["fit", str(table), "--labels", "8", "--method", "supervised", "--steps", "1", "--out", run]) == 0
    assert main(["fit", "--from", run, "--labels", str(tmp_path / "new.csv")]) == 2
    assert "tables of which all labels are used" in capsys.readouterr().err


def test_load_rejects_a_damaged_encoding(folder, wine, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    (copy / "table.json").write_text('{"columns": [{"kind": "magic"}]}')
    with pytest.raises(UserError, match=r"table\.json is damaged"):
        load(copy).predict(str(wine[0])).save(tmp_path / "out.csv")


def test_fit_chooses_the_recipe_of_a_table():
    run = fit_options(["--data", "a table.CSV"]).config
    assert (run.method, run.network.name, run.labels) == ("sure", "members-50-128", "all")
    run = fit_options(["--data", "a table.CSV", "--method", "uda"]).config
    assert (run.network.name[:4], run.views.strong, run.labels) == ("mlp-", "corrupt", "all")
    assert fit_options(["--data", "t.parquet", "--labels", "20"]).config.labels == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "t.csv", "--network.padding", "circular"], "--network.padding has no effect"),
        (["--data", "t.csv", "--network.stem_stride", "2"], "--network.stem-stride has no effect"),
        (
            ["--data", "t.csv", "--method", "uda", "--views.strong", "noise", "--table.corruption", "0.5"],
            "--table.corruption has no effect",
        ),
        (
            ["--data", "t.csv", "--method", "supervised", "--table.corruption", "0.5"],
            "--table.corruption has no effect",
        ),
        (["--data", "phc", "--label-column", "y"], "--label-column is of tables"),
        (["--data", "phc", "--group-column", "patient"], "--group-column is of tables"),
        (["--data", "phc", "--table.noise", "0.5"], "--table.noise has no effect"),
        (["--data", "t.csv", "--method", "paws"], "paws compares crops of images, but a table has none"),
        (["--data", "t.csv", "--size", "paper"], "the paper has no tables"),
        (["--data", "t.csv", "--table.corruption", "1.5"], "table.corruption must lie between 0 and 1"),
    ],
)
def test_fit_rejects_what_a_table_cannot_have(arguments, message):
    with pytest.raises(UserError, match=message):
        fit_options(arguments)
