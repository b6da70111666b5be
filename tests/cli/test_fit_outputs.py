"""The way of somebody with a folder of pictures and a table of a few labels."""

import csv

import numpy as np
import pytest
from PIL import Image

from surelabel.cli import fit_outputs as write_fit_outputs
from surelabel.cli.main import main
from surelabel.config.run import RunConfig
from surelabel.data.source import DataSet
from surelabel.inference.cross_validation import Estimate
from surelabel.inference.trained_run import TrainedRun
from surelabel.training.run_folder import RunFolder
from tests.conftest import digits

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
SMALL = ["--network.name", "wrn-10-1", "--batch.labelled", "8", "--batch.ratio", "2", "--threads", "1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """120 pictures with odd names, 30 of them labelled."""
    place = tmp_path_factory.mktemp("own data")
    images, labels = digits()
    lines = []
    for number in range(120):
        name = f"größe {labels[number]}/a, {number}.png" if number % 2 else f"={number}.png"
        (place / "pictures" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[number, 0]).save(place / "pictures" / name)
        lines.append((name, f"<b>{labels[number]}</b>"))
    write(place / "labels.csv", lines[:30])
    write(place / "more.csv", lines[28:36])
    return place


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("path", "label"), *rows])


@pytest.fixture(scope="module")
def run(place):
    words = ["fit", str(place / "pictures"), "--labels", str(place / "labels.csv"), "--steps", "10", *SMALL]
    assert main([*words, "--out", str(place / "run"), "--crossfit", "2", "--accept", "0.6"]) == 0
    return place / "run"


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_fit_outputs_predict_every_unlabelled_picture(run, place):
    found = rows(run / "predictions.csv")
    assert len(found) == 90
    assert set(found[0]) == {"sample", "class", "confidence", "entropy", "confidence_std"}
    labelled = {row["path"] for row in rows(place / "labels.csv")}
    assert not labelled & {row["sample"].removeprefix("'") for row in found}
    assert sum(row["sample"].startswith("größe ") for row in found) == 45
    assert sum(row["sample"].startswith("'=") for row in found) == 45


@pytest.mark.slow
def test_fit_page_shows_suggestions_and_escapes_names(run):
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "What to label next" in page
    assert "<b>1</b>" not in page
    assert "&lt;b&gt;1&lt;/b&gt;" in page


def test_crossfit_tells_how_far_to_trust_it(run):
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "How far to trust it" in page
    assert "by 30 labels, each predicted by networks that had not seen it" in page
    assert "no test set" not in page
    temperature = RunFolder(run).temperature
    assert f"temperature {temperature:.2f}" in page
    taken, left = rows(run / "accepted.csv"), rows(run / "to_label.csv")
    assert len(taken) + len(left) == 90
    predicted = {row["sample"]: row for row in rows(run / "predictions.csv")}
    assert all(row["confidence"] == predicted[row["sample"]]["confidence"] for row in (*taken, *left))


def test_crossfit_is_not_needed_again_to_accept(run, capsys):
    (run / "accepted.csv").unlink()
    assert main(["fit", "--resume", str(run), "--accept", "0.6"]) == 0
    assert (run / "accepted.csv").exists()
    assert "Cross-fitting" not in capsys.readouterr().out


def test_fit_from_a_run_adds_labels(run, place, capsys):
    assert main(["suggest", str(run), "-n", "3", "-o", str(place / "next.csv")]) == 0
    suggested = rows(place / "next.csv")
    assert [row["label"] for row in suggested] == ["", "", ""]
    # As a spreadsheet would leave it: with all its columns, and one label not filled in.
    filled = [row | {"label": "<b>3</b>"} for row in suggested[:-1]] + suggested[-1:]
    with (place / "next.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.DictWriter(file, list(suggested[0]))
        lines.writeheader()
        lines.writerows(filled)
    assert main(["fit", "--from", str(run), "--labels", str(place / "next.csv"), "--steps", "4"]) == 0
    again = RunFolder(f"{run}-2")
    assert len(again.labelled()) == 32
    assert again.config.network.name == "wrn-10-1"
    assert again.config.label_files == (str(place / "labels.csv"), str(place / "next.csv"))
    assert "120 pictures" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "nowhere", "--labels", "a.csv"], "not a run folder"),
        (["--from", "RUN"], "name a .csv file"),
        (["--from", "RUN", "--labels", "a.csv", "--method", "uda"], "do not go together"),
        (["--minutes", "5", "--steps", "7"], "do not go together"),
        (["--minutes", "soon"], "--minutes soon: give a number"),
        (["--crossfit", "1"], "--crossfit 1: give a whole number from 2"),
        (["--crossfit", "5", "--holdout", "20%"], "do not go together"),
        (["phc", "--method", "uda", "--accept", "0.9"], "Add --crossfit 5"),
        (["--sets", "0.9", "--method", "uda"], "--sets is for method sure"),
        (
            ["cifar10", "--method", "sure", "--encoder", "efficientnet-lite0", "--sets", "0.9"],
            "is for data of your own",
        ),
        (["phc", "--labels", "some.csv"], "phc is none of these"),
    ],
)
def test_fit_rejects_options_that_exclude_each_other(words, message, run, capsys):
    assert main(["fit", *(str(run) if word == "RUN" else word for word in words)]) == 2
    assert message in capsys.readouterr().err


def test_fit_rejects_one_class(place, tmp_path, capsys):
    write(tmp_path / "one.csv", [("=0.png", "cat"), ("=2.png", "cat")])
    words = ["fit", str(place / "pictures"), "--labels", str(tmp_path / "one.csv"), "--out", str(tmp_path / "run")]
    assert main([*words, *SMALL]) == 2
    assert "names one class only, 'cat'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_fit_names_a_class_with_one_label(place, tmp_path, capsys):
    write(tmp_path / "two.csv", [("=0.png", "cat"), ("=2.png", "cat"), ("=4.png", "dog")])
    words = ["fit", str(place / "pictures"), "--labels", str(tmp_path / "two.csv"), "--out", str(tmp_path / "run")]
    assert main([*words, *SMALL, "--steps", "2"]) == 0
    assert "Only one label: dog." in capsys.readouterr().out


def test_fit_warns_of_leaked_test_pictures(digits_data):
    run = TrainedRun(None)
    run.data, run.labelled = DataSet("d", digits_data.train, digits_data.train), np.array([3, 4])
    (note,) = write_fit_outputs.data_warnings(run)
    assert "test pictures are nearly the same as labelled ones" in note


def test_format_estimate_reads_well():
    words = write_fit_outputs.format_estimate(Estimate(50, 60))
    assert words.startswith("Right for about 83% of samples like the labelled ones (95% interval 65% to 93%)")
    assert RunConfig(labels="a.csv,b.csv").label_files == ("a.csv", "b.csv")
