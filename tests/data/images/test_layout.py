import os

import pytest

from surelabel.data.images.layout import FolderLayout, read_layout
from surelabel.utils.errors import UserError


def touch(root, *files):
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()


def test_read_layout_takes_top_folders_as_classes(tmp_path):
    touch(tmp_path, "b/1.png", "a/deep/er/2.png", "unlabelled/3.png", "loose.png", ".git/x.png", "a/.DS_Store")
    files = ["a/deep/er/2.png", "b/1.png", "loose.png", "unlabelled/3.png"]
    expected = FolderLayout({"train": files}, {"a/deep/er/2.png": "a", "b/1.png": "b"}, ("a", "b"))
    assert read_layout(tmp_path) == expected


def test_read_layout_finds_train_and_test(tmp_path):
    touch(tmp_path, "train/a/1.png", "unlabeled/2.png")
    layout = read_layout(tmp_path)
    assert layout == FolderLayout({"train": ["train/a/1.png", "unlabeled/2.png"]}, {"train/a/1.png": "a"}, ("a",))
    touch(tmp_path, "test/a/3.png")
    assert read_layout(tmp_path).parts["test"] == ["test/a/3.png"]
    assert read_layout(tmp_path).class_of == {"train/a/1.png": "a", "test/a/3.png": "a"}


def test_read_layout_prefers_labels_csv_to_folders(tmp_path):
    touch(tmp_path, "a/1.png", "b/2.png")
    (tmp_path / "labels.csv").write_text("path,label\na/1.png,z\n")
    expected = FolderLayout({"train": ["a/1.png", "b/2.png"]}, {"a/1.png": "z"}, ("z",))
    assert read_layout(tmp_path) == expected


def test_read_layout_ignores_classes_of_test_files_only(tmp_path):
    touch(tmp_path, "train/1.png", "test/2.png")
    (tmp_path / "labels.csv").write_text("path,label\ntrain/1.png,a\ntest/2.png,b\n")
    assert read_layout(tmp_path).classes == ("a",)


@pytest.mark.parametrize("inner", [".", "a", "a/deep"])
def test_read_layout_names_an_unreadable_folder(tmp_path, monkeypatch, inner):
    touch(tmp_path, "a/deep/1.png")
    locked = os.path.normpath(tmp_path / inner)

    def refusing(real):
        def call(path="."):
            if os.path.normpath(path) == locked:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path)

        return call

    monkeypatch.setattr(os, "scandir", refusing(os.scandir))
    monkeypatch.setattr(os, "listdir", refusing(os.listdir))
    with pytest.raises(UserError, match=r"cannot read the folder .*: Permission denied"):
        read_layout(tmp_path)


@pytest.mark.parametrize("part", ["test", "val", "valid", "validation"])
def test_read_layout_rejects_a_test_set_beside_classes(tmp_path, part):
    touch(tmp_path, "cat/1.png", "dog/2.png", f"{part}/cat/3.png", f"{part}/dog/4.png")
    with pytest.raises(UserError, match=rf"{part} would be a class, .*\(cat, dog\)\. .* into .*train") as caught:
        read_layout(tmp_path)
    assert ("rename it to test" in str(caught.value)) == (part != "test")
    (tmp_path / "labels.csv").write_text("path,label\ncat/1.png,cat\n")
    assert read_layout(tmp_path).classes == ("cat",)


def test_read_layout_accepts_a_class_named_test(tmp_path):
    touch(tmp_path, "test/1.png", "test/near/2.png", "control/3.png", "control/near/4.png")
    assert read_layout(tmp_path).classes == ("control", "test")


def test_read_layout_accepts_absolute_paths_in_label_files(tmp_path):
    touch(tmp_path / "pictures", "a.png", "b.png")
    (tmp_path / "labels.csv").write_text(f"path,label\n{tmp_path}/pictures/a.png,cat\nb.png,dog\n")
    layout = read_layout(tmp_path / "pictures", [tmp_path / "labels.csv"])
    assert layout.class_of == {"a.png": "cat", "b.png": "dog"}
