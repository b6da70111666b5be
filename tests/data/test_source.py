"""Sources: samples have the names of the user's own files, whatever part of them a run sees."""

import csv

import numpy as np
import pytest

from surelabel.cli.main import main
from surelabel.data.images.folder import load
from surelabel.data.source import Subset
from surelabel.data.tables import source as table
from tests.helpers.images import picture, write_files


def write_table(path, rows=120):
    """Every third row is for the test, every other of the rest has no label."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["a", "b", "split", "label"])
        for row in range(rows):
            kind = row // 2 % 2
            part = "test" if row % 3 == 0 else "train"
            shown = kind if part == "test" or row % 2 else ""
            out.writerow([f"{rng.normal(4 * kind):.4f}", f"{rng.normal():.4f}", part, shown])
    return path


def test_rows_of_a_table_have_their_numbers_in_the_file(tmp_path):
    data = table.load(write_table(tmp_path / "rows.csv", 9))
    assert data.train.names(np.array([0, 1, 5])) == [1, 2, 8]
    assert data.test.names(np.arange(3)) == [0, 3, 6]
    assert Subset(Subset(data.train, np.array([2, 3, 5])), np.array([0, 2])).names(np.array([1, 0])) == [8, 4]


def test_pictures_are_called_by_their_files_in_a_part_too(tmp_path):
    write_files(tmp_path, {f"{kind}/{number}.png": picture(number) for kind in "ab" for number in range(3)})
    part = Subset(load(tmp_path).train, np.array([4, 1]))
    assert part.names(np.array([1, 0])) == ["a/1.png", "b/1.png"]


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--holdout", "50%"]], ids=["test rows", "held out too"])
def test_predictions_and_suggestions_name_the_rows_of_the_file(tmp_path, capsys, more):
    path, run = write_table(tmp_path / "rows.csv"), str(tmp_path / "run")
    assert main(["fit", "--data", str(path), "--steps", "20", "--threads", "1", "--out", run, *more]) == 0
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    unlabelled = [number for number, row in enumerate(rows) if row["label"] == "" and row["split"] == "train"]
    with (tmp_path / "run" / "predictions.csv").open(newline="") as file:
        predicted = {int(line["sample"]): line["class"] for line in csv.DictReader(file)}
    assert sorted(predicted) == unlabelled
    assert main(["suggest", run, "-n", "10", "-o", str(tmp_path / "next.csv")]) == 0
    with (tmp_path / "next.csv").open(newline="") as file:
        assert {int(line["sample"]) for line in csv.DictReader(file)} <= set(unlabelled)
    # The same rows, predicted from the file, where a row's number is its place.
    assert main(["predict", run, str(path), "-o", str(tmp_path / "all.csv")]) == 0
    with (tmp_path / "all.csv").open(newline="") as file:
        every = [line["class"] for line in csv.DictReader(file)]
    same = sum(predicted[number] == every[number] for number in unlabelled)
    assert same >= len(unlabelled) - 2  # a Bayesian head draws anew for each place
    capsys.readouterr()


def test_subset_has_its_rows_and_all_classes(digits_data):
    whole = digits_data.train
    rows = np.array([7, 3, 900])
    part = Subset(whole, rows)
    assert (len(part), part.classes, part.shape) == (3, whole.classes, whole.shape)
    assert (part.labels == whole.labels[rows]).all()
    assert (part.samples(np.array([2, 0])) == whole.samples(rows[[2, 0]])).all()
