import copy
import logging
import os
import pickle
import random
import subprocess
import sys
import tempfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_classifiers_classes, check_estimator

import surelabel
from surelabel import SureLabelClassifier
from surelabel.config.encoders import DEFAULT, missing
from surelabel.estimator.inputs import ImageInput, TableInput
from surelabel.estimator.recipe import config_of
from surelabel.inference.trained_run import load
from surelabel.methods.sure import PRIOR
from surelabel.training import build
from surelabel.utils.errors import UserError

STEPS = 25


@pytest.fixture(scope="module")
def iris():
    """X, all labels, and labels of which every fifth is kept."""
    X, y = load_iris(return_X_y=True)
    return X, y, np.where(np.arange(150) % 5 == 0, y, -1)


@pytest.fixture(scope="module")
def fitted(iris):
    X, _, some = iris
    return SureLabelClassifier(steps=STEPS).fit(X, some)


EXPECTED = {"check_classifiers_classes": "it uses -1 as a class, which means unlabelled by default"}


@pytest.mark.slow
def test_classifier_passes_the_checks_of_scikit_learn():
    results = check_estimator(SureLabelClassifier(steps=STEPS), expected_failed_checks=EXPECTED, on_skip=None)
    statuses = {result["status"] for result in results}
    assert statuses <= {"passed", "skipped", "xfail"}
    assert sum(result["status"] == "passed" for result in results) >= 50
    # The check that is expected to fail, with -1 as a class.
    check_classifiers_classes("SureLabelClassifier", SureLabelClassifier(steps=STEPS, unlabelled=None))


def test_predict_proba_and_predict_std(fitted, iris):
    X, y, _ = iris
    probs, std = fitted.predict_proba(X), fitted.predict_std(X)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-12)
    assert probs.shape == std.shape == (150, 3)
    assert 0 < std.min() <= std.max() <= 0.5
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[probs.argmax(1)])
    assert fitted.score(X, y) == np.mean(fitted.predict(X) == y) > 0.8


def test_labels_of_a_group_are_left_out_together(iris):
    """With a group for each class none can be left out, and the powers are those of their prior."""
    X, y, some = iris
    ratio = {}
    for name, groups in {"one a class": y.astype(object), "none": None, "all missing": [None] * len(y)}.items():
        powers = SureLabelClassifier(steps=2).fit(X, some, groups=groups)._network.head.powers
        ratio[name] = float(powers[0] / powers[1])
    of_prior = PRIOR.powers[0] / PRIOR.powers[1]
    assert ratio["one a class"] == pytest.approx(of_prior, rel=1e-4)
    assert ratio["none"] == ratio["all missing"] != pytest.approx(of_prior, rel=1e-2)


def test_groups_are_refused_where_they_have_no_effect(iris):
    X, _, some = iris
    with pytest.raises(ValueError, match="no effect on method uda"):
        SureLabelClassifier("uda", steps=2).fit(X, some, groups=np.arange(150))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SureLabelClassifier(steps=2).fit(X, some, groups=np.arange(149))


def test_score_ignores_unlabelled_samples(fitted, iris):
    X, _, some = iris
    known = some != -1
    assert fitted.score(X, some) == fitted.score(X[known], some[known])
    with pytest.raises(ValueError, match="nothing to score"):
        fitted.score(X, np.full(150, -1))


def test_predict_does_not_depend_on_the_batch(fitted, iris):
    X = iris[0]
    np.testing.assert_allclose(fitted.predict_proba(X[17:18])[0], fitted.predict_proba(X)[17], rtol=1e-12)


@pytest.mark.parametrize("copied", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy])
def test_copies_predict_the_same(fitted, iris, copied):
    X = iris[0]
    before = fitted.predict_proba(X)
    np.testing.assert_array_equal(copied(fitted).predict_proba(X), before)
    np.testing.assert_array_equal(fitted.predict_proba(X), before)
    assert isinstance(fitted.__getstate__()["_weights"], bytes)


def test_clone_copies_only_the_parameters(fitted):
    made = clone(SureLabelClassifier("fixmatch", steps=7, settings={"optimizer.lr": 0.1}, out="somewhere"))
    assert (made.method, made.steps, made.settings, made.out) == ("fixmatch", 7, {"optimizer.lr": 0.1}, "somewhere")
    assert not hasattr(clone(fitted), "classes_")


def test_fit_is_reproducible_with_a_seed(iris):
    X, _, some = iris
    seeds = (3, 3, 4, None, None)
    made = [SureLabelClassifier(steps=3, random_state=seed).fit(X, some).predict_proba(X) for seed in seeds]
    np.testing.assert_array_equal(made[0], made[1])
    assert len({part.tobytes() for part in made}) == 4


def test_classifier_works_in_pipeline_and_grid_search(iris):
    X, y, some = iris
    model = make_pipeline(StandardScaler(), SureLabelClassifier(steps=3))
    grid = {"surelabelclassifier__steps": [1, STEPS], "surelabelclassifier__method": ["fixmatch"]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, some)
    assert search.best_params_["surelabelclassifier__steps"] == STEPS
    assert search.score(X, y) > 0.6


@pytest.mark.parametrize("marker", ["", None, np.nan, -1, "?"])
def test_fit_takes_texts_as_classes(iris, marker):
    X, y, some = iris
    names = np.array(["setosa", "versicolor", "virginica"], dtype=object)
    labels = np.where(some == -1, marker, names[y])
    model = SureLabelClassifier(steps=STEPS, unlabelled="?" if marker == "?" else -1).fit(X, labels)
    assert model.classes_.tolist() == names.tolist()
    assert model.score(X, names[y]) > 0.8


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("made", "gap", "kind"),
    [
        (np.array, np.nan, "f"),
        (pd.Series, np.nan, "f"),
        (list, np.nan, "f"),
        (list, None, "i"),
        (lambda values: np.array(values, dtype=object), None, "i"),
        (lambda values: np.array(values, dtype=object), pd.NA, "i"),
        (lambda values: np.array(values, dtype=object), -1.0, "i"),
        (lambda values: pd.Series(values, dtype="Int64"), pd.NA, "i"),
        (lambda values: pd.Series(values, dtype="Int64"), -1, "i"),
        (lambda values: pd.Series(values, dtype="category"), None, "f"),  # pandas converts them
        (lambda values: pd.DataFrame({"y": pd.array(values, dtype="Int64")}), pd.NA, "i"),
        (lambda values: np.ma.masked_equal(values, 99), 99, "i"),
    ],
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_fit_takes_gaps_among_numbers_as_unlabelled(iris, made, gap, kind):
    X, y, some = iris
    labels = made([gap if label == -1 else label for label in some.tolist()])
    model = SureLabelClassifier(steps=2).fit(X, labels)
    assert (model.classes_.tolist(), model.classes_.dtype.kind) == ([0, 1, 2], kind)
    assert model.predict(X).dtype == model.classes_.dtype
    expected = SureLabelClassifier(steps=2).fit(X, some)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert model.score(X, labels) == expected.score(X, some)
    assert model.score(X, y) == expected.score(X, y)


@pytest.mark.parametrize(
    ("made", "gap"),
    [
        (lambda values: pd.Series(values, dtype="string"), pd.NA),
        (lambda values: pd.Series(values, dtype="category"), None),
        (pd.Series, None),
        (list, np.nan),  # "nan" in numpy
        pytest.param(
            lambda values: np.array(values, dtype=np.dtypes.StringDType(na_object=np.nan)),
            np.nan,
            marks=pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 2 has this type"),
        ),
    ],
)
def test_fit_takes_gaps_among_texts_as_unlabelled(iris, made, gap):
    X, _, some = iris
    labels = made([gap if label == -1 else "abc"[label] for label in some.tolist()])
    model = SureLabelClassifier(steps=2).fit(X, labels)
    assert model.classes_.tolist() == ["a", "b", "c"]
    expected = SureLabelClassifier(steps=2).fit(X, some)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    assert model.score(X, labels) == expected.score(X, some)


@pytest.mark.parametrize("made", [list, pd.Series, lambda values: pd.Series(values, dtype="boolean")])
def test_fit_takes_gaps_among_booleans_as_unlabelled(iris, made):
    X, _, some = iris
    labels = made([None if label == -1 else label == 0 for label in some.tolist()])
    model = SureLabelClassifier(steps=STEPS).fit(X, labels)
    assert model.classes_.tolist() == [False, True]
    assert model.predict(X).dtype == np.bool_
    assert model.score(X, labels) > 0.8


@pytest.mark.parametrize("unlabelled", [np.nan, None, pd.NA])
def test_fit_takes_minus_one_as_a_class_if_gaps_are_unlabelled(iris, unlabelled):
    X, y, some = iris
    labels = np.where(some == -1, np.nan, y - 1)
    model = SureLabelClassifier(steps=STEPS, unlabelled=unlabelled).fit(X, labels)
    assert model.classes_.tolist() == [-1, 0, 1]
    assert model.score(X, labels) > 0.8


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # from scikit-learn, before the error
def test_fit_refuses_infinity_as_a_class(iris):
    X, y, some = iris
    with pytest.raises(ValueError, match="infinity"):
        SureLabelClassifier().fit(X, np.where(some == -1, np.inf, y))


def test_fit_uses_the_settings(iris):
    X, _, some = iris
    model = SureLabelClassifier(steps=4, settings={"evaluation.every": 2, "optimizer.lr": 0.01}).fit(X, some)
    assert (model.config_.evaluation.every, model.config_.optimizer.lr) == (2, 0.01)


def test_fit_takes_categories_and_missing_values_of_a_frame(iris):
    X, y, some = iris
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["petal"] = pd.Categorical(np.where(X[:, 2] > 2.5, "long", "short"))
    frame.loc[::7, ["b", "petal"]] = None
    model = SureLabelClassifier(steps=STEPS).fit(frame, some)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d", "petal"]
    assert model.score(frame, y) > 0.8
    new = frame.assign(petal="never seen")
    assert np.isfinite(model.predict_proba(new)).all()
    declared = SureLabelClassifier(steps=1, categorical=["a", 1]).fit(frame, some)
    assert declared.task_.shape[0] > 40


def test_fit_warns_of_unused_columns_at_the_line_of_the_call(iris):
    X, _, some = iris
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(same=7)
    with pytest.warns(UserWarning, match="column 'same' is left out: it is 7 everywhere") as warned:
        SureLabelClassifier(steps=1).fit(frame, some)
    assert [warning.filename for warning in warned] == [__file__]
    with pytest.warns(UserWarning, match="column 'x13' is left out: [^;]*; and 2 more such columns$"):
        SureLabelClassifier(steps=1).fit(np.hstack([X, np.zeros((150, 12))]), some)


@pytest.mark.filterwarnings("ignore:column 'same' is left out", "ignore:X does not have valid feature names")
def test_predict_takes_an_array_after_a_frame(iris):
    X, _, some = iris
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame.insert(0, "same", 7.0)  # left out, but counted
    frame.insert(2, "long", X[:, 2] > 2.5)
    frame.insert(3, "petal", np.where(X[:, 3] > 1, "wide", "narrow"))
    for part in (frame.drop(columns=["long", "petal"]), frame, frame[["long"]]):  # floats, objects, booleans
        model = SureLabelClassifier(steps=2).fit(part, some)
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            probs = model.predict_proba(part.to_numpy())
        np.testing.assert_array_equal(probs, model.predict_proba(part))
        with pytest.raises(ValueError, match=r"X has 8 features, but SureLabelClassifier is expecting \d"):
            model.predict(np.zeros((3, 8)))


def test_predict_takes_a_frame_after_an_array_but_no_images(fitted, iris):
    X = iris[0]
    with pytest.warns(UserWarning, match="X has feature names, but SureLabelClassifier was fitted without"):
        probs = fitted.predict_proba(pd.DataFrame(X, columns=["d", "c", "b", "a"]))
    np.testing.assert_array_equal(probs, fitted.predict_proba(X))
    with pytest.raises(ValueError, match=r"X has the shape \(3, 4, 2\), but the model was trained on a table"):
        fitted.predict(np.zeros((3, 4, 2)))


def test_table_input_takes_numbers_as_categories():
    frame = pd.DataFrame({"a": np.arange(8.0) ** 2, "shop": pd.Categorical([1, 2, 3, None] * 2)})
    read = TableInput.learn(frame, [])
    rows = read.source(frame.assign(shop=[1.0, 2.0, 3.0, np.nan] * 2)).samples(np.arange(8))
    np.testing.assert_array_equal(read.source(frame).samples(np.arange(8)), rows)
    assert rows.shape[1] == 1 + 4  # the number; three shops, and any other value


def test_fit_refuses_an_out_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    for out in (tmp_path / "file" / "run", tmp_path / ("x" * 300)):
        with pytest.raises(ValueError, match=r"^cannot write .*Choose another folder$"):
            SureLabelClassifier(steps=2, out=out).fit(np.arange(12.0).reshape(6, 2), [0, 1] * 3)


def test_table_input_takes_decimals_as_numbers():
    frame = pd.DataFrame({"price": [Decimal("1.5"), None, Decimal("2.25"), Decimal(3)]})
    assert TableInput.learn(frame, []).encoding.columns[0].median == 2.25


def test_table_input_refuses_numbers_mixed_with_words():
    grades = ["1", "2", "other", "3"] * 3
    with pytest.raises(UserError, match="column 'grade' seems to hold numbers, but is 'other'"):
        TableInput.learn(pd.DataFrame({"grade": grades}), [])
    for categorical, frame in ((["grade"], {"grade": grades}), ([], {"grade": pd.Categorical(grades)})):
        assert TableInput.learn(pd.DataFrame(frame), categorical).encoding.columns[0].levels == ("1", "2", "3", "other")


def test_image_input_clips_to_the_range_in_training():
    seen = np.linspace(0, 255, 8).reshape(2, 2, 2)
    new = np.array([[[127.9, 256.0], [-3.0, 255.0]]])
    assert ImageInput.learn(seen).source(new).samples(np.arange(1)).tolist() == [[[[128, 255], [0, 255]]]]


def test_config_uses_one_thread_for_tables(monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    configs = [config_of(SureLabelClassifier("uda"), shape, 100) for shape in ((5,), (1, 32, 32))]
    assert [build.resolve(config).threads for config in configs] == [1, 3]


@pytest.mark.parametrize(
    ("change", "shape", "count", "method", "encoder"),
    [
        ({}, (1, 28, 28), 20_000, "sure", DEFAULT),
        ({}, (1, 28, 28), 20_001, "bam-uda", "none"),
        ({}, (3, 27, 64), 100, "bam-uda", "none"),
        ({}, (3, 64, 64), 10**6, "sure", DEFAULT),
        ({}, (64,), 100, "sure", "none"),
        ({"encoder": "none"}, (3, 64, 64), 100, "bam-uda", "none"),
        ({"encoder": "efficientnet-lite0"}, (1, 8, 8), 100, "sure", "efficientnet-lite0"),
        ({"settings": {"network.name": "wrn-10-1"}}, (3, 64, 64), 100, "bam-uda", "none"),
        ({"method": "uda"}, (3, 64, 64), 100, "uda", "none"),
        ({"method": "uda", "encoder": DEFAULT}, (3, 64, 64), 100, "uda", DEFAULT),
        ({"method": "sure"}, (1, 8, 8), 10**6, "sure", DEFAULT),
    ],
)
def test_config_describes_images_by_the_encoder_where_it_suits(change, shape, count, method, encoder, monkeypatch):
    monkeypatch.setattr("surelabel.data.probe.missing", lambda name: None)
    config = config_of(SureLabelClassifier(**change), shape, count)
    assert (config.method, config.encoder) == (method, encoder)
    assert config.network.name.startswith("wrn-") == (encoder == "none" and len(shape) == 3)


def test_config_learns_from_pixels_without_the_pretrained_extra(monkeypatch):
    monkeypatch.setattr("surelabel.config.encoders.find_spec", lambda _: None)
    config = config_of(SureLabelClassifier(), (3, 64, 64), 100)
    assert (config.method, config.encoder) == ("bam-uda", "none")
    images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
    with pytest.raises(ValueError, match=r"needs the package .*: pip install 'surelabel\[pretrained\]'"):
        SureLabelClassifier("sure").fit(images, [0, 1] * 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {"encoder": "none"}}, "a parameter of its own"),
        ({"encoder": "efficientnet-lite3"}, "Did you mean 'efficientnet-lite"),
        ({"method": "sure", "encoder": "none"}, "choose an encoder, or another method"),
        ({"method": "paws", "encoder": DEFAULT}, "compares crops of images"),
    ],
)
def test_fit_refuses_encoders_that_do_not_fit(change, message, iris):
    images = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
    with pytest.raises(ValueError, match=message):
        SureLabelClassifier(**change).fit(images, [0, 1] * 4)
    with pytest.raises(ValueError, match="X has rows"):
        SureLabelClassifier(encoder=DEFAULT).fit(iris[0], iris[2])


@pytest.mark.slow
@pytest.mark.skipif(missing("efficientnet-lite0") is not None, reason="the extra `pretrained` is not installed")
@pytest.mark.parametrize("colour", [False, True])
def test_images_described_by_an_encoder_train_and_predict(colour, tmp_path, monkeypatch):
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path))
    images, y = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)[:60].repeat(4, 1).repeat(4, 2)
    images = np.stack([images, images[:, ::-1], images.transpose(0, 2, 1)], -1) if colour else images
    some = np.where(np.arange(60) < 40, y[:60], -1)
    model = SureLabelClassifier(encoder="efficientnet-lite0", steps=30).fit(images, some)
    assert (model.config_.method, model.task_.shape) == ("sure", (1280,))
    stored = sorted(tmp_path.glob("*.rows"))
    assert len(stored) == 1
    probs = model.predict_proba(images)
    assert np.mean(probs.argmax(1)[:40] == y[:40]) > 0.9
    new = images[::-1][:5]
    np.testing.assert_allclose(model.predict_proba(new), probs[::-1][:5], atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(new[:1]), probs[::-1][:1], atol=1e-5)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(images), probs)
    assert model.predict_std(new).shape == (5, 10)
    assert sorted(tmp_path.glob("*.rows")) == stored  # of what is predicted, no features are kept
    assert clone(model).encoder == "efficientnet-lite0"
    with pytest.raises(ValueError, match="but the model was trained on"):
        model.predict(images[:, :, 1:])


@pytest.mark.parametrize("kind", [np.uint8, np.float64])
def test_fit_takes_images_of_any_dtype(kind):
    images, y = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)[:200].astype(kind)
    some = np.where(np.arange(200) < 100, y[:200], -1)
    model = SureLabelClassifier("fixmatch", steps=2, settings={"batch.labelled": 4}).fit(images, some)
    assert model.config_.views.strong == "strong-shift"
    assert model.task_.shape == (1, 8, 8)
    assert model.predict_proba(images[..., None][:3, :, :, 0]).shape == (3, 10)
    other = images.astype(np.float32 if kind == np.uint8 else np.uint8)
    with pytest.raises(ValueError, match="X has the dtype"):
        model.predict(other)
    with pytest.raises(ValueError, match=r"images of shape \(8, 7\), but the model was trained on \(8, 8\)"):
        model.predict(images[:, :, 1:])
    assert not hasattr(model, "predict_std")


@pytest.mark.parametrize("method", ["paws", "bam-paws+ema"])
def test_fit_works_with_paws(method):
    images, y = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8).astype(np.uint8)[:120]
    some = np.where(np.arange(120) < 60, y[:120], -1)
    settings = {"unlabelled": 8, "per_class": 2, "view": "crops", "small_crops": 0, "width": 16}
    settings = {f"paws.{name}": value for name, value in settings.items()}
    model = SureLabelClassifier(method, steps=2, settings=settings).fit(images, some)
    probs = model.predict_proba(images)
    np.testing.assert_allclose(probs.sum(1), 1)
    assert len(np.unique(model.predict(images))) > 1
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(images), probs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "fixmtach"}, "Did you mean 'fixmatch'"),
        ({"method": "paws"}, "compares crops of images"),
        ({"settings": {"optimizer.lrr": 1}}, "no setting named 'optimizer.lrr'. Did you mean 'optimizer.lr'"),
        ({"steps": -1}, "steps must be above zero"),
        ({"categorical": ["nothing"]}, "column 'nothing' does not exist"),
    ],
)
def test_fit_raises_value_errors_for_mistakes(iris, change, message):
    X, _, some = iris
    with pytest.raises(ValueError, match=message):
        SureLabelClassifier(**change).fit(X, some)


def test_failed_fit_leaves_the_model_unfitted(iris):
    X, _, some = iris
    model = SureLabelClassifier(steps=2).fit(X, some)
    with pytest.raises(ValueError, match="'nothing'"):
        model.set_params(categorical=["nothing"]).fit(X, some)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_fit_refuses_fewer_than_two_classes(iris):
    X, y, _ = iris
    with pytest.raises(ValueError, match="no class"):
        SureLabelClassifier().fit(X, np.full(150, -1))
    with pytest.raises(ValueError, match="one class"):
        SureLabelClassifier().fit(X, np.where(y == 0, 0, -1))


def test_fit_is_silent_and_changes_no_global_state(iris, capfd, tmp_path, monkeypatch):
    X, _, some = iris
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    logger = logging.getLogger()

    def state():
        name, numbers, *place = np.random.get_state()  # noqa: NPY002
        generators = (name, numbers.tobytes(), place, random.getstate(), torch.get_rng_state().tolist())
        of_torch = (torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled())
        of_logging = (logger.level, list(logger.handlers), logging.root.manager.disable)
        return generators, of_torch, of_logging, dict(os.environ), list(tmp_path.iterdir())

    torch.set_num_threads(2)
    try:
        before = state()
        for seed in (0, None):
            SureLabelClassifier(steps=2, random_state=seed).fit(X, some).predict(X)
        assert state() == before
        with pytest.raises(ValueError, match="became"):
            SureLabelClassifier(steps=20, settings={"optimizer.lr": 1e30}).fit(X, some)
        assert state() == before
    finally:
        torch.set_num_threads(1)
    assert capfd.readouterr() == ("", "")


def test_fit_keeps_a_run_folder_and_shows_progress(iris, tmp_path, capsys):
    X, _, some = iris
    SureLabelClassifier(steps=2, out=tmp_path / "run", verbose=True).fit(X, some)
    assert (tmp_path / "run" / "weights.safetensors").exists()
    assert "sure on X: 30 labels, 150 samples in the pool" in capsys.readouterr().out
    with pytest.raises(UserError, match="passed in Python"):
        load(tmp_path / "run").evaluate()
    with pytest.raises(ValueError, match=r"run exists already: choose another folder"):
        SureLabelClassifier(steps=2, out=tmp_path / "run").fit(X, some)


def test_import_of_the_package_is_light():
    code = "import sys, surelabel; assert not {'torch', 'sklearn', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'Classifier'"):
        _ = surelabel.Classifier


@pytest.mark.parametrize(
    ("settings", "X", "message"),
    [
        ({"kind": "vectors"}, np.zeros((6, 3)), "choose one of auto, embeddings, table"),
        ({"kind": "embeddings"}, np.zeros((6, 3, 3)), "is for rows"),
        ({"kind": "table"}, np.zeros((6, 3, 3)), "is for rows"),
        ({"kind": "embeddings", "categorical": [0]}, np.zeros((6, 3)), "leave one out"),
        ({"kind": "embeddings"}, np.array([[0.0], [1], [np.nan], [2]] * 2)[:6], "NaN"),
    ],
)
def test_kind_is_checked(settings, X, message):
    with pytest.raises(ValueError, match=message):
        SureLabelClassifier(steps=2, **settings).fit(X, [0, 1, -1, -1, 0, 1])


@pytest.mark.slow
def test_mapped_float16_embeddings_are_not_converted(tmp_path):
    y = np.arange(90) % 3
    rows = np.random.default_rng(0).normal(size=(90, 300)) + 3 * np.eye(3, 300)[y]
    np.save(tmp_path / "x.npy", rows.astype(np.float16))
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    some = np.where(np.arange(90) < 45, y, -1)
    model = SureLabelClassifier(kind="embeddings", steps=20).fit(X, some)
    held = model._input.source(X)._images
    assert held.dtype == np.float16
    assert np.shares_memory(held, X)
    exact = np.asarray(X, np.float32)
    same = SureLabelClassifier(kind="embeddings", steps=20).fit(exact, some)
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(exact))
