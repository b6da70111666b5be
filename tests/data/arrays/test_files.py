import contextlib
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surelabel.data.arrays.files import load_npy, load_npz
from surelabel.utils.errors import UserError

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 3, 8, 6)).astype(np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, -1])
ALL = np.arange(6)


def test_load_npy_maps_images_and_finds_labels(tmp_path):
    np.save(tmp_path / "mine.npy", IMAGES)
    np.save(tmp_path / "mine.labels.npy", LABELS)
    data = load_npy(tmp_path / "mine.npy")
    np.testing.assert_array_equal(data.train.samples(ALL), IMAGES)
    np.testing.assert_array_equal(data.train.labels, LABELS)
    assert (data.name, data.test) == ("mine", None)
    held = data.train._images
    while held.base is not None and not isinstance(held, np.memmap):
        held = held.base
    assert isinstance(held, np.memmap)


def test_load_npy_without_labels_is_unlabelled(tmp_path):
    np.save(tmp_path / "mine.npy", IMAGES)
    assert (load_npy(tmp_path / "mine.npy").train.labels == -1).all()


@pytest.mark.parametrize(
    "keys",
    [
        ("images", "labels", "test_images", "test_labels"),
        ("x", "y", "x_test", "y_test"),
        ("x_train", "y_train", "x_test", "y_test"),
        ("train_images", "train_labels", "test_images", "test_labels"),
        ("X", "y", "X_test", "y_test"),
        ("X_train", "Y_train", "X_test", "Y_test"),
    ],
)
def test_load_npz_accepts_each_set_of_keys(tmp_path, keys):
    values = (IMAGES, LABELS, IMAGES[:2], np.array([2, 0]))
    np.savez_compressed(tmp_path / "mine.npz", **dict(zip(keys, values, strict=True)), classes=["a", "b", "c"])
    data = load_npz(tmp_path / "mine.npz")
    np.testing.assert_array_equal(data.train.samples(ALL), IMAGES)
    np.testing.assert_array_equal(data.train.labels, LABELS)
    np.testing.assert_array_equal(data.test.samples(ALL[:2]), IMAGES[:2])
    np.testing.assert_array_equal(data.test.labels, [2, 0])
    assert data.classes == data.test.classes == ("a", "b", "c")


def test_load_npz_numbers_test_classes_as_training_classes(tmp_path):
    names = np.array(["x", "y", "z", "x", "y", "z"])
    np.savez(tmp_path / "mine.npz", x=IMAGES, y=names, x_test=IMAGES[:2], y_test=["z", "y"])
    np.testing.assert_array_equal(load_npz(tmp_path / "mine.npz").test.labels, [2, 1])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": IMAGES, "y": LABELS}, "name one array images or x or .*; the file has pictures, y$"),
        ({"X": np.zeros((6, 5000)), "y": LABELS}, "at most 4096 numbers, and these have 5000"),
        ({"X": np.array([[1.0, 2], [np.nan, 3]]), "y": LABELS[:2]}, "sample 1 holds NaN"),
        ({"X": np.array([["a", "b"]])}, "must be numbers"),
        ({"x": IMAGES, "X": IMAGES}, "several images, x and X"),
        ({"x": IMAGES, "images": IMAGES}, "several images, images and x"),
        ({"x": IMAGES, "y": LABELS[:3]}, "6 images but 3 labels"),
        ({"x": IMAGES, "y": LABELS + 1, "classes": ["a", "b"]}, "sample 1 is 2, outside 0 to 1"),
        ({"x": IMAGES, "y": LABELS, "x_test": IMAGES}, "test images have no labels"),
        (
            {"x": IMAGES, "y": LABELS, "x_test": IMAGES[:1], "y_test": [3]},
            "in the test set, the label of sample 0 is 3",
        ),
        (
            {"x": IMAGES, "y": LABELS, "x_test": IMAGES[:2], "y_test": [1, np.nan]},
            "test sample 1 has no label",
        ),
        ({"x": IMAGES * np.float32(np.nan)}, "sample 0 holds NaN"),
        ({"x": IMAGES.astype(object)}, "holds Python objects"),
    ],
)
def test_load_npz_rejects_wrong_arrays(tmp_path, arrays, message):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(UserError, match=message) as caught:
        load_npz(tmp_path / "mine.npz")
    assert "mine.npz" in str(caught.value)


def test_load_npy_never_unpickles(tmp_path):
    np.save(tmp_path / "mine.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="cannot be read"):
        load_npy(tmp_path / "mine.npy")
    np.save(tmp_path / "good.npy", IMAGES)
    np.save(tmp_path / "good.labels.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match=r"good\.labels\.npy cannot be read"):
        load_npy(tmp_path / "good.npy")


@pytest.mark.parametrize("load", [load_npy, load_npz])
def test_load_rejects_a_missing_file(tmp_path, load):
    with pytest.raises(UserError, match="there is no file"):
        load(tmp_path / "absent")


@pytest.mark.parametrize(("load", "save"), [(load_npy, np.save), (load_npz, np.savez), (load_npz, np.savez_compressed)])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True))
def test_load_rejects_a_truncated_file(tmp_path, load, save, share):
    buffer = io.BytesIO()
    save(buffer, IMAGES) if save is np.save else save(buffer, images=IMAGES)
    content = buffer.getvalue()
    path = tmp_path / "cut.file"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(UserError, match=r"cut\.file"):
        load(path)


@pytest.mark.parametrize(("load", "save"), [(load_npy, np.save), (load_npz, np.savez_compressed)])
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 400), value=st.integers(0, 255))
def test_load_survives_a_changed_byte(tmp_path, load, save, place, value):
    buffer = io.BytesIO()
    save(buffer, IMAGES) if save is np.save else save(buffer, images=IMAGES)
    content = bytearray(buffer.getvalue())
    content[place] = value
    path = tmp_path / "bent.file"
    path.write_bytes(content)
    with contextlib.suppress(UserError):
        assert len(load(path).train) > 0
