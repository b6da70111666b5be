"""The calibrated default on a table, through the commands: fit, accept, predict, export, report."""

import csv
import pickle
import re
import shutil

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

from surelabel.cli.main import main
from surelabel.estimator.classifier import SureLabelClassifier
from surelabel.inference.trained_run import load
from surelabel.inference.trust_words import answer

pytestmark = pytest.mark.slow
X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
SMALL = ["--network.name", "members-20-32", "--steps", "150", "--threads", "1", "--device", "cpu"]


def fit_digits(place, labelled, *more):
    """The run that `fit` makes of 700 digits in a table, of which some are labelled, without being told a method."""
    with (place / "digits.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"pixel {number}" for number in range(64)), "label"])
        writer.writerows(
            [*row, label if number in labelled else ""]
            for number, (row, label) in enumerate(zip(X[:700], y[:700], strict=True))
        )
    assert main(["fit", str(place / "digits.csv"), *SMALL, *more, "--out", str(place / "run")]) == 0
    return place / "run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fit_digits(tmp_path_factory.mktemp("sure"), range(80), "--accept", "0.9", "--sets", "0.9")


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_fit_is_accurate_and_says_how_much(folder):
    predicted = rows(folder / "predictions.csv")
    right = np.array([int(row["class"]) == y[int(row["sample"])] for row in predicted])
    confidence = np.array([float(row["confidence"]) for row in predicted])
    assert right.mean() > 0.85
    assert abs(confidence.mean() - right.mean()) < 0.09  # twice the standard error of 80 labels
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


def test_too_few_labels_for_sets_are_refused_before_the_training(folder, tmp_path, capsys):
    words = ["fit", str(folder.parent / "digits.csv"), "--out", str(tmp_path / "run"), "--sets", "0.99"]
    assert main(words) == 2
    assert "at least 99 labels that can be left out" in (said := capsys.readouterr().err)
    assert "and there are 80: label more, or ask for 0.95" in said
    assert not (tmp_path / "run").exists()


def test_too_few_labels_for_sets_lose_nothing_else(folder, tmp_path, capsys, monkeypatch):
    """Where that is known only when the folds are, as for near-duplicates."""
    monkeypatch.setattr("surelabel.inference.trained_run.check_labels", lambda *labels, coverage: None)
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
    assert "accept the 620 of confidence" in page
    assert "What to label next" not in page


def test_page_of_two_runs_has_unique_ids(folder, tmp_path):
    pytest.importorskip("jinja2")
    shutil.copytree(folder, tmp_path / "again")
    assert main(["report", str(folder), str(tmp_path / "again"), "-o", str(tmp_path / "both.html")]) == 0
    ids = re.findall(r' id="(.*?)"', (tmp_path / "both.html").read_text())
    assert len(ids) == len(set(ids)) > 10


def test_a_kind_without_a_label_voids_what_is_said(folder, tmp_path, capsys):
    assert load(folder).unnamed is None
    labelled = [number for number in range(250) if y[number] != 6][:150]
    run = fit_digits(tmp_path, labelled)
    said = capsys.readouterr().out
    unnamed = load(run).unnamed
    assert (y[unnamed.index] == 6).mean() > 0.8
    assert unnamed.count == pytest.approx((y[:700] == 6).sum(), rel=0.3)
    page = (run / "report.html").read_text() if (run / "report.html").exists() else said
    if page != said:  # the answer is not buried below the samples to look at
        assert page.index("Warning: ") < page.index("To accept") < page.index("the most typical first")
    for text in (said, page):
        assert "unlike any labelled one" in text
        assert "if all were of the named classes" in text
        assert "should be right" not in text


def test_estimator_takes_embeddings():
    """Whose columns were turned, so that none of them is a quantity of its own."""
    turned = X @ np.linalg.qr(np.random.default_rng(0).normal(size=(64, 64)))[0]
    some = np.where(np.arange(len(y)) < 80, y, -1)
    settings = {"network.name": "members-20-32"}
    model = SureLabelClassifier(kind="embeddings", steps=150, settings=settings).fit(turned[:700], some[:700])
    assert model.config_.sure.project
    assert model.score(turned[700:1200], y[700:1200]) > 0.75
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(turned[:5]), model.predict_proba(turned[:5]))


def test_embeddings_are_labelled_by_row_and_suggestions_given_back(tmp_path):
    np.save(tmp_path / "rows.npy", X[:400].astype(np.float16))
    (tmp_path / "labels.csv").write_text("row,label\n" + "".join(f"{row},{y[row]}\n" for row in range(60)))
    run, more = tmp_path / "run", tmp_path / "more.csv"
    words = ["fit", str(tmp_path / "rows.npy"), "--labels", str(tmp_path / "labels.csv"), *SMALL]
    assert main([*words, "--out", str(run)]) == 0
    predicted = rows(run / "predictions.csv")
    assert [row["sample"] for row in predicted] == [str(row) for row in range(60, 400)]
    assert np.mean([int(row["class"]) == y[int(row["sample"])] for row in predicted]) > 0.75
    assert main(["suggest", str(run), "-n", "4", "-o", str(more)]) == 0
    asked = [row | {"label": y[int(row["sample"])]} for row in rows(more)]
    with more.open("w", newline="") as file:
        lines = csv.DictWriter(file, list(asked[0]))
        lines.writeheader()
        lines.writerows(asked)
    assert main(["fit", "--from", str(run), "--labels", str(more)]) == 0
    again = load(f"{run}-2")
    assert len(again.labelled) == 64
    assert sorted(np.flatnonzero(again.data.train.suggested)) == sorted(int(row["sample"]) for row in asked)
    assert main(["predict", str(run), str(tmp_path / "rows.npy"), "-o", str(tmp_path / "all.csv")]) == 0
    assert [row["class"] for row in rows(tmp_path / "all.csv")[60:]] == [row["class"] for row in predicted]


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
