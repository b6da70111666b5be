import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from surelabel.config.run import Table
from surelabel.data.tables import source as table
from surelabel.data.tables.encoding import learn
from surelabel.inference.onnx_table import CATEGORIES, NUMBERS, TableNetwork
from surelabel.inference.trained_run import load
from surelabel.training import evaluate
from tests.helpers.runs import fit_folder
from tests.helpers.tables import table_run

pytestmark = pytest.mark.slow

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")


def write(path: Path, seed: int, columns: tuple[str, ...]) -> Path:
    """A table with missing values, texts, categories that are numbers, and numbers too long for float32."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, [*columns, "label"], extrasaction="ignore")
        out.writeheader()
        for number in range(120):
            row = {
                "age": "" if rng.random() < 0.2 else f"{rng.normal(40, 9):.3f}",
                "size": f"{rng.normal():.5f}",
                "when": int(1.7e9) + int(rng.integers(1000)),
                "colour": rng.choice(["red", "blue", "grün", "", "never seen" if seed else "red"]),
                "floor": rng.choice([1, 2, 10]),
                "label": number % 2,
            }
            out.writerow(row)
    return path


@pytest.fixture(
    scope="module", params=[("age", "colour", "size", "floor", "when"), ("size", "age"), ("colour", "floor")]
)
def exported(request, tmp_path_factory):
    """A run, its ONNX file and a new table."""
    place = tmp_path_factory.mktemp("table")
    categories = Table(categorical="floor" if "floor" in request.param else "")
    data = write(place / "rows.csv", 0, request.param)
    folder = fit_folder(table_run(data, place / "run", method="uda", label_column="label", table=categories))
    load(folder.path).export(place / "model.onnx")
    return folder, place, write(place / "new.csv", 1, request.param)


def test_export_guide_table_example_agrees_with_predict(exported, monkeypatch, capsys):
    folder, place, new = exported
    guide = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[1]
    monkeypatch.chdir(place)
    capsys.readouterr()
    ran: dict = {}
    exec(code, ran)
    source = table.load_unlabelled(new, folder.table_encoding(), folder.task().classes)
    expected = evaluate.predict(load(folder.path).network, source, np.arange(len(source)), 50).probs.numpy()
    np.testing.assert_allclose(ran["probabilities"], expected, rtol=0, atol=1e-5)
    assert capsys.readouterr().out.strip() == str([["0", "1"][best] for best in expected.argmax(1)])


def test_export_describes_its_columns_and_inputs(exported):
    folder, place, _ = exported
    session = onnxruntime.InferenceSession(place / "model.onnx", providers=["CPUExecutionProvider"])
    columns = json.loads(session.get_modelmeta().custom_metadata_map["preprocessing"])["columns"]
    assert [column["name"] for column in columns] == [column.name for column in folder.table_encoding().columns]
    assert {column["input"] for column in columns} == {put.name for put in session.get_inputs()}
    floors = [column["levels"] for column in columns if column["name"] == "floor"]
    assert floors in ([], [["1", "10", "2"]])


def test_table_network_encodes_exactly_as_the_encoding():
    rng = np.random.default_rng(0)
    numbers, years = rng.normal(size=50), 1.7e9 + rng.integers(1000, size=50)
    numbers[::7] = np.nan
    texts = rng.choice(np.array(["a", "b", ""], dtype=object), 50)
    columns = {"n": numbers, "t": texts, "y": years.astype(float)}
    encoding, _ = learn(columns)
    module = TableNetwork(torch.nn.Identity(), encoding)
    levels = encoding.columns[1].levels
    given = [
        torch.tensor(np.stack([numbers, columns["y"]], axis=1)),
        torch.tensor([[levels.index(text) if text in levels else len(levels)] for text in texts]),
    ]
    rows = encoding.encode(columns)
    np.testing.assert_array_equal(module(*given).numpy(), rows)
    back = module.decode(rows)
    np.testing.assert_array_equal(back[CATEGORIES], given[1])
    np.testing.assert_allclose(back[NUMBERS], given[0], rtol=1e-6)
