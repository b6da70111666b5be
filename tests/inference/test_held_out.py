import csv
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("mapie", reason="the extra `calibration` is not installed")


from surelabel.cli.main import main
from surelabel.config.run import Evaluation, Network, RunConfig, Views
from surelabel.config.settings import write_yaml
from surelabel.data.probe import is_installed
from surelabel.data.tables import source as table
from surelabel.inference.held_out import evaluate_on, labelled_source
from surelabel.inference.trained_run import load
from surelabel.training import evaluate, metrics
from surelabel.utils.errors import UserError
from tests.conftest import tiny_run
from tests.helpers.runs import fit_folder


@pytest.fixture(scope="module")
def folder(digits_file, tmp_path_factory):
    run = tiny_run(digits_file, tmp_path_factory.mktemp("held-out") / "run")
    return fit_folder(replace(run, method="supervised", labels=100, steps=60, evaluation=Evaluation(every=60)))


def save(path, source, index, **more):
    np.savez(path, images=source.samples(index), labels=source.labels[index], **more)
    return str(path)


def test_a_part_of_the_test_set_calibrates_and_the_rest_is_evaluated(folder, digits_data):
    fitted, report = load(folder.path).calibrate("test:150", 0.9)
    assert (report.labels, report.held_out.samples, report.rest.samples) == (150, 150, 247)
    assert report.temperature == fitted.temperature
    everyone = evaluate.predict(load(folder.path).network, digits_data.test, np.arange(397), 100).probs
    overall = metrics.evaluation(everyone, torch.from_numpy(digits_data.test.labels))
    shares = np.array([150, 247]) / 397
    before = shares @ [report.held_out.nll_before, report.rest.nll_before]
    assert before == pytest.approx(overall["nll"], rel=1e-5)
    assert sum(row.count for row in report.rest.classes) == 247
    assert report.rest.nll_after < report.rest.nll_before


def test_the_sets_of_a_real_run_cover_the_rest_of_its_test_set(folder):
    """150 labels give a coverage of 0.9 whose deviation on 247 others is √(0.09/152 + 0.09/247) = 0.031 (that of the
    beta-binomial law); below 4 of them, 0.776, it falls by chance less than once in 1,000 (the law is skewed).
    """
    _, report = load(folder.path).calibrate("test:150", 0.9)
    assert report.rest.coverage > 0.776
    assert 1 <= report.rest.set_size <= 10


def test_predictions_are_corrected_and_get_sets(folder, tmp_path, digits_data):
    np.save(tmp_path / "new.npy", digits_data.test.samples(np.arange(40)))
    fitted, _ = load(folder.path).calibrate("test:150", 0.9)
    load(folder.path).predict(str(tmp_path / "new.npy")).save(tmp_path / "out.csv", fitted)
    load(folder.path).predict(str(tmp_path / "new.npy")).save(tmp_path / "plain.csv")
    lines, plain = (list(csv.DictReader((tmp_path / name).open())) for name in ("out.csv", "plain.csv"))
    probs = evaluate.predict(load(folder.path).network, digits_data.test, np.arange(40), 100).probs
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
def test_a_folder_of_labelled_pictures_and_an_array_file_calibrate_alike(folder, tmp_path, digits_data, layout):
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
    by_file, _ = load(folder.path).calibrate(arrays, 0.8)
    by_folder, report = load(folder.path).calibrate(str(tmp_path / "pictures"), 0.8)
    assert report.labels == 60
    assert [file for file, _ in report.skipped] == (["3/broken.png"] if layout == "folders" else [])
    assert report.rest is None
    assert by_folder.temperature == pytest.approx(by_file.temperature, rel=1e-4)


def test_classes_are_matched_by_their_names(folder, tmp_path, digits_data):
    index = np.arange(60)
    names = [str(name) for name in reversed(range(10))]
    turned = tmp_path / "turned.npz"
    np.savez(turned, images=digits_data.test.samples(index), labels=9 - digits_data.test.labels[index], classes=names)
    plain, _ = load(folder.path).calibrate(save(tmp_path / "held.npz", digits_data.test, index), 0.8)
    assert load(folder.path).calibrate(str(turned), 0.8)[0].temperature == pytest.approx(plain.temperature)
    other = save(tmp_path / "other.npz", digits_data.test, index, classes=[f"digit {name}" for name in names])
    with pytest.raises(UserError, match="has the class 'digit 0', but the run knows only 0, 1"):
        load(folder.path).calibrate(other, 0.8)


def test_labels_that_the_run_was_trained_on_are_refused(folder, tmp_path, digits_data):
    mixed = np.concatenate([folder.labelled()[:2], np.setdiff1d(np.arange(60), folder.labelled())])
    with pytest.raises(UserError, match=r"2 of \d+ held-out samples \(the first is 0\) are among the labelled"):
        load(folder.path).calibrate(save(tmp_path / "held.npz", digits_data.train, mixed), 0.8)


def test_a_run_is_evaluated_on_labels_of_ones_own(folder, tmp_path, digits_data):
    """With the classes in another order, and one sample whose class is not known."""
    names = [str(name) for name in reversed(range(10))]
    images = np.concatenate([digits_data.test.samples(np.arange(397)), np.zeros((1, 1, 8, 8), dtype=np.uint8)])
    turned = np.append(9 - digits_data.test.labels, -1)
    np.savez(tmp_path / "own.npz", images=images, labels=turned, classes=names)
    expected = load(folder.path).metrics
    found, skipped = evaluate_on(load(folder.path), str(tmp_path / "own.npz"))
    assert (found["samples"], skipped) == (397, ())
    for weights in ("averaged", "raw"):
        assert found[weights] == pytest.approx(expected[weights], abs=1e-6)
    assert [row["count"] for row in found["classes"]] == [row["count"] for row in expected["classes"]]
    assert [row["class"] for row in found["classes"]] == [str(name) for name in range(10)]
    assert evaluate_on(load(folder.path), folder.config.data)[0]["averaged"] == pytest.approx(expected["averaged"])


def test_a_run_is_not_evaluated_on_labels_that_it_was_trained_on(folder, tmp_path, digits_data):
    mixed = np.concatenate([np.setdiff1d(np.arange(60), folder.labelled()), folder.labelled()[:2]])
    with pytest.raises(UserError, match=r"2 of \d+ held-out samples .* that the run was trained on, and say nothing"):
        evaluate_on(load(folder.path), save(tmp_path / "own.npz", digits_data.train, mixed))
    np.save(tmp_path / "new.npy", np.zeros((20, 8, 8), dtype=np.uint8))
    with pytest.raises(UserError, match="has no labels"):
        evaluate_on(load(folder.path), str(tmp_path / "new.npy"))


def test_evaluating_needs_no_package_of_calibration():
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


def test_a_table_may_name_the_held_out_pictures_among_those_to_predict(folder, tmp_path, digits_data, capsys):
    new = pictures(tmp_path / "new", digits_data.test, range(80))
    (new / "60.png").write_bytes(b"no picture")
    (new / "70.png").write_bytes(b"no picture, and not held out either")
    held = listed(tmp_path / "held.csv", digits_data.test, range(61))
    by_file, _ = load(folder.path).calibrate(save(tmp_path / "held.npz", digits_data.test, np.arange(60)), 0.8)
    by_table, report = load(folder.path).calibrate(held, 0.8, pictures=str(new))
    assert (report.labels, [file for file, _ in report.skipped]) == (60, ["60.png"])
    assert by_table.temperature == pytest.approx(by_file.temperature, rel=1e-4)
    out = str(tmp_path / "out.csv")
    assert main(["predict", str(folder.path), str(new), "-o", out, "--calibrate", held]) == 0
    assert "Calibration: temperature" in capsys.readouterr().out
    listed(tmp_path / "held.csv", digits_data.test, range(60), before="new/")
    with pytest.raises(UserError, match=r"not in .*new: new/0\.png .*\(did you mean 0\.png\?\)"):
        load(folder.path).calibrate(held, 0.8, pictures=str(new))
    with pytest.raises(UserError, match="there is no folder to look for them in: put the pictures into a folder with"):
        load(folder.path).calibrate(held, 0.8)  # of a run on arrays
    (tmp_path / "held.csv").write_text("path,label\n0.png,lion\n")
    with pytest.raises(UserError, match="has the class 'lion', but the run knows only 0, 1"):
        load(folder.path).calibrate(held, 0.8, pictures=str(new))
    with pytest.raises(UserError, match="was trained on pictures"):
        load(folder.path).calibrate("held.parquet", 0.8, pictures=str(new))


def test_a_table_may_name_pictures_in_the_folder_of_the_run(tiny, tmp_path, digits_data, capsys):
    own = pictures(tmp_path / "own", digits_data.test, range(60))
    fitted = listed(tmp_path / "labels.csv", digits_data.test, range(30))
    made = fit_folder(replace(tiny, data=str(own), labels=fitted, steps=1, method="supervised"))
    held = listed(tmp_path / "held.csv", digits_data.test, range(30, 60))
    assert main(["evaluate", str(made.path), held]) == 0
    assert f"On 30 labelled samples of {held}\n" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"30 of 30 held-out samples \(the first is 0\.png\) are among"):
        evaluate_on(load(made.path), fitted)
    other = pictures(tmp_path / "other", digits_data.test, range(60, 90))
    assert load(made.path).calibrate(held, 0.8, pictures=str(other))[1].labels == 30
    assert load(made.path).calibrate(held, 0.8, pictures=str(own))[1].labels == 30
    for file in own.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    with pytest.raises(UserError, match=r"other and .*own both hold files of these names"):
        load(made.path).calibrate(held, 0.8, pictures=str(other))
    listed(tmp_path / "held.csv", digits_data.test, range(30, 60), before=f"{other}/")
    assert load(made.path).calibrate(held, 0.8, pictures=str(other))[1].labels == 30


@pytest.mark.skipif(not is_installed(), reason="the extra `pretrained` is not installed")
def test_learnt_grey_pictures_are_recognised_where_an_encoder_sees_them_in_colour(tiny, tmp_path, digits_data):
    own = pictures(tmp_path / "own", digits_data.test, range(40))
    fitted = listed(tmp_path / "labels.csv", digits_data.test, range(30))
    run = replace(tiny, data=str(own), labels=fitted, image_size=32, steps=1, method="supervised")
    network, views = Network("mlp-1-8"), Views("noise", "noise", "corrupt")
    made = fit_folder(replace(run, encoder="efficientnet-lite0", network=network, views=views))
    with pytest.raises(UserError, match=r"30 of 30 held-out samples \(the first is 0\.png\) are among"):
        evaluate_on(load(made.path), fitted)
    held = listed(tmp_path / "held.csv", digits_data.test, range(30, 40))
    assert evaluate_on(load(made.path), held)[0]["samples"] == 10


def test_rows_of_a_table_are_learnt_ones_only_where_rows_do_not_repeat_by_chance(tmp_path):
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
        ("test:5", 0.9, "needs at least 13 held-out labels"),
        ("test:398", 0.9, "more than the 397 test samples"),
        ("test:100", 2.0, "less than 1"),
        ("nowhere", 0.9, "there is no data set 'nowhere'"),
    ],
)
def test_what_cannot_be_done_is_told_before_any_prediction(folder, monkeypatch, held_out, coverage, message):
    monkeypatch.setattr("surelabel.inference.held_out.predict", None)
    with pytest.raises(UserError, match=message):
        load(folder.path).calibrate(held_out, coverage)


def test_data_without_labels_or_of_another_shape_are_refused(folder, tmp_path):
    np.save(tmp_path / "new.npy", np.zeros((20, 8, 8), dtype=np.uint8))
    with pytest.raises(UserError, match="has no labels"):
        load(folder.path).calibrate(str(tmp_path / "new.npy"), 0.8)
    np.savez(tmp_path / "large.npz", images=np.zeros((20, 9, 9), dtype=np.uint8), labels=np.zeros(20, dtype=int))
    with pytest.raises(UserError, match="9×9 pixels"):
        load(folder.path).calibrate(str(tmp_path / "large.npz"), 0.8)


def test_the_command_shows_what_changed(folder, tmp_path, capsys):
    out = str(tmp_path / "out.csv")
    data = folder.config.data
    assert main(["predict", str(folder.path), data, "-o", out, "--calibrate", "test:100", "--coverage", "0.8"]) == 0
    said = capsys.readouterr().out
    assert all(words in said for words in ("temperature", "asked 80.0%", "rest of the test set", "By class"))
    assert main(["predict", str(folder.path), data, "-o", out, "--coverage", "0.8"]) == 2
    assert "--coverage needs --calibrate" in capsys.readouterr().err
    assert main(["report", "RUN", "--coverage", "0.8"]) == 2
    assert "--coverage needs --calibrate" in capsys.readouterr().err


def test_a_held_out_table_is_encoded_as_the_training_table_was(tmp_path):
    """By its own mean and deviation, a table of one class would look like one of both."""

    def write(name, kinds, rng):
        lines = [f"{rng.normal(6 * kind):.5f},{rng.choice(['red', 'blue'])},{kind}" for kind in kinds]
        (tmp_path / name).write_text("\n".join(["size,colour,kind", *lines]))
        return str(tmp_path / name)

    rng = np.random.default_rng(0)
    train = write("train.csv", np.arange(200) % 2, rng)
    run = RunConfig(
        data=train,
        labels=40,
        steps=60,
        threads=1,
        device="cpu",
        label_column="kind",
        out=str(tmp_path / "run"),
        method="supervised",
        network=Network("mlp-1-16"),
        views=Views("noise", "noise", "corrupt"),
        evaluation=Evaluation(every=60),
    )
    folder = fit_folder(run)
    held = write("held.csv", np.ones(60, int), rng)
    encoding = folder.table_encoding()
    source = table.load_labelled(held, encoding, ("0", "1"), "kind")
    expected = table.load_unlabelled(held, encoding, ("0", "1"))
    np.testing.assert_array_equal(source.rows, expected.rows)
    assert source.labels.tolist() == [1] * 60
    _, report = load(folder.path).calibrate(held, 0.8)
    assert report.held_out.accuracy > 0.95
    with pytest.raises(UserError, match="are among the labelled ones"):
        load(folder.path).calibrate(train, 0.8)
    with pytest.raises(UserError, match="was trained on a table"):
        load(folder.path).calibrate(str(tmp_path), 0.8)
    assert evaluate_on(load(folder.path), held)[0]["averaged"]["accuracy"] > 0.95
    nameless = tmp_path / "nameless.csv"
    nameless.write_text((tmp_path / "held.csv").read_text().replace("kind", "sort"))
    with pytest.raises(
        UserError, match=r"nameless\.csv needs one column with the labels, named 'kind', as in the table"
    ):
        load(folder.path).calibrate(str(nameless), 0.8)
    write_yaml(replace(folder.config, label_column=None), folder.path / "config.yaml")
    with pytest.raises(
        UserError, match="needs one column with the labels, named one of label, class, target, y, as in"
    ):
        labelled_source(load(folder.path), str(nameless))
    write_yaml(replace(folder.config, label_column="kind"), folder.path / "config.yaml")
    other = tmp_path / "other.csv"
    other.write_text((tmp_path / "held.csv").read_text().replace(",1\n", ",2\n"))
    with pytest.raises(UserError, match="column 'kind' has the class '2', but the run knows only '0', '1'"):
        load(folder.path).calibrate(str(other), 0.8)
