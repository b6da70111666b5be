import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from surelabel.data import statistics
from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.data.statistics import channel_statistics
from surelabel.utils.errors import UserError


def colour(count=6, dtype=np.uint8, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 3, 8, 6)).astype(dtype)


@settings(max_examples=50)
@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 5), st.sampled_from([1, 3]), st.just(8), st.just(6))), st.data())
def test_as_images_reads_every_layout_alike(images, data):
    index = np.array(data.draw(st.lists(st.integers(0, len(images) - 1), min_size=1)))
    sources = [ArraySource(images), ArraySource(np.ascontiguousarray(images.transpose(0, 2, 3, 1)))]
    if images.shape[1] == 1:
        sources.append(ArraySource(images[:, 0]))
    for source in sources:
        assert source.shape == images.shape[1:]
        assert len(source) == len(images)
        np.testing.assert_array_equal(source.samples(index), images[index])
        assert source.samples(index).flags.c_contiguous


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_floats_are_given_out_as_float32(dtype):
    images = colour(dtype=dtype)
    chosen = ArraySource(images).samples(np.array([4, 1]))
    assert chosen.dtype == np.float32
    np.testing.assert_array_equal(chosen, images[[4, 1]].astype(np.float32))


def test_images_given_out_may_be_changed_without_changing_the_source():
    images = colour()
    source = ArraySource(images)
    source.samples(np.array([0, 1]))[:] = 0
    np.testing.assert_array_equal(images, colour())


def test_as_images_asks_for_an_ambiguous_layout():
    images = np.zeros((5, 3, 8, 3), dtype=np.uint8)
    with pytest.raises(UserError, match="say layout='NCHW' or layout='NHWC'"):
        ArraySource(images)
    assert ArraySource(images, layout="NCHW").shape == (3, 8, 3)
    assert ArraySource(images, layout="NHWC").shape == (3, 3, 8)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((5, 4, 8, 8), dtype=np.uint8), "neither 1 nor 3 channels"),
        (np.zeros((5, 8), dtype=np.uint8), r"have shape \(5, 8\)$"),
        (np.zeros((5, 8, 8, 3, 2), dtype=np.uint8), r"have shape \(5, 8, 8, 3, 2\)$"),
        (np.zeros((0, 8, 8), dtype=np.uint8), "there are no samples, so that the pool would be empty"),
        (np.zeros((5, 0, 8), dtype=np.uint8), "there are no samples, so that the pool would be empty"),
        (np.zeros((5, 8, 8), dtype=np.int64), "uint8 or floats, not int64"),
        (np.zeros((5, 8, 8), dtype=object), "uint8 or floats, not object"),
    ],
)
def test_as_images_rejects_other_arrays(images, message):
    with pytest.raises(UserError, match=message):
        ArraySource(images)


@pytest.mark.parametrize("kind", [np.float32, np.float64, list])
def test_nan_among_labels_is_unlabelled(kind):
    given = [0.0, np.nan, 2.0, 1.0, np.nan, -1.0]
    source = ArraySource(colour(), given if kind is list else np.array(given, dtype=kind))
    assert source.labels.tolist() == [0, -1, 2, 1, -1, -1]
    assert source.classes == ("0", "1", "2")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("chunk", [1, 2**24])
def test_as_images_names_the_first_image_not_finite(bad, chunk, monkeypatch):
    monkeypatch.setattr(statistics, "CHUNK_BYTES", chunk)
    images = colour(dtype=np.float64)
    images[3, 1, 2, 5] = bad
    images[5, 0, 0, 0] = bad
    with pytest.raises(UserError, match="sample 3 holds NaN"):
        ArraySource(images)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("chunk", [1, 2**24])
def test_statistics_are_those_of_numpy(dtype, chunk, monkeypatch):
    monkeypatch.setattr(statistics, "CHUNK_BYTES", chunk)
    images = colour(20, dtype)
    offset, scale = channel_statistics(ArraySource(images))
    np.testing.assert_allclose(offset, images.astype(np.float64).mean(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(scale, images.astype(np.float64).std(axis=(0, 2, 3)), rtol=1e-12)


def test_statistics_keep_their_digits_beside_a_large_mean():
    images = (1e6 + np.random.default_rng(0).normal(size=(50, 1, 8, 8))).astype(np.float32)
    np.testing.assert_allclose(channel_statistics(ArraySource(images))[1], images.astype(np.float64).std(), rtol=1e-9)


@pytest.mark.parametrize("value", [0.1, 1e-30, 7.0])
def test_statistics_of_a_constant_channel_have_scale_one(value):
    images = np.random.default_rng(0).normal(size=(7, 3, 5, 5)).astype(np.float32)
    images[:, 1] = value
    offset, scale = channel_statistics(ArraySource(images))
    assert (offset[1], scale[1]) == (pytest.approx(value), 1.0)
    assert scale[0] != 1.0


def test_statistics_use_evenly_spread_images_at_most_as_many_as_asked_for():
    images = np.repeat(np.arange(100, dtype=np.uint8), 16).reshape(100, 1, 4, 4)
    assert channel_statistics(ArraySource(images), most=3)[0] == (pytest.approx((0 + 49 + 99) / 3),)


def test_user_data_set_normalises_by_training_images():
    train, test = ArraySource(colour(), [0, 1] * 3), ArraySource(colour(2, seed=1), [0, 1], ["0", "1"])
    data = user_data_set("mine", train, test)
    assert (data.offset, data.scale) == channel_statistics(train)
    assert data.classes == ("0", "1")


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (ArraySource(np.zeros((2, 3, 8, 9), dtype=np.uint8), [0, 1]), r"test samples \(3, 8, 9\)"),
        (ArraySource(colour(2, np.float32), [0, 1]), "uint8 but test samples float32"),
        (ArraySource(colour(2), [0, -1]), "test sample 1 has no label"),
    ],
)
def test_user_data_set_rejects_another_test_shape(test, message):
    with pytest.raises(UserError, match=message):
        user_data_set("mine", ArraySource(colour(), [0, 1] * 3), test)
