import json
import math
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, precision_score, recall_score

from surelabel.inference.trained_run import load
from surelabel.report.predictions import measure
from surelabel.report.record import read_recorded
from surelabel.training import metrics
from surelabel.training.evaluate import labelled_indices, predict
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import UserError


def measured(folder):
    return measure(load(folder), read_recorded(RunFolder(folder)))


@pytest.fixture(scope="module")
def found(point_run):
    return measured(point_run)


@cache
def predicted(path):
    run = load(path)
    index = labelled_indices(run.test)
    return predict(run.network, run.test, index, 256), torch.from_numpy(run.test.labels[index])


def test_measure_gives_the_metrics_of_evaluate(point_run, found):
    expected = load(point_run).metrics
    assert found.averaged == pytest.approx(expected["averaged"], abs=1e-12)
    assert found.raw == pytest.approx(expected["raw"], abs=1e-6)
    assert found.samples == expected["samples"]
    for row, other in zip(found.classes, expected["classes"], strict=True):
        assert (row.name, row.count, row.accuracy, row.confidence) == tuple(other.values())


def test_measure_bins_match_a_plain_loop_and_give_the_ece(point_run, found):
    prediction, labels = predicted(point_run)
    held = [[] for _ in range(10)]
    for probs, label in zip(prediction.probs.tolist(), labels.tolist(), strict=True):
        number = max(0, math.ceil(max(probs) * 10) - 1)
        held[number].append((max(probs), probs.index(max(probs)) == label))
    for number, inside in enumerate(held):
        assert found.bins.size[number] == len(inside)
        assert found.bins.confidence[number] == pytest.approx(sum(sure for sure, _ in inside))
        assert found.bins.correct[number] == sum(right for _, right in inside)
    ece = sum(abs(sum(sure - right for sure, right in inside)) for inside in held) / len(labels)
    assert ece == pytest.approx(metrics.evaluation(prediction.probs, labels)["ece"])
    assert ece == pytest.approx(found.averaged["ece"])


def test_measure_confusion_precision_and_recall_match_scikit_learn(point_run, found):
    prediction, labels = predicted(point_run)
    said = prediction.probs.argmax(1)
    np.testing.assert_array_equal(found.confusion, confusion_matrix(labels, said, labels=range(10)))
    precision = precision_score(labels, said, average=None, labels=range(10), zero_division=0)
    recall = recall_score(labels, said, average=None, labels=range(10))
    assert [row.precision or 0 for row in found.classes] == pytest.approx(precision)
    assert [row.accuracy for row in found.classes] == pytest.approx(recall)
    assert [row.predicted for row in found.classes] == np.bincount(said, minlength=10).tolist()
    assert [row.labelled for row in found.classes] == [4] * 10


def test_measure_shows_the_most_confident_mistakes_first(point_run, found):
    prediction, labels = predicted(point_run)
    confidence, said = prediction.probs.max(1)
    wrong = sorted(confidence[said != labels].tolist(), reverse=True)
    first = [sample for sample in found.mistakes if sample.first]
    assert [sample.confidence for sample in first] == pytest.approx(wrong[:24])
    assert all(sample.true != sample.predicted for sample in found.mistakes)
    assert all(sample.std is None for sample in found.mistakes)


def test_measure_shows_the_highest_entropy_with_a_bayesian_std(bayesian_run):
    found = measured(bayesian_run)
    prediction, _ = predicted(bayesian_run)
    entropy = torch.distributions.Categorical(prediction.probs.double()).entropy()
    order = torch.argsort(-entropy)[:24].tolist()
    assert {sample.name for sample in found.uncertain if sample.first} == {str(number) for number in order}
    for sample in found.uncertain:
        number = int(sample.name)
        assert sample.predicted == prediction.probs[number].argmax()
        assert sample.std == pytest.approx(prediction.std[number, sample.predicted].item())


def test_measure_without_a_test_set_shows_the_unlabelled_pool(untested_run):
    recorded = read_recorded(RunFolder(untested_run))
    found = measured(untested_run)
    assert found.averaged is found.bins is found.confusion is found.mistakes is None
    assert found.samples == 1200 - 40
    assert not {sample.name for sample in found.uncertain} & {str(index) for index in recorded.labelled}
    assert sum(row.predicted for row in found.classes) == found.samples
    assert [row.labelled for row in found.classes] == [4] * 10


def test_measure_computes_the_metrics_of_an_unfinished_run(unfinished, point_run):
    found = measured(unfinished)
    stored = json.loads((point_run / "result.json").read_text())
    assert found.averaged == pytest.approx(stored["averaged"], abs=1e-6)
    assert found.raw == pytest.approx(stored["raw"], abs=1e-6)


def test_measure_refuses_changed_data(point_run, copied):
    folder = copied(point_run)
    split = json.loads((folder / "split.json").read_text())
    (folder / "split.json").write_text(json.dumps(split | {"data": "other"}))
    with pytest.raises(UserError, match="started with other data"):
        measured(folder)
