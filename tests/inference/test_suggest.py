from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from surelabel.data.arrays.source import ArraySource
from surelabel.inference.suggest import backbone_features, suggest_to_csv, uncertain_and_diverse, unlabelled
from surelabel.inference.trained_run import load
from surelabel.training import evaluate
from surelabel.utils.errors import UserError
from surelabel.utils.rng import generator
from tests.conftest import tiny_run
from tests.helpers.runs import fit_folder
from tests.helpers.tables import read_csv


@pytest.fixture(scope="module")
def folder(digits_file, tmp_path_factory):
    return fit_folder(replace(tiny_run(digits_file, tmp_path_factory.mktemp("suggest") / "run"), method="bam-uda"))


def pool(count, seed=0, width=5):
    draws = np.random.default_rng(seed)
    features = torch.from_numpy(draws.normal(size=(count, width)).astype(np.float32))
    return features, torch.from_numpy(draws.random(count).astype(np.float32))


@pytest.mark.parametrize("seed", range(5))
def test_uncertain_and_diverse_matches_a_plain_loop(seed):
    features, uncertainty = pool(60, seed)
    uncertainty[::7] = 0
    points = [row / np.linalg.norm(row) for row in features.double().numpy()]
    expected = []
    for number in np.random.default_rng(seed).random(12):
        chances = []
        for place in range(60):
            gap = min((float(((points[place] - points[other]) ** 2).sum()) for other in expected), default=1.0)
            chances.append(max(float(uncertainty[place]), 1e-12) * gap)
        left = number * sum(chances)
        for place in range(60):
            left -= chances[place]
            if left < 0:
                break
        expected.append(place)
    assert uncertain_and_diverse(features, uncertainty, 12, np.random.default_rng(seed)).tolist() == expected


def test_uncertain_and_diverse_draws_no_copies():
    """40 groups of 25 near copies (1e-4 apart): 20 draws hit a group twice with probability < 20² · 25 · (1e-4)²."""
    centres, _ = pool(40, width=16)
    uncertainty = torch.ones(1000)
    exact = centres.repeat(25, 1)
    drawn = uncertain_and_diverse(exact, uncertainty, 100, np.random.default_rng(0))
    assert sorted((drawn % 40).tolist()) == list(range(40))  # each once, then none is left
    near = exact + 1e-4 * pool(1000, 1, width=16)[0]
    drawn = uncertain_and_diverse(near, uncertainty, 20, np.random.default_rng(0))
    assert len(set((drawn % 40).tolist())) == 20


def test_uncertain_and_diverse_draws_in_proportion_to_uncertainty():
    """Half of the samples are 9 times as uncertain: of 400 first draws 360 are theirs, with a std of 6; 5 stds either
    way are exceeded by chance less than once in a million.
    """
    features, _ = pool(50)
    uncertainty = torch.where(torch.arange(50) < 25, 0.9, 0.1)
    first = [int(uncertain_and_diverse(features, uncertainty, 1, generator(seed, "test"))[0]) for seed in range(400)]
    assert 330 <= sum(place < 25 for place in first) <= 390


def test_uncertain_and_diverse_draws_the_same_first_for_any_number():
    features, uncertainty = pool(200)
    few, many = (uncertain_and_diverse(features, uncertainty, n, generator(0, "test")) for n in (5, 30))
    assert torch.equal(few, many[:5])
    assert len(uncertain_and_diverse(features, uncertainty, 500, generator(0, "test"))) == 200


def test_uncertain_and_diverse_draws_from_a_certain_pool():
    features, _ = pool(30)
    assert len(set(uncertain_and_diverse(features, torch.zeros(30), 10, generator(0, "test")).tolist())) == 10


def test_unlabelled_has_no_labelled_or_known_samples():
    images = np.zeros((6, 1, 4, 4), dtype=np.uint8)
    partly = ArraySource(images, np.array([0, 1, -1, -1, 0, -1]), ["a", "b"])
    assert unlabelled(partly, np.array([0, 1])).tolist() == [2, 3, 5]
    known = ArraySource(images, np.array([0, 1, 1, 1, 0, 0]), ["a", "b"])
    assert unlabelled(known, np.array([0, 1])).tolist() == [2, 3, 4, 5]
    with pytest.raises(UserError, match="every sample of the run's pool is labelled"):
        unlabelled(known, np.arange(6))


def test_suggest_is_reproducible_and_agrees_with_predict(folder, digits_data):
    found = load(folder.path).suggest(20)
    assert found == load(folder.path).suggest(20)
    index = np.array([one.index for one in found])
    assert len(set(index.tolist())) == 20
    assert not set(index.tolist()) & set(folder.labelled().tolist())
    assert [one.rank for one in found] == list(range(1, 21))
    network = load(folder.path).network
    pool = unlabelled(digits_data.train, folder.labelled())
    prediction = evaluate.predict(network, digits_data.train, pool, folder.config.evaluation.batch)
    for one in found:
        place = int(np.flatnonzero(pool == one.index)[0])
        probs = prediction.probs[place]
        assert one.predicted == digits_data.classes[int(probs.argmax())]
        assert one.confidence == pytest.approx(float(probs.max()))
        assert one.entropy == pytest.approx(float(-(probs * probs.log()).sum()), rel=1e-5)
        assert one.confidence_std == pytest.approx(float(prediction.std[place, probs.argmax()]))


def test_backbone_features_do_not_depend_on_the_batch(folder, digits_data):
    network, index = load(folder.path).network, np.arange(50)
    small, large = (backbone_features(network, digits_data.train, index, batch) for batch in (7, 50))
    torch.testing.assert_close(small, large)


def test_suggest_to_csv_writes_one_line_per_suggestion(folder, tmp_path):
    found = suggest_to_csv(load(folder.path), 7, tmp_path / "suggest.csv")
    lines = read_csv(tmp_path / "suggest.csv")
    columns = ["rank", "sample", "label", "drawn", "predicted", "confidence", "entropy", "confidence_std"]
    assert list(lines[0]) == columns
    assert {(line["label"], line["drawn"]) for line in lines} == {("", "suggested")}
    assert [int(line["sample"]) for line in lines] == [one.index for one in found]
    assert [float(line["confidence_std"]) for line in lines] == pytest.approx(
        [one.confidence_std for one in found], abs=1e-6
    )


def test_suggest_to_csv_names_files_and_has_no_std_for_a_point_head(tiny, tmp_path, digits_data):
    for number in range(60):
        label = digits_data.train.labels[number]
        path = tmp_path / "pictures" / ("unlabelled" if number >= 40 else str(label)) / f"={number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(digits_data.train.samples(np.array([number]))[0, 0]).save(path)
    folder = fit_folder(replace(tiny, data=str(tmp_path / "pictures"), labels=20, steps=4))
    found = suggest_to_csv(load(folder.path), 5, tmp_path / "out.csv")
    assert all(one.sample.startswith("unlabelled/=") and one.confidence_std is None for one in found)
    lines = read_csv(tmp_path / "out.csv")
    assert [line["sample"] for line in lines] == [one.sample for one in found]
    assert "confidence_std" not in lines[0]


def test_suggest_refuses_zero(folder):
    with pytest.raises(UserError, match="at least 1"):
        load(folder.path).suggest(0)
