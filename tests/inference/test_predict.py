import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from surelabel.config.run import Evaluation, Network, RunConfig, Views
from surelabel.inference.trained_run import load
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator
from tests.helpers.runs import fit_folder


def test_a_line_a_sample_with_the_likeliest_class_and_its_probability(tiny, tmp_path, digits_data):
    folder = fit_folder(tiny)
    images = digits_data.test.samples(np.arange(30))
    np.save(tmp_path / "new.npy", images)
    load(folder.path).predict(str(tmp_path / "new.npy")).save(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        lines = list(csv.DictReader(file))
    probs = load(folder.path).network.predict(torch.from_numpy(images), np.random.default_rng(0)).probs
    assert [line["class"] for line in lines] == [str(k) for k in probs.argmax(1).tolist()]
    assert [float(line["confidence"]) for line in lines] == pytest.approx(probs.amax(1).tolist(), abs=1e-6)


def test_a_bayesian_run_adds_the_deviation_over_its_samples(tiny, tmp_path, digits_data):
    folder = fit_folder(replace(tiny, method="bam-uda"))
    np.save(tmp_path / "new.npy", digits_data.test.samples(np.arange(30)))
    load(folder.path).predict(str(tmp_path / "new.npy")).save(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        lines = list(csv.DictReader(file))
    network = load(folder.path).network
    expected = network.predict(torch.from_numpy(digits_data.test.samples(np.arange(30))), generator(0, "evaluation"))
    entropy = -(expected.probs * expected.probs.log()).sum(-1)
    chosen = expected.std[torch.arange(30), expected.probs.argmax(1)]
    assert [float(line["confidence_std"]) for line in lines] == pytest.approx(chosen.tolist(), abs=1e-6)
    assert [float(line["entropy"]) for line in lines] == pytest.approx(entropy.tolist(), abs=1e-6)


def test_a_folder_is_trained_on_skips_told_and_predicted_by_file_name(tiny, tmp_path, digits_data, capsys):
    images, labels = digits_data.train.samples(np.arange(120))[:, 0], digits_data.train.labels[:120]
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        path = tmp_path / "pictures" / str(label) / f"scan {number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    (tmp_path / "pictures" / "0" / "empty.png").touch()
    run = replace(tiny, data=str(tmp_path / "pictures"), labels=20, steps=4)
    folder = fit_folder(run)
    said = capsys.readouterr().out
    assert "1 file skipped (0/empty.png: the file is empty)" in said.replace("\n", " ")
    assert "No test set, so no metrics" in said

    (tmp_path / "new" / "of any name").mkdir(parents=True)
    Image.fromarray(np.stack([images[0]] * 3, -1)).resize((20, 30)).save(tmp_path / "new" / "of any name" / "ä, 1.png")
    (tmp_path / "new" / "broken.png").write_bytes(b"no picture")
    predictions = load(folder.path).predict(str(tmp_path / "new"))
    assert [file for file, _ in predictions.skipped] == ["broken.png"]
    predictions.save(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        assert [line["sample"] for line in csv.DictReader(file)] == ["of any name/ä, 1.png"]


def test_images_of_another_shape_are_refused_by_both_shapes(tiny, tmp_path):
    folder = fit_folder(tiny)
    np.save(tmp_path / "new.npy", np.zeros((5, 3, 9, 9), dtype=np.uint8))
    with pytest.raises(
        UserError, match=r"3 channels, 9×9 pixels, uint8.*trained on images of 1 channel, 8×8 pixels, uint8"
    ):
        load(folder.path).predict(str(tmp_path / "new.npy")).save(tmp_path / "out.csv")
    np.save(tmp_path / "float.npy", np.zeros((5, 1, 8, 8), dtype=np.float32))
    with pytest.raises(UserError, match=r"pixels, float32.*pixels, uint8"):
        load(folder.path).predict(str(tmp_path / "float.npy")).save(tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_a_run_on_pictures_is_told_to_take_no_table(tiny, tmp_path):
    folder = fit_folder(replace(tiny, steps=1))
    (tmp_path / "wine.csv").write_text("alcohol,cultivar\n13.1,a\n")
    with pytest.raises(
        UserError, match=r"run was trained on pictures: give it a folder of them, or a file .*, not .*wine"
    ):
        load(folder.path).predict(str(tmp_path / "wine.csv")).save(tmp_path / "out.csv")
    with pytest.raises(UserError, match="was trained on pictures"):
        load(folder.path).predict("Wine.PARQUET").save(tmp_path / "out.csv")


@pytest.mark.parametrize("column", ["kind", None])
def test_of_a_new_table_the_labels_are_passed_over_in_silence(column, tmp_path):
    pytest.importorskip("pyarrow")
    name = column or "class"
    rows = [f"{number % 7},{number % 5},{number % 2}" for number in range(40)]
    (tmp_path / "train.csv").write_text("\n".join([f"size,weight,{name}", *rows]))
    (tmp_path / "new.csv").write_text("\n".join([f"size,weight,{name},note", *(f"{row},x" for row in rows)]))
    run = RunConfig(
        data=str(tmp_path / "train.csv"),
        labels="all",
        steps=1,
        threads=1,
        device="cpu",
        label_column=column,
        method="supervised",
        network=Network("mlp-1-8"),
        views=Views("noise", "noise", "corrupt"),
        out=str(tmp_path / "run"),
        evaluation=Evaluation(every=1),
    )
    trained = load(fit_folder(run).path)
    assert trained.predict(str(tmp_path / "train.csv")).notes == ()
    (note,) = trained.predict(str(tmp_path / "new.csv")).notes
    assert note.partition(": ")[2] == "not used, as the network was trained without: 'note'"
