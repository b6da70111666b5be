import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("mapie", reason="the extra `calibration` is not installed")

from surelabel.cli.main import main
from surelabel.config.encoders import missing
from surelabel.config.run import Evaluation, Network, Views
from surelabel.config.settings import write_yaml
from surelabel.data.tables import source as table
from surelabel.inference.held_out import evaluate_on, labelled_source
from surelabel.inference.trained_run import load
from surelabel.training import evaluate, metrics
from surelabel.utils.errors import UserError
from tests.conftest import tiny_run
from tests.helpers.runs import fit_folder
from tests.helpers.tables import read_csv, table_run


@pytest.fixture(scope="module")
def run(digits_file, tmp_path_factory):
    config = tiny_run(digits_file, tmp_path_factory.mktemp("held-out") / "run")
    config = replace(config, method="supervised", labels=100, steps=60, evaluation=Evaluation(every=60))
    return load(fit_folder(config).path)


def save(path, source, index, **more):
    np.savez(path, images=source.samples(index), labels=source.labels[index], **more)
    return str(path)


def test_calibrate_splits_the_test_set_and_evaluates_the_rest(run, digits_data):
    """The coverage of 0.9 has a std of √(0.09/152 + 0.09/247) = 0.031 on 247 samples (beta-binomial); it is below 4
    stds, 0.776, by chance less than once in 1,000 (the law is skewed).
    """
    fitted, report = run.calibrate("test:150", 0.9)
    assert (report.labels, report.held_out.samples, report.rest.samples) == (150, 150, 247)
    assert report.temperature == fitted.temperature
    probs = evaluate.predict(run.network, digits_data.test, np.arange(397), 100).probs
    overall = metrics.evaluation(probs, torch.from_numpy(digits_data.test.labels))
    shares = np.array([150, 247]) / 397
    before = shares @ [report.held_out.nll_before, report.rest.nll_before]
    assert before == pytest.approx(overall["nll"], rel=1e-5)
    assert sum(row.count for row in report.rest.classes) == 247
    assert report.rest.nll_after < report.rest.nll_before
    assert report.rest.coverage > 0.776
    assert 1 <= report.rest.set_size <= 10


def test_predictions_save_applies_a_calibration(run, tmp_path, digits_data):
    new = digits_data.test.samples(np.arange(40))
    fitted, _ = run.calibrate("test:150", 0.9)
    run.predict(new).save(tmp_path / "out.csv", fitted)
    run.predict(new).save(tmp_path / "plain.csv")
    lines, plain = read_csv(tmp_path / "out.csv"), read_csv(tmp_path / "plain.csv")
    probs = evaluate.predict(run.network, digits_data.test, np.arange(40), 100).probs
    sharp = (probs.double().log() / fitted.temperature).softmax(-1)
    assert [line["class"] for line in lines] == [line["class"] for line in plain]
    assert [float(line["confidence"]) for line in lines] == pytest.approx(sharp.amax(1).tolist(), abs=1e-5)
    for line, row, member in zip(lines, probs, fitted.sets(probs), strict=True):
        names = line["set"].split("|")
        assert names[0] == line["class"]
        assert len(names) == int(line["set_size"])
        assert {int(name) for name in names} == set(np.flatnonzero(member.numpy()).tolist())
        assert [float(row[int(name)]) for name in names] == sorted((float(row[int(n)]) for n in names), reverse=True)
    assert "set" not in plain[0]


@pytest.mark.parametrize("layout", ["folders", "table"])
def test_calibrate_reads_folders_and_arrays_alike(run, tmp_path, digits_data, layout):
    index = np.arange(60)
    table = ["path,label"]
    for number in index:
        label = str(digits_data.test.labels[number])
        path = tmp_path / "pictures" / (label if layout == "folders" else "all") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(digits_data.test.samples(np.array([number]))[0, 0]).save(path)
        table.append(f"all/{number}.png,{label}")
    if layout == "table":
        (tmp_path / "pictures" / "labels.csv").write_text("\n".join(table))
        Image.new("L", (8, 8)).save(tmp_path / "pictures" / "all" / "without a class.png")
    else:
        (tmp_path / "pictures" / "3" / "broken.png").write_bytes(b"no picture")
    arrays = save(tmp_path / "held.npz", digits_data.test, index)
    by_file, _ = run.calibrate(arrays, 0.8)
    by_folder, report = run.calibrate(str(tmp_path / "pictures"), 0.8)
    assert report.labels == 60
    assert [file for file, _ in report.skipped] == (["3/broken.png"] if layout == "folders" else [])
    assert report.rest is None
    assert by_folder.temperature == pytest.approx(by_file.temperature, rel=1e-4)


def test_calibrate_matches_classes_by_name(run, tmp_path, digits_data):
    index = np.arange(60)
    names = [str(name) for name in reversed(range(10))]
    turned = tmp_path / "turned.npz"
    np.savez(turned, images=digits_data.test.samples(index), labels=9 - digits_data.test.labels[index], classes=names)
    plain, _ = run.calibrate(save(tmp_path / "held.npz", digits_data.test, index), 0.8)
    assert run.calibrate(str(turned), 0.8)[0].temperature == pytest.approx(plain.temperature)
    other = save(tmp_path / "other.npz", digits_data.test, index, classes=[f"digit {name}" for name in names])
    with pytest.raises(UserError, match="has the class 'digit 0', but the run knows only 0, 1"):
        run.calibrate(other, 0.8)


def test_calibrate_and_evaluate_on_refuse_leakage(run, tmp_path, digits_data):
    mixed = np.concatenate([run.labelled[:2], np.setdiff1d(np.arange(60), run.labelled)])
    held = save(tmp_path / "held.npz", digits_data.train, mixed)
    with pytest.raises(UserError, match=r"2 of \d+ held-out samples \(the first is 0\) are labelled training samples"):
        run.calibrate(held, 0.8)
    with pytest.raises(UserError, match=r"2 of \d+ held-out"):
        evaluate_on(run, held)


def test_evaluate_on_other_labelled_data(run, tmp_path, digits_data):
    """With the classes in another order, and one sample without a class."""
    names = [str(name) for name in reversed(range(10))]
    images = np.concatenate([digits_data.test.samples(np.arange(397)), np.zeros((1, 1, 8, 8), dtype=np.uint8)])
    turned = np.append(9 - digits_data.test.labels, -1)
    np.savez(tmp_path / "other.npz", images=images, labels=turned, classes=names)
    expected = run.metrics
    found, skipped = evaluate_on(run, str(tmp_path / "other.npz"))
    assert (found["samples"], skipped) == (397, ())
    for weights in ("averaged", "raw"):
        assert found[weights] == pytest.approx(expected[weights], abs=1e-6)
    assert [row["count"] for row in found["classes"]] == [row["count"] for row in expected["classes"]]
    assert [row["class"] for row in found["classes"]] == [str(name) for name in range(10)]
    assert evaluate_on(run, run.config.data)[0]["averaged"] == pytest.approx(expected["averaged"])


@pytest.mark.slow
def test_held_out_is_imported_without_the_calibration_extra():
    program = "import sys; sys.modules['mapie'] = None; import surelabel.inference.held_out"
    subprocess.run([sys.executable, "-c", program], check=True)


def pictures(place, source, index):
    place.mkdir()
    for number in index:
        Image.fromarray(source.samples(np.array([number]))[0, 0]).save(place / f"{number}.png")
    return place


def listed(path, source, index, before=""):
    path.write_text("\n".join(["path,label", *(f"{before}{number}.png,{source.labels[number]}" for number in index)]))
    return str(path)


def test_calibrate_reads_a_table_of_files_among_those_to_predict(run, tmp_path, digits_data, capsys):
    new = pictures(tmp_path / "new", digits_data.test, range(80))
    (new / "60.png").write_bytes(b"no picture")
    (new / "70.png").write_bytes(b"no picture, and not held out either")
    held = listed(tmp_path / "held.csv", digits_data.test, range(61))
    by_file, _ = run.calibrate(save(tmp_path / "held.npz", digits_data.test, np.arange(60)), 0.8)
    by_table, report = run.calibrate(held, 0.8, pictures=str(new))
    assert (report.labels, [file for file, _ in report.skipped]) == (60, ["60.png"])
    assert by_table.temperature == pytest.approx(by_file.temperature, rel=1e-4)
    out = str(tmp_path / "out.csv")
    assert main(["predict", str(run.path), str(new), "-o", out, "--calibrate", held]) == 0
    assert "Calibration: temperature" in capsys.readouterr().out
    listed(tmp_path / "held.csv", digits_data.test, range(60), before="new/")
    with pytest.raises(UserError, match=r"not in .*new: new/0\.png .*\(did you mean 0\.png\?\)"):
        run.calibrate(held, 0.8, pictures=str(new))
    with pytest.raises(UserError, match="there is no folder to look for them in: put the pictures into a folder with"):
        run.calibrate(held, 0.8)  # the run is on arrays
    (tmp_path / "held.csv").write_text("path,label\n0.png,lion\n")
    with pytest.raises(UserError, match="'lion'"):
        run.calibrate(held, 0.8, pictures=str(new))
    with pytest.raises(UserError, match=r"held\.parquet"):
        run.calibrate("held.parquet", 0.8, pictures=str(new))


def test_calibrate_reads_a_table_of_files_in_the_training_folder(tiny, tmp_path, digits_data, capsys):
    trained = pictures(tmp_path / "trained", digits_data.test, range(60))
    labels = listed(tmp_path / "labels.csv", digits_data.test, range(30))
    config = replace(tiny, data=str(trained), labels=labels, steps=1, method="supervised")
    run = load(fit_folder(config).path)
    held = listed(tmp_path / "held.csv", digits_data.test, range(30, 60))
    assert main(["evaluate", str(run.path), held]) == 0
    assert f"On 30 labelled samples of {held}\n" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"30 of 30 held-out samples \(the first is 0\.png\)"):
        evaluate_on(run, labels)
    other = pictures(tmp_path / "other", digits_data.test, range(60, 90))
    assert run.calibrate(held, 0.8, pictures=str(other))[1].labels == 30
    assert run.calibrate(held, 0.8, pictures=str(trained))[1].labels == 30
    for file in trained.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    with pytest.raises(UserError, match=r"other and .*trained both hold files of these names"):
        run.calibrate(held, 0.8, pictures=str(other))
    listed(tmp_path / "held.csv", digits_data.test, range(30, 60), before=f"{other}/")
    assert run.calibrate(held, 0.8, pictures=str(other))[1].labels == 30


@pytest.mark.slow
@pytest.mark.skipif(missing("efficientnet-lite0") is not None, reason="the extra `pretrained` is not installed")
def test_evaluate_on_finds_leakage_of_grey_images_with_an_encoder(tiny, tmp_path, digits_data):
    trained = pictures(tmp_path / "trained", digits_data.test, range(40))
    labels = listed(tmp_path / "labels.csv", digits_data.test, range(30))
    config = replace(tiny, data=str(trained), labels=labels, image_size=32, steps=1, method="supervised")
    network, views = Network("mlp-1-8"), Views("noise", "noise", "corrupt")
    run = load(fit_folder(replace(config, encoder="efficientnet-lite0", network=network, views=views)).path)
    with pytest.raises(UserError, match="30 of 30 held-out"):
        evaluate_on(run, labels)
    held = listed(tmp_path / "held.csv", digits_data.test, range(30, 40))
    assert evaluate_on(run, held)[0]["samples"] == 10


def test_evaluate_finds_leakage_of_rows_unless_the_table_has_equal_rows(tmp_path):
    def table(name, cells):
        path = tmp_path / name
        path.write_text("a,b,label\n" + "".join(f"{a},{b},{label}\n" for a, b, label in cells))
        return str(path)

    options = ["--steps", "2", "--device", "cpu"]
    for kind, rows, refused in (
        ("names", [("xy"[n % 2], "uvw"[n % 3], "pq"[n % 2]) for n in range(24)], False),
        ("numbers", [(n * n, n + 0.5, "pq"[n % 2]) for n in range(24)], True),
    ):
        assert main(["fit", table(f"{kind}.csv", rows), *options, "--out", str(tmp_path / kind)]) == 0
        asked = ["evaluate", str(tmp_path / kind), table(f"held-{kind}.csv", rows[:6])]
        assert main(asked) == (2 if refused else 0)


@pytest.mark.parametrize(
    ("held_out", "coverage", "message"),
    [
        ("test:5", 0.9, "13 held-out labels"),
        ("test:398", 0.9, "more than the 397 test samples"),
        ("test:100", 2.0, "less than 1"),
        ("nowhere", 0.9, "there is no data set 'nowhere'"),
    ],
)
def test_calibrate_refuses_before_any_prediction(run, monkeypatch, held_out, coverage, message):
    monkeypatch.setattr("surelabel.inference.held_out.predict", None)
    with pytest.raises(UserError, match=message):
        run.calibrate(held_out, coverage)


def test_labelled_source_refuses_data_without_labels_or_of_another_shape(run, tmp_path):
    np.save(tmp_path / "new.npy", np.zeros((20, 8, 8), dtype=np.uint8))
    with pytest.raises(UserError, match="has no labels"):
        labelled_source(run, str(tmp_path / "new.npy"))
    np.savez(tmp_path / "large.npz", images=np.zeros((20, 9, 9), dtype=np.uint8), labels=np.zeros(20, dtype=int))
    with pytest.raises(UserError, match="9×9 pixels"):
        labelled_source(run, str(tmp_path / "large.npz"))


def test_predict_command_shows_the_calibration(run, tmp_path, capsys):
    out = str(tmp_path / "out.csv")
    data = run.config.data
    assert main(["predict", str(run.path), data, "-o", out, "--calibrate", "test:100", "--coverage", "0.8"]) == 0
    said = capsys.readouterr().out
    assert all(words in said for words in ("temperature", "asked 80.0%", "rest of the test set", "By class"))
    assert main(["predict", str(run.path), data, "-o", out, "--coverage", "0.8"]) == 2
    assert "--coverage needs --calibrate" in capsys.readouterr().err
    assert main(["report", "RUN", "--coverage", "0.8"]) == 2
    assert "--coverage needs --calibrate" in capsys.readouterr().err


def test_calibrate_encodes_a_table_as_in_training(tmp_path):
    """Standardised by itself, a table of one class would look like one of both."""

    def write(name, kinds, rng):
        lines = [f"{rng.normal(6 * kind):.5f},{rng.choice(['red', 'blue'])},{kind}" for kind in kinds]
        (tmp_path / name).write_text("\n".join(["size,colour,kind", *lines]))
        return str(tmp_path / name)

    rng = np.random.default_rng(0)
    train = write("train.csv", np.arange(200) % 2, rng)
    config = table_run(train, tmp_path / "run", labels=40, steps=60, label_column="kind", network=Network("mlp-1-16"))
    folder = fit_folder(config)
    run = load(folder.path)
    held = write("held.csv", np.ones(60, int), rng)
    encoding = folder.table_encoding()
    source = table.load_labelled(held, encoding, ("0", "1"), "kind")
    expected = table.load_unlabelled(held, encoding, ("0", "1"))
    np.testing.assert_array_equal(source.rows, expected.rows)
    assert source.labels.tolist() == [1] * 60
    _, report = run.calibrate(held, 0.8)
    assert report.held_out.accuracy > 0.95
    with pytest.raises(UserError, match="40 of 200 held-out"):
        run.calibrate(train, 0.8)
    with pytest.raises(UserError, match="was trained on a table"):
        run.calibrate(str(tmp_path), 0.8)
    assert evaluate_on(run, held)[0]["averaged"]["accuracy"] > 0.95
    nameless = tmp_path / "nameless.csv"
    nameless.write_text((tmp_path / "held.csv").read_text().replace("kind", "sort"))
    with pytest.raises(
        UserError, match=r"nameless\.csv needs one column with the labels, named 'kind', as in the table"
    ):
        run.calibrate(str(nameless), 0.8)
    write_yaml(replace(folder.config, label_column=None), folder.path / "config.yaml")
    with pytest.raises(UserError, match="named one of label, class, target, y"):
        labelled_source(load(folder.path), str(nameless))
    other = tmp_path / "other.csv"
    other.write_text((tmp_path / "held.csv").read_text().replace(",1\n", ",2\n"))
    with pytest.raises(UserError, match="column 'kind' has the class '2', but the run knows only '0', '1'"):
        run.calibrate(str(other), 0.8)
