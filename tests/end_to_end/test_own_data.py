"""Every kind of own data, with and without labels held out, through the commands that read a run again."""

import csv

import numpy as np
import pytest
from PIL import Image

from surelabel.cli.main import main
from surelabel.config.encoders import DEFAULT, missing
from surelabel.training.run_folder import RunFolder
from tests.conftest import digits

pytest.importorskip("jinja2")
pytest.importorskip("onnxruntime")
pytest.importorskip("pyarrow")
FEW = ["--steps", "4", "--batch.labelled", "4", "--batch.ratio", "1", "--threads", "1", "--method", "uda"]
NETWORKS = {
    "folder": ["--network.name", "wrn-10-1"],
    "encoder": ["--encoder", "efficientnet-lite0", "--network.name", "mlp-1-8", "--image-size", "32"],
    "table": ["--network.name", "mlp-1-8"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Thirty of two digits, twenty of them labelled, as pictures and as a table."""
    place = tmp_path_factory.mktemp("own")
    images, labels = digits()
    chosen = np.flatnonzero(labels < 2)[:30]
    (place / "pictures").mkdir()
    rows = []
    for number, index in enumerate(chosen):
        Image.fromarray(images[index, 0]).save(place / "pictures" / f"{number}.png")
        rows.append((f"{number}.png", str(labels[index]) if number < 20 else ""))
    write(place / "labels.csv", [("path", "label"), *rows])
    columns = [f"c{number}" for number in range(64)]
    cells = [[*images[index, 0].flatten().tolist(), label] for index, (_, label) in zip(chosen, rows, strict=True)]
    write(place / "table.csv", [(*columns, "label"), *cells])
    write(place / "new.csv", [columns, *[row[:-1] for row in cells[20:]]])
    return place


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def predictions(path):
    with path.open(encoding="utf-8") as file:
        return {row["sample"]: (row["class"], float(row["confidence"])) for row in csv.DictReader(file)}


@pytest.mark.slow
@pytest.mark.parametrize("holdout", [[], ["--holdout", "25%"]], ids=["all labels", "holdout"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_load_gives_the_run_as_trained(kind, holdout, place, tmp_path, capsys):
    if kind == "encoder" and missing(DEFAULT) is not None:
        pytest.skip("the extra `pretrained` is not installed")
    run = tmp_path / "run"
    data = ["table.csv"] if kind == "table" else ["pictures", "--labels", str(place / "labels.csv")]
    begin = ["fit", str(place / data[0]), *data[1:], *NETWORKS[kind], *FEW, *holdout, "--out", str(run)]
    assert main(begin) == 0, capsys.readouterr().err
    assert main([*begin, "--resume", "auto"]) == 0
    made = predictions(run / "predictions.csv")
    assert len(made) == 10
    new = place / ("new.csv" if kind == "table" else "pictures")
    assert main(["predict", str(run), str(new), "-o", str(tmp_path / "again.csv")]) == 0
    again = predictions(tmp_path / "again.csv")
    if kind == "table":
        again = {str(int(name) + 20): row for name, row in again.items()}
    if not (kind == "table" and holdout):  # whose rows are numbered without those held out
        assert {name: row[0] for name, row in again.items() if name in made} == {
            name: row[0] for name, row in made.items()
        }
        assert max(abs(again[name][1] - sure) for name, (_, sure) in made.items()) < 1e-3
    assert main(["suggest", str(run), "-n", "2", "-o", str(tmp_path / "next.csv")]) == 0
    assert main(["report", str(run), "-o", str(tmp_path / "page.html")]) == 0
    assert main(["evaluate", str(run)]) == (0 if holdout else 2)
    assert holdout or f"surelabel evaluate {run} DATA" in capsys.readouterr().err
    if kind != "table":
        assert main(["export", str(run), "--onnx", str(tmp_path / "model.onnx")]) == 0, capsys.readouterr().err
    assert (RunFolder(run).table_encoding() is not None) == (kind == "table")
