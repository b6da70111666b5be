import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from surelabel.config.encoders import missing
from surelabel.config.run import Evaluation, Network, Views
from surelabel.data.arrays.source import ArraySource
from surelabel.data.source import Subset
from surelabel.inference.trained_run import load
from surelabel.models import frozen_features as features
from surelabel.models.encoders.base import Encoder
from surelabel.models.frozen_features import encoded, with_features
from surelabel.utils.errors import UserError
from tests.conftest import PATIENCE
from tests.helpers.runs import fit_folder

LITE = "efficientnet-lite0"
needs_weights = pytest.mark.skipif(missing(LITE) is not None, reason="the extra `pretrained` is not installed")


class Means(Encoder):
    """The mean of a picture, and of its first row; NaN of pictures that begin with `bad`."""

    name, dimensions, preprocessing = "means", 2, None

    def __init__(self, scale=1.0, reads="pictures", bad=None):
        self.scale, self.reads, self.bad, self.fingerprint = scale, reads, bad, f"of scale {scale}"

    def __call__(self, batch):
        found = self.scale * np.stack([batch.mean((1, 2, 3)), batch[:, :, 0].mean((1, 2))], 1, dtype=np.float32)
        found[batch[:, 0, 0, 0] == self.bad] = np.nan
        return found


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def few(digits_data):
    """Forty digits, enlarged: pictures in one channel."""
    images = digits_data.train.samples(np.arange(40)).repeat(4, 2).repeat(4, 3)
    return ArraySource(images, digits_data.train.labels[:40])


@pytest.mark.slow
def test_encoded_waits_for_a_concurrent_computation(few, cache, monkeypatch):
    computed, inside = [], threading.Event()

    def slow(source, encoder, progress):
        computed.append(1)
        inside.set()
        time.sleep(0.5)
        return np.ones((len(source), encoder.dimensions), np.float32)

    monkeypatch.setattr(features, "compute", slow)
    first = threading.Thread(target=encoded, args=(few, Means()))
    first.start()
    assert inside.wait(PATIENCE)
    assert (encoded(few, Means()).features == 1).all()
    first.join()
    assert len(computed) == 1


def test_encoded_stores_and_repairs(few, cache, monkeypatch):
    first = encoded(few, Means())
    (stored,) = cache.glob("features-*.rows")
    computed = []
    original = features.compute
    monkeypatch.setattr(features, "compute", lambda *given: computed.append(1) or original(*given))
    np.testing.assert_array_equal(encoded(few, Means()).features, first.features)
    assert not computed
    stored.write_bytes(stored.read_bytes()[:-7])
    np.testing.assert_array_equal(encoded(few, Means()).features, first.features)
    other = ArraySource(few.samples(np.arange(40))[::-1].copy(), few.labels[::-1].copy())
    np.testing.assert_array_equal(encoded(other, Means()).features[::-1], first.features)
    assert len(computed) == 2


def test_stored_features_are_of_one_encoder(few, cache):
    """Of one of other weights, or of an unknown one, nothing is taken."""
    encoded(few, Means())
    assert encoded(few, Means(scale=2.0)).features == pytest.approx(2 * encoded(few, Means()).features)
    assert len([*cache.glob("features-*.rows")]) == 2
    unknown = Means(scale=3.0)
    unknown.fingerprint = ""
    assert encoded(few, unknown).features == pytest.approx(3 * encoded(few, Means()).features)
    assert len([*cache.glob("features-*.rows")]) == 2


@pytest.mark.parametrize(
    ("source", "encoder", "named"),
    [
        (ArraySource(np.zeros((2, 1, 8, 8), dtype=np.float32)), Means(), "uint8"),
        (ArraySource(np.zeros((2, 1, 8, 8), dtype=np.uint8)), Means(reads="texts"), "texts"),
        (ArraySource(np.arange(192, dtype=np.uint8).reshape(3, 1, 8, 8)), Means(bad=128), "of 2 "),
    ],
)
def test_encoded_rejects_what_it_cannot_describe(source, encoder, named):
    with pytest.raises(UserError, match=named):
        encoded(source, encoder)


def test_feature_source_keeps_the_pictures(few):
    rows = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    seen = features.FeatureSource(few, rows)
    part = Subset(seen, np.array([5, 7]))
    np.testing.assert_array_equal(part.pictures(np.array([1])), few.samples(np.array([7])))
    np.testing.assert_array_equal(part.samples(np.array([1])), rows[[7]])
    assert part.names(np.array([1])) == [7]


@pytest.mark.slow
@needs_weights
def test_frozen_features_train_and_predict(tiny, tmp_path, digits_data):
    for number in range(40):
        place = tmp_path / "pictures" / ("test" if number >= 30 else "train") / str(digits_data.train.labels[number])
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(digits_data.train.samples(np.array([number]))[0, 0]).resize((32, 32)).save(
            place / f"{number}.png"
        )
    config = replace(
        tiny, method="bam-uda", data=str(tmp_path / "pictures"), labels="all", image_size=32, steps=6,
        network=Network("mlp-1-16", norm_momentum=0.1),
        encoder="efficientnet-lite0",
        views=Views("noise", "noise", "corrupt"), evaluation=Evaluation(every=3),
    )  # fmt: skip
    folder = fit_folder(config)
    assert load(folder.path).metrics["samples"] == 10
    assert len(load(folder.path).predict(str(tmp_path / "pictures" / "test"))) == 10
    weights = folder.weights()
    assert weights["offset"].shape == (1, 1280)


@pytest.mark.slow
@needs_weights
@pytest.mark.parametrize("side", [24, 48])  # smaller and larger than what the encoder is given
def test_the_same_pictures_have_the_same_predictions_in_files_and_arrays(tiny, tmp_path, digits_data, side):
    images = digits_data.train.samples(np.arange(30))[:, 0].repeat(side // 8, 1).repeat(side // 8, 2)
    for number, image in enumerate(images):
        place = tmp_path / "pictures" / str(digits_data.train.labels[number])
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:02}.png")
    np.save(tmp_path / "images.npy", images)
    config = replace(
        tiny, method="supervised", data=str(tmp_path / "pictures"), labels="all", image_size=32, steps=3, encoder=LITE,
        network=Network("mlp-1-16", norm_momentum=0.1), views=Views("noise"), evaluation=Evaluation(every=3),
    )  # fmt: skip
    run = load(fit_folder(config).path)
    predicted = run.predict(config.data)
    order = [int(name.split("/")[-1].removesuffix(".png")) for name in map(str, predicted.names)]
    expected = predicted.prediction.probs[np.argsort(order)]
    for given in (images, str(tmp_path / "images.npy")):
        torch.testing.assert_close(run.predict(given).prediction.probs, expected, rtol=0, atol=1e-5)


def test_with_features_normalises_by_the_training_set(digits_data, few):
    data = with_features(replace(digits_data, train=few, test=few), Means())
    normal = (data.train.features - np.array(data.offset)) / np.array(data.scale)
    np.testing.assert_allclose(normal.mean(0), 0, atol=1e-5)
    spread = normal.std(0)
    np.testing.assert_allclose(spread[spread > 0], 1, atol=1e-4)
