import csv
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from surelabel.cli.main import main
from surelabel.inference.predictions import Predictions
from surelabel.inference.trained_run import load
from surelabel.models.prediction import Prediction
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator
from tests.helpers.runs import fit_folder
from tests.helpers.tables import read_csv, table_run


@pytest.mark.parametrize("method", ["uda", "bam-uda"])
def test_predictions_save_writes_one_line_per_sample(tiny, tmp_path, digits_data, method):
    run = load(fit_folder(replace(tiny, method=method)).path)
    images = digits_data.test.samples(np.arange(30))
    np.save(tmp_path / "new.npy", images)
    run.predict(str(tmp_path / "new.npy")).save(tmp_path / "out.csv")
    lines = read_csv(tmp_path / "out.csv")
    expected = run.network.predict(torch.from_numpy(images), generator(0, "evaluation"))
    probs = expected.probs
    columns = {"confidence": probs.amax(1), "entropy": -(probs * probs.log()).sum(-1)}
    if method == "bam-uda":
        columns["confidence_std"] = expected.std[torch.arange(30), probs.argmax(1)]
    assert list(lines[0]) == ["sample", "class", *columns]
    assert [line["class"] for line in lines] == [str(k) for k in probs.argmax(1).tolist()]
    for name, values in columns.items():
        assert [float(line[name]) for line in lines] == pytest.approx(values.tolist(), abs=1e-6)


def test_all_probabilities_are_a_column_for_each_class(tmp_path, capsys):
    table = tmp_path / "t.csv"
    rows = [f"{x},{x * x % 7},{('=b', 'a', '')[x % 3]}\n" for x in range(30)]
    table.write_text("x,z,y\n" + "".join(rows))
    folder = tmp_path / "run"
    assert main(["fit", str(table), "--method", "uda", "--steps", "2", "--threads", "1", "--out", str(folder)]) == 0
    plain = read_csv(folder / "predictions.csv")
    assert "p_a" not in plain[0]
    assert main(["fit", "--resume", str(folder), "--all-probabilities"]) == 0
    assert main(["predict", str(folder), str(table), "-o", str(tmp_path / "out.csv"), "--all-probabilities"]) == 0
    resumed, predicted = read_csv(folder / "predictions.csv"), read_csv(tmp_path / "out.csv")
    assert resumed == [row for row in predicted if int(row["sample"]) % 3 == 2]
    assert [{key: row[key] for key in plain[0]} for row in resumed] == plain
    probs = load(folder).predict(str(table)).probs
    for row, expected in zip(predicted, probs, strict=True):
        assert list(row)[-2:] == ["p_'=b", "p_a"], "as the column class writes them"
        assert [float(row["p_'=b"]), float(row["p_a"])] == pytest.approx(expected.tolist(), abs=1e-6)
        assert row[f"p_{row['class']}"] == row["confidence"]


def test_all_probabilities_are_calibrated_where_the_confidence_is(tmp_path):
    probs = torch.tensor([[0.9, 0.1], [0.2, 0.8]], dtype=torch.float64)
    halved = SimpleNamespace(probs=lambda given: (given.log() / 2).softmax(-1), sets=lambda given: given > 0.15)
    Predictions([0, 1], ("a", "b"), Prediction(probs)).save(tmp_path / "out.csv", halved, all_probabilities=True)
    for row in read_csv(tmp_path / "out.csv"):
        assert float(row["p_a"]) + float(row["p_b"]) == pytest.approx(1)
        assert row["confidence"] == row[f"p_{row['class']}"]
    assert float(row["p_b"]) == pytest.approx(2 / 3, abs=1e-6)


def test_predict_names_files_and_skips_unreadable_ones(tiny, tmp_path, digits_data, capsys):
    images, labels = digits_data.train.samples(np.arange(120))[:, 0], digits_data.train.labels[:120]
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        path = tmp_path / "pictures" / str(label) / f"scan {number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    (tmp_path / "pictures" / "0" / "empty.png").touch()
    folder = fit_folder(replace(tiny, data=str(tmp_path / "pictures"), labels=20, steps=4))
    said = capsys.readouterr().out
    assert "1 file skipped (0/empty.png: the file is empty)" in said.replace("\n", " ")
    assert "No test set, so no metrics" in said

    (tmp_path / "new" / "of any name").mkdir(parents=True)
    Image.fromarray(np.stack([images[0]] * 3, -1)).resize((20, 30)).save(tmp_path / "new" / "of any name" / "ä, 1.png")
    (tmp_path / "new" / "broken.png").write_bytes(b"no picture")
    predictions = load(folder.path).predict(str(tmp_path / "new"))
    assert [file for file, _ in predictions.skipped] == ["broken.png"]
    predictions.save(tmp_path / "out.csv")
    assert [line["sample"] for line in read_csv(tmp_path / "out.csv")] == ["of any name/ä, 1.png"]


def test_predict_refuses_samples_of_another_form(tiny, tmp_path):
    run = load(fit_folder(replace(tiny, steps=1)).path)
    np.save(tmp_path / "new.npy", np.zeros((5, 3, 9, 9), dtype=np.uint8))
    with pytest.raises(
        UserError, match=r"3 channels, 9×9 pixels, uint8.*trained on images of 1 channel, 8×8 pixels, uint8"
    ):
        run.predict(tmp_path / "new.npy")
    np.save(tmp_path / "float.npy", np.zeros((5, 1, 8, 8), dtype=np.float32))
    with pytest.raises(UserError, match=r"pixels, float32.*pixels, uint8"):
        run.predict(tmp_path / "float.npy")
    (tmp_path / "wine.csv").write_text("alcohol,cultivar\n13.1,a\n")
    for table in (tmp_path / "wine.csv", "Wine.PARQUET"):
        with pytest.raises(UserError, match="run was trained on pictures"):
            run.predict(table)


@pytest.mark.parametrize("column", ["kind", None])
def test_predict_ignores_the_labels_of_a_table(column, tmp_path):
    pytest.importorskip("pyarrow")
    name = column or "class"
    rows = [f"{number % 7},{number % 5},{number % 2}" for number in range(40)]
    (tmp_path / "train.csv").write_text("\n".join([f"size,weight,{name}", *rows]))
    (tmp_path / "new.csv").write_text("\n".join([f"size,weight,{name},note", *(f"{row},x" for row in rows)]))
    config = table_run(tmp_path / "train.csv", tmp_path / "run", labels="all", label_column=column)
    run = load(fit_folder(config).path)
    assert run.predict(str(tmp_path / "train.csv")).notes == ()
    (note,) = run.predict(str(tmp_path / "new.csv")).notes
    assert note.partition(": ")[2] == "not used, as the network was trained without: 'note'"


def test_names_in_a_set_can_be_told_apart(tmp_path):
    """A separator in a name is escaped, and the most likely class comes first."""
    probs = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    sets = np.array([[True, True, False], [False, False, True]])
    found = Predictions(["x", "y"], ("a|b", "a", "b\\"), Prediction(probs), sets=sets)
    found.save(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["set"] for line in lines] == [r"a|a\|b", "b\\\\"]
    assert [line["set_size"] for line in lines] == ["2", "1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sets", "0.9", "--calibrate", "test:200"], "both make sets of classes: leave one out"),
        (["--sets", "1"], "--sets 1: give a number from 0.5, below 1"),
    ],
)
def test_predict_checks_sets_before_it_reads_the_run(words, message, capsys):
    assert main(["predict", "nowhere", "nothing", "-o", "out.csv", *words]) == 2
    assert message in capsys.readouterr().err
