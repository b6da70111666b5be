"""The calibrated default on a table, through the commands: fit, accept, predict, export, report."""

import csv
import re
import shutil

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

from surelabel.cli.main import main
from surelabel.estimator.classifier import SureLabelClassifier
from surelabel.inference.trained_run import load
from surelabel.inference.trust import answer

pytestmark = pytest.mark.slow
X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
SMALL = ["--network.name", "members-20-32", "--steps", "150", "--threads", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Digits with 80 labels of 700 in a table, and the run that `fit` makes of it without being asked for a method."""
    place = tmp_path_factory.mktemp("sure")
    with (place / "digits.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"pixel {number}" for number in range(64)), "label"])
        writer.writerows(
            [*row, label if number < 80 else ""]
            for number, (row, label) in enumerate(zip(X[:700], y[:700], strict=True))
        )
    table = str(place / "digits.csv")
    assert main(["fit", table, *SMALL, "--accept", "0.9", "--sets", "0.9", "--out", str(place / "run")]) == 0
    return place / "run"


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_fit_is_accurate_and_says_how_much(folder):
    predicted = rows(folder / "predictions.csv")
    right = np.array([int(row["class"]) == y[int(row["sample"])] for row in predicted])
    confidence = np.array([float(row["confidence"]) for row in predicted])
    assert right.mean() > 0.85
    assert abs(confidence.mean() - right.mean()) < 0.06
    low, high = load(folder).trust.known.interval
    assert low < right.mean() < high


def test_accepted_and_to_label_are_the_whole_pool(folder):
    accepted, rest = rows(folder / "accepted.csv"), rows(folder / "to_label.csv")
    named = [row["sample"] for row in accepted] + [row["sample"] for row in rest]
    assert sorted(named, key=int) == [row["sample"] for row in rows(folder / "predictions.csv")]
    assert np.mean([float(row["confidence"]) for row in accepted]) >= 0.9
    assert [row["rank"] for row in rest] == [str(place + 1) for place in range(len(rest))]


def test_one_answer_per_sample(folder, tmp_path):
    """predictions.csv, predict and the ONNX file agree, whatever the sample's place in a batch."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    run = load(folder)
    given = {int(row["sample"]): float(row["confidence"]) for row in rows(folder / "predictions.csv")}
    run.export(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    used = [int(column.name.removeprefix("pixel ")) for column in run.data.train.encoding.columns]
    for sample in (80, 333, 699):
        probs, std = session.run(None, {"numbers": X[[sample]][:, used]})
        assert probs.max() == pytest.approx(given[sample], abs=1e-5)
        assert std.shape == (1, 10)


def test_sets_hold_the_right_class(folder):
    """A coverage below 85 % has a probability of 3 % if that of all 620 draws of 80 labels is 90 %."""
    found = rows(folder / "predictions.csv")
    sets = [row["set"].split("|") for row in found]
    assert np.mean([str(y[int(row["sample"])]) in members for row, members in zip(found, sets, strict=True)]) > 0.85
    for row, members in zip(found, sets, strict=True):
        assert members[0] == row["class"]
        assert len(members) == int(row["set_size"])


def test_predict_makes_the_sets_of_fit(folder, tmp_path, capsys):
    table = tmp_path / "new.csv"
    with table.open("w", newline="") as file:
        lines = [[f"pixel {number}" for number in range(64)], *X[80:110].tolist()]
        csv.writer(file).writerows(lines)
    assert main(["predict", str(folder), str(table), "-o", str(tmp_path / "out.csv"), "--sets", "0.9"]) == 0
    expected = [row["set"] for row in rows(folder / "predictions.csv")[:30]]
    assert [row["set"] for row in rows(tmp_path / "out.csv")] == expected
    assert "about 90%" in (said := capsys.readouterr().out)
    assert "CV+ guarantees 72%" in said
    assert main(["predict", str(folder), str(table), "-o", str(tmp_path / "no.csv"), "--sets", "0.99"]) == 2
    assert "at least 99 labels" in capsys.readouterr().err
    assert not (tmp_path / "no.csv").exists()


def test_scores_of_sets_depend_on_nothing_that_left_out_labels_chose(folder):
    before, changed = load(folder).learners.scores, load(folder)
    changed.network.head.powers.mul_(3)
    np.testing.assert_array_equal(changed.learners.scores.scores, before.scores)


def test_too_few_labels_for_sets_lose_nothing_else(folder, tmp_path, capsys):
    again = shutil.copytree(folder, tmp_path / "again")
    assert main(["fit", "--resume", str(again), "--sets", "0.995"]) == 0
    assert "No sets of classes" in (said := capsys.readouterr().out)
    assert "at least 199 labels" in said
    assert "set" not in rows(again / "predictions.csv")[0]
    assert answer(load(again).trust, 0.9) in said  # the precision asked for before
    assert len(rows(again / "predictions.csv")) == 620


def test_page_leads_with_the_answer(folder):
    pytest.importorskip("jinja2")
    page = (folder / "report.html").read_text()
    headings = re.findall(r"<h3>(.*?)</h3>", page)
    order = ["How far to trust it", "By class", "Labels that look wrong", "What to label next", "Training", "Settings"]
    assert headings == order
    assert answer(load(folder).trust, 0.9) in re.search(r'<p class="lead">(.*?)</p>', page)[1]
    accepted, first = rows(folder / "accepted.csv"), rows(folder / "to_label.csv")[0]
    assert f'<dd class="value">{len(accepted)}</dd>' in page
    gallery = page[page.index("What to label next") :]
    assert re.search(r'<p class="name">(.*?)</p>', gallery)[1] == first["sample"]
    assert "CV+ guarantees 72%" in page


def test_page_where_all_can_be_accepted(folder, tmp_path):
    pytest.importorskip("jinja2")
    again = shutil.copytree(folder, tmp_path / "again")
    assert main(["fit", "--resume", str(again), "--accept", "0.5"]) == 0
    assert rows(again / "to_label.csv") == []
    page = (again / "report.html").read_text()
    assert "accept the 620 from" in page
    assert "What to label next" not in page


def test_page_of_two_runs_has_unique_ids(folder, tmp_path):
    pytest.importorskip("jinja2")
    shutil.copytree(folder, tmp_path / "again")
    assert main(["report", str(folder), str(tmp_path / "again"), "-o", str(tmp_path / "both.html")]) == 0
    ids = re.findall(r' id="(.*?)"', (tmp_path / "both.html").read_text())
    assert len(ids) == len(set(ids)) > 10


def test_estimator_is_calibrated_by_default():
    some = np.where(np.arange(len(y)) < 80, y, -1)
    settings = {"network.name": "members-20-32"}
    model = SureLabelClassifier(steps=150, settings=settings).fit(X[:700], some[:700])
    probs = model.predict_proba(X[700:1200])
    right = (probs.argmax(1) == y[700:1200]).mean()
    assert right > 0.8
    assert abs(probs.max(1).mean() - right) < 0.08
    np.testing.assert_allclose(model.predict_proba(X[900:901]), probs[200:201], atol=1e-6)
    assert model.predict_std(X[:3]).shape == (3, 10)
