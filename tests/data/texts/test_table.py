import json

import numpy as np
import pytest

from surelabel.data.open import open_data
from surelabel.data.texts.table import load, load_labelled, load_unlabelled
from surelabel.utils.errors import UserError

ROWS = [
    {"id": f"m{row}", "text": text, "label": label, "patient": "p" if row < 2 else "q"}
    for row, (text, label) in enumerate(
        [("fine, thanks", "good"), ("NA", "bad"), ('"quoted"\nline', None), ("poor", "bad"), *[("so", None)] * 8]
    )
]
EVERY = np.arange(len(ROWS))


def write(path, rows):
    """Rows as .jsonl, .csv or .parquet."""
    if path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
        return path
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(rows)
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_load_reads_texts_labels_groups_and_ids(tmp_path, suffix):
    data = load(write(tmp_path / f"mails{suffix}", ROWS), "text", None, "patient")
    train = data.train
    assert (train.kind, data.classes) == ("texts", ("bad", "good"))
    assert train.texts(EVERY[:4]) == [row["text"] for row in ROWS[:4]]
    assert train.labels.tolist()[:5] == [1, 0, -1, 0, -1]
    assert train.groups[0] == train.groups[1] != train.groups[2]
    assert train.ids.tolist() == [row["id"] for row in ROWS]
    assert train.names(EVERY) == EVERY.tolist()


def test_load_separates_test_rows(tmp_path):
    rows = [row | {"split": "test" if number == 3 else ""} for number, row in enumerate(ROWS)]
    data = load(write(tmp_path / "mails.jsonl", rows))
    assert (len(data.train), data.test.names(EVERY[:1]), data.test.texts(EVERY[:1])) == (11, [3], ["poor"])


def test_load_takes_labels_of_a_file(tmp_path):
    (tmp_path / "more.csv").write_text("row,label,drawn\n2,good,suggested\n")
    train = load(write(tmp_path / "mails.jsonl", ROWS), label_files=[str(tmp_path / "more.csv")]).train
    assert (train.labels[2], train.suggested[2]) == (1, True)


def test_text_column_makes_a_table_one_of_texts(tmp_path):
    path = str(write(tmp_path / "mails.csv", ROWS))
    assert open_data(path, text_column="text").train.kind == "texts"
    assert open_data(path).train.kind == "table"


def test_new_rows_are_read_without_and_with_labels(tmp_path):
    path = write(tmp_path / "new.jsonl", ROWS)
    assert load_unlabelled(path, "text", ("bad", "good")).labels.tolist() == [-1] * len(ROWS)
    assert load_labelled(path, "text", ("good", "bad")).labels.tolist()[:4] == [0, 1, -1, 1]
    with pytest.raises(UserError, match="'bad'"):
        load_labelled(path, "text", ("good", "ugly"))


@pytest.mark.parametrize(
    ("rows", "column", "named"),
    [
        (ROWS, "txt", "Did you mean 'text'"),
        ([row | {"text": None} for row in ROWS], "text", "'text' is empty"),
        ([*ROWS[:2], ROWS[3] | {"text": 5}], "text", "line 3.*'text' is 5"),
        ([*ROWS[:2], ROWS[3] | {"text": False}], "text", "line 3.*'text' is False"),
        ([row | {"text": ["a"]} for row in ROWS], "text", "line 1"),
        (ROWS[2:3], "text", "no class"),
    ],
)
def test_load_names_what_is_wrong(tmp_path, rows, column, named):
    with pytest.raises(UserError, match=named):
        load(write(tmp_path / "mails.jsonl", rows), column)


@pytest.mark.parametrize("line", ["{", "[1]", "5", "\x00", "[" * 100_000, '{"text": "\\ud800"}'])
def test_load_survives_what_is_no_json_object(tmp_path, line):
    path = tmp_path / "mails.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n" + line)
    with pytest.raises(UserError, match=r"line 2|alone"):
        load(path)


def test_numbers_of_any_size_are_read(tmp_path):
    rows = [row | {"label": 10**400 * (number % 2)} for number, row in enumerate(ROWS)]
    assert load(write(tmp_path / "mails.jsonl", rows)).classes == ("0", "inf")


def test_load_names_a_file_in_another_encoding(tmp_path):
    path = tmp_path / "mails.jsonl"
    path.write_bytes('{"text": "olé"}'.encode("latin-1"))
    with pytest.raises(UserError, match=r"mails\.jsonl.*UTF-8"):
        load(path)


def test_load_rejects_a_column_of_numbers(tmp_path):
    with pytest.raises(UserError, match="'text' holds numbers"):
        load(write(tmp_path / "mails.parquet", [row | {"text": 1.5} for row in ROWS]))
