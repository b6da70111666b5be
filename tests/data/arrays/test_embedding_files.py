"""Embeddings in each kind of file, with and without ids."""

import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from surelabel.data.arrays.files import load_npy, load_npz, load_parquet, load_safetensors
from surelabel.data.arrays.parquet import find_columns, read_blocks
from surelabel.data.arrays.tensors import decode_texts, encode_texts
from surelabel.utils.errors import UserError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float16)
IDS = np.array(["a/0.png", "ä b", "=1", "d", "e", "f", "007"])
ALL = np.arange(7)


def write(file, rows, **columns):
    pq.write_table(pa.table({"vector": rows, **columns}), file, row_group_size=3)
    return file


def of(path, **asked):
    return load_parquet(path, find_columns(path, **asked)).train


def lists(rows, fixed=False, kind=None):
    values = pa.array(rows.ravel(), type=kind)
    if fixed:
        return pa.FixedSizeListArray.from_arrays(values, rows.shape[1])
    return pa.ListArray.from_arrays(np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32), values)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_parquet_keeps_its_type_on_reading(tmp_path, fixed, kind):
    rows = ROWS.astype(kind.to_pandas_dtype())
    train = of(
        write(tmp_path / "e.parquet", lists(rows, fixed, kind), id=IDS, label=["x", "y", None, "x", "", "y", "x"])
    )
    assert train._images.dtype == rows.dtype
    np.testing.assert_array_equal(train.samples(ALL), ROWS.astype(np.float32))
    assert train.names(ALL) == IDS.tolist()
    assert (train.classes, train.labels.tolist()) == (("x", "y"), [0, 1, -1, 0, -1, 1, 0])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
@pytest.mark.parametrize("rows", [None, range(0, 7), range(2, 7), range(3, 6), range(4, 5)])
def test_blocks_are_what_was_written(tmp_path, size, rows):
    path = write(tmp_path / "e.parquet", lists(ROWS), id=IDS)
    found = list(read_blocks(path, find_columns(path), rows, size))
    wanted = rows or range(7)
    np.testing.assert_array_equal(np.concatenate([block.rows for block in found]), ROWS[wanted.start : wanted.stop])
    assert np.concatenate([block.ids for block in found]).tolist() == IDS[wanted.start : wanted.stop].tolist()
    assert [block.first for block in found] == list(range(wanted.start, wanted.stop, size))
    assert all(len(block.rows) == size for block in found[:-1])


def test_columns_are_found_or_named(tmp_path):
    path = write(tmp_path / "e.parquet", lists(ROWS), path=IDS, key=IDS[::-1], target=np.arange(7) % 2, y=ALL)
    with pytest.raises(UserError, match="target, y"):
        find_columns(path)
    train = of(path, ids="key", labels="target")
    assert (train.names(ALL[:1]), train.classes) == (["007"], ("0", "1"))
    assert "path, y" in train.notes[0]
    with pytest.raises(UserError, match=r"'keys'.*Did you mean 'key'"):
        find_columns(path, ids="keys")
    with pytest.raises(UserError, match="'path' is no column of lists"):
        find_columns(path, "path", labels="target")
    both = write(tmp_path / "two.parquet", lists(ROWS), other=lists(ROWS))
    with pytest.raises(UserError, match=r"several columns hold.*vector, other"):
        find_columns(both)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, 2], [3.0, 4], [5.0, 6], [7.0]], "row 3 of 'vector' has 1 numbers, others 2"),
        ([[1.0, 2], [3.0]], "row 1 of 'vector' has 1 numbers, others 2"),
        ([[1.0, 2], None], "row 1 of 'vector' is empty"),
        ([[1.0, 2], [3.0, 4], [5.0, 6], []], "row 3 of 'vector' is empty"),
        ([[1.0, 2], [3.0, None]], "sample 1 holds NaN"),
        ([[1.0, 2], [3.0, float("inf")]], "sample 1 holds NaN, infinity"),
        ([[0.0] * 4097] * 2, "at most 4096"),
    ],
)
def test_rows_that_are_no_embeddings_are_named(tmp_path, rows, message):
    path = write(tmp_path / "e.parquet", pa.array(rows, pa.list_(pa.float32())))
    with pytest.raises(UserError, match=message) as caught:
        of(path)
    assert "e.parquet" in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b", "c", "b", "e", "f", "g"], "the id 'b' is that of rows 1 and 3"),
        (["a", "b", "", "d", "e", "f", "g"], "row 2 has no id"),
        (["a", "b"], "7 rows but ids of the shape"),
        (np.zeros(7), "texts or whole numbers"),
    ],
)
def test_ids_must_name_the_rows(tmp_path, ids, message):
    np.savez(tmp_path / "e.npz", x=ROWS, ids=ids)
    with pytest.raises(UserError, match=message):
        load_npz(tmp_path / "e.npz")


def test_ids_are_what_tables_of_labels_name(tmp_path):
    np.save(tmp_path / "e.npy", ROWS)
    np.save(tmp_path / "e.ids.npy", IDS)
    table = tmp_path / "labels.csv"
    table.write_text("image,label\n'=1,cat\n007,dog\nd,\n", encoding="utf-8")
    train = load_npy(tmp_path / "e.npy", label_files=(str(table),)).train
    assert (train.classes, train.labels.tolist()) == (("cat", "dog"), [-1, -1, 0, -1, -1, -1, 1])
    assert train.names(ALL[1:2]) == ["ä b"]
    table.write_text("id,key,label\n1,d,cat\n2,e,dog\n", encoding="utf-8")
    train = load_npy(tmp_path / "e.npy", label_files=(str(table),), id_column="key").train
    assert train.labels.tolist() == [-1, -1, -1, 0, 1, -1, -1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,label\na/1.png,cat\n", r"line 2: there is no id 'a/1.png'. Did you mean 'a/0.png'"),
        ("id,label\nd,cat\nd,dog\n", "lines 2 and 3: d is listed twice"),
        ("row,label\n3,cat\n", "exactly one column named id or path"),
    ],
)
def test_ids_that_are_missing_or_repeated_are_named(tmp_path, text, message):
    np.savez(tmp_path / "e.npz", x=ROWS, ids=IDS)
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        load_npz(tmp_path / "e.npz", label_files=(str(tmp_path / "labels.csv"),))


def test_an_id_column_needs_ids(tmp_path):
    np.save(tmp_path / "e.npy", ROWS)
    with pytest.raises(UserError, match="id_column 'key'"):
        load_npy(tmp_path / "e.npy", id_column="key")


def test_safetensors_are_mapped(tmp_path):
    ids, path = encode_texts(IDS), tmp_path / "e.safetensors"
    assert decode_texts(ids).tolist() == IDS.tolist()
    save_file({"embeddings": ROWS, "ids": ids, "labels": ALL - 1}, path)
    train = load_safetensors(path).train
    np.testing.assert_array_equal(train.samples(ALL), ROWS.astype(np.float32))
    assert train.names(ALL) == IDS.tolist()
    assert train.labels.tolist() == (ALL - 1).tolist()
    held = train._images
    while held.base is not None and not isinstance(held, np.memmap):
        held = held.base
    assert isinstance(held, np.memmap)


def test_safetensors_must_say_which_tensor(tmp_path):
    path = tmp_path / "e.safetensors"
    save_file({"a": ROWS, "b": ROWS}, path)
    with pytest.raises(UserError, match=r"several tensors hold rows of floats.*a, b"):
        load_safetensors(path)
    save_file({"a": ALL}, path)
    with pytest.raises(UserError, match="no tensor holds"):
        load_safetensors(path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(UserError, match="cannot be read"):
        load_safetensors(path)


LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
from surelabel.data.arrays.files import load_npy
used = int(next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmData")).split()[1])
limit = used * 1024 + 200 * 2**20
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
train = load_npy(sys.argv[1]).train
assert train.samples(np.arange(100)).dtype == np.float32
try:
    np.ones(300 * 2**20, np.uint8)
except MemoryError:
    print(len(train))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of private memory is Linux's")
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_a_large_file_is_not_copied(tmp_path, kind):
    """1 GB of embeddings are opened and checked where 200 MB of memory are allowed; the file is sparse."""
    file = np.lib.format.open_memmap(tmp_path / "e.npy", "w+", kind, (2**29 // np.dtype(kind).itemsize // 512, 1024))
    file[-1] = 1
    file.flush()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "e.npy")], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str(len(file)), done.stderr
