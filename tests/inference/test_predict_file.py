from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from surelabel.cli.main import main
from surelabel.config.recipes import embeddings
from surelabel.config.run import Evaluation
from surelabel.data import pieces
from surelabel.inference.predict_file import predict_file
from surelabel.inference.trained_run import load
from surelabel.utils.errors import UserError
from tests.helpers.runs import fit_folder
from tests.helpers.shards import write_shards
from tests.helpers.tables import read_csv, table_run

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "ROWS", 60)
    monkeypatch.setattr(pieces, "PICTURES", 60)


def check_parts(folder: Path, data: Path, tmp_path: Path, of: int = 3, *more: str) -> list[dict[str, str]]:
    """Predict whole and by part, compare, and compare with what is predicted in memory."""
    whole, out = tmp_path / "whole.csv", tmp_path / f"joined {data.suffix} {of}.csv"
    assert main(["predict", str(folder), str(data), "-o", str(whole), *more]) == 0
    for number in range(1, of + 1):
        assert main(["predict", str(folder), str(data), "-o", str(out), "--part", f"{number}/{of}", *more]) == 0
    assert main(["join", str(out)]) == 0
    assert out.read_bytes() == whole.read_bytes()
    in_memory = load(folder).predict(str(data))
    found = read_csv(whole)
    assert [row["sample"] for row in found] == [str(name) for name in in_memory.names]
    assert [row["class"] for row in found] == in_memory.classes.tolist()
    return found


def png(pixels):
    file = BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def table_of(rows: int) -> str:
    lines = [f"{x % 17 + x / 1000},{'abc'[x % 3]},{x % 2}\n" for x in range(rows)]
    return "size,kind,label\n" + "".join(lines)


@pytest.fixture
def table_folder(tmp_path):
    (tmp_path / "train.csv").write_text(table_of(60))
    return fit_folder(table_run(tmp_path / "train.csv", tmp_path / "run", evaluation=Evaluation(1000, batch=20))).path


def test_tables_are_predicted_piece_by_piece(table_folder, tmp_path):
    (tmp_path / "new.csv").write_text(table_of(250).replace("\n7.007,", "\n,"))
    from_csv = check_parts(table_folder, tmp_path / "new.csv", tmp_path)
    table = pa.table({"size": [x % 17 + x / 1000 for x in range(250)], "kind": ["abc"[x % 3] for x in range(250)]})
    pq.write_table(table, tmp_path / "new.parquet", row_group_size=35)
    from_parquet = check_parts(table_folder, tmp_path / "new.parquet", tmp_path)
    assert [row for row in from_csv if row["sample"] != "7"] == [row for row in from_parquet if row["sample"] != "7"]
    check_parts(table_folder, tmp_path / "new.parquet", tmp_path, of=16)  # some are empty


def test_a_broken_row_is_named_by_its_place_in_the_file(table_folder, tmp_path):
    (tmp_path / "new.csv").write_text(table_of(250).replace("\n6.210,", "\nx,").replace("\n6.21,", "\nx,"))
    with pytest.raises(UserError, match=r"'x' in row 211 below the heading"):
        predict_file(load(table_folder), str(tmp_path / "new.csv"), tmp_path / "out.csv")
    assert not list(tmp_path.glob("*out.csv*"))
    (tmp_path / "none.csv").write_text("size,kind\n")
    with pytest.raises(UserError, match="no rows"):
        predict_file(load(table_folder), str(tmp_path / "none.csv"), tmp_path / "out.csv")


@pytest.fixture
def embedding_folder(tmp_path):
    classes = np.arange(90) % 3
    rows = np.random.default_rng(0).normal(size=(90, 20)) + 2 * np.eye(3, 20)[classes]
    np.savez(
        tmp_path / "train.npz", embeddings=rows.astype(np.float16), labels=np.where(np.arange(90) < 60, classes, -1)
    )
    config = embeddings("sure", str(tmp_path / "train.npz"))
    config = replace(
        config,
        steps=2,
        out=str(tmp_path / "run"),
        threads=1,
        device="cpu",
        evaluation=replace(config.evaluation, batch=20),
    )
    return fit_folder(config).path


@pytest.mark.parametrize("ids", [True, False])
def test_embeddings_are_predicted_piece_by_piece(embedding_folder, tmp_path, ids):
    rows = np.random.default_rng(1).normal(size=(230, 20)).astype(np.float16)
    np.save(tmp_path / "new.npy", rows)
    names = [f"{number}.png" for number in range(230)]
    columns = {"embedding": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 20)}
    pq.write_table(pa.table(columns | ({"id": names} if ids else {})), tmp_path / "new.parquet", row_group_size=33)
    if ids:
        np.save(tmp_path / "new.ids.npy", names)
    more = ("--sets", "0.8", "--all-probabilities")
    from_npy = check_parts(embedding_folder, tmp_path / "new.npy", tmp_path, 3, *more)
    assert from_npy == check_parts(embedding_folder, tmp_path / "new.parquet", tmp_path, 4, *more)
    assert from_npy[1]["sample"] == ("1.png" if ids else "1")


def test_shards_are_predicted_by_part(tiny, tmp_path, digits_data):
    folder = fit_folder(replace(tiny, steps=1, evaluation=Evaluation(1000, batch=20))).path
    images = digits_data.test.samples(np.arange(150))[:, 0]
    shards = {f"{n}.tar": {f"{i}.png": png(images[i]) for i in range(n, 150, 4)} for n in range(4)}
    found = check_parts(folder, write_shards(tmp_path / "shards", shards), tmp_path)
    assert len(found) == 150


def test_a_bad_row_late_in_a_file_is_named_by_its_place(embedding_folder, tmp_path):
    rows = np.zeros((230, 20), np.float32)
    rows[201, 3] = np.nan
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 20)
    pq.write_table(pa.table({"embedding": column}), tmp_path / "new.parquet")
    with pytest.raises(UserError, match="sample 201 holds NaN"):
        predict_file(load(embedding_folder), str(tmp_path / "new.parquet"), tmp_path / "out.csv")
    wide = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 10)
    pq.write_table(pa.table({"embedding": wide}), tmp_path / "new.parquet")
    with pytest.raises(UserError, match=r"shape \(10,\).*shape \(20,\)"):
        predict_file(load(embedding_folder), str(tmp_path / "new.parquet"), tmp_path / "out.csv")


def test_parts_of_different_commands_do_not_join(table_folder, tmp_path, capsys):
    (tmp_path / "new.csv").write_text(table_of(100))
    words = ["predict", str(table_folder), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv")]
    assert main([*words, "--part", "1/2"]) == 0
    assert main([*words, "--part", "2/2", "--all-probabilities"]) == 0
    assert main(["join", str(tmp_path / "out.csv")]) == 2
    assert "other columns" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
