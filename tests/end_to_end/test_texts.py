"""Texts from the command line and in Python: fit, predict, evaluate, the page, and what goes wrong."""

import csv
import json
import pickle
import shutil
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from rich.console import Console
from sklearn.base import clone

from surelabel import SureLabelClassifier, load
from surelabel.cli.main import main
from surelabel.config.recipes import texts
from surelabel.inference.trained_run import fit

TOPICS = {
    "food": ["soup", "bread", "cheese", "onion", "garlic", "butter", "pepper", "salad", "cooking", "kitchen"],
    "sport": ["match", "goal", "team", "referee", "stadium", "league", "striker", "coach", "season", "victory"],
}
OTHER = ["the", "a", "we", "they", "it", "was", "very", "today", "again", "here", "about", "some"]
HOSTILE = "<script>alert(1)</script> "
QUICK = ["--steps", "3", "--network.name", "members-10-8", "--threads", "1", "--device", "cpu"]


def written(topic, seed):
    random = np.random.default_rng(seed)
    return " ".join(random.permutation([*random.choice(TOPICS[topic], 6), *random.choice(OTHER, 6)]))


NAMES = [("food", "sport")[seed % 2] for seed in range(120)]
TEXTS = [written(name, seed) for seed, name in enumerate(NAMES)]
LABELS = [name if seed < 30 else "" for seed, name in enumerate(NAMES)]
Y = np.array([("food", "sport").index(name) if name else -1 for name in LABELS])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on a .jsonl file, made by the command."""
    folder = tmp_path_factory.mktemp("texts")
    rows = [{"text": HOSTILE + text, "label": label or None} for text, label in zip(TEXTS, LABELS, strict=True)]
    (folder / "mails.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["fit", str(folder / "mails.jsonl"), *QUICK, "--out", str(folder / "run")]) == 0
    return folder


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_fit_predicts_the_unlabelled(trained):
    rows = read(trained / "run" / "predictions.csv")
    assert [int(row["sample"]) for row in rows] == list(range(30, 120))
    right = np.mean([row["class"] == NAMES[int(row["sample"])] for row in rows])
    assert right > 0.9


def test_a_stored_run_predicts_as_the_new_one_did(trained):
    run = load(trained / "run")
    rows = read(trained / "run" / "predictions.csv")
    found = run.predict([HOSTILE + TEXTS[int(row["sample"])] for row in rows])
    expected = [float(row["confidence"]) for row in rows]
    np.testing.assert_allclose(found.confidence, expected, atol=2e-6)
    assert run.encoder.fingerprint == json.loads((trained / "run" / "encoder.json").read_text())["fingerprint"]


def test_page_shows_texts_escaped(trained):
    page = (trained / "run" / "report.html").read_text()
    assert HOSTILE not in page
    assert page.count(f"<blockquote>{escape(HOSTILE)}") == page.count("<blockquote>") >= 20


def test_new_folders_tables_and_lists_are_predicted(trained, tmp_path):
    run = str(trained / "run")
    (tmp_path / "new" / "sub").mkdir(parents=True)
    for number, name in enumerate(NAMES[:4]):
        (tmp_path / "new" / "sub" / f"{number}.txt").write_text(written(name, 1000 + number))
    assert main(["predict", run, str(tmp_path / "new"), "-o", str(tmp_path / "a.csv")]) == 0
    assert [row["class"] for row in read(tmp_path / "a.csv")] == NAMES[:4]
    table = [{"text": written(name, 1000 + number), "label": name} for number, name in enumerate(NAMES[:40])]
    with (tmp_path / "new.csv").open("w", newline="") as file:
        lines = csv.DictWriter(file, ["text", "label"])
        lines.writeheader()
        lines.writerows(table)
    assert main(["predict", run, str(tmp_path / "new.csv"), "-o", str(tmp_path / "b.csv")]) == 0
    assert main(["evaluate", run, str(tmp_path / "new.csv")]) == 0
    assert main(["predict", run, "cifar10.npy", "-o", str(tmp_path / "c.csv")]) == 2


def test_suggestions_show_the_texts(trained, tmp_path):
    assert main(["suggest", str(trained / "run"), "-n", "3", "-o", str(tmp_path / "next.csv")]) == 0
    for row in read(tmp_path / "next.csv"):
        assert row["text"] == HOSTILE + TEXTS[int(row["sample"])]
        assert (row["label"], row["drawn"]) == ("", "suggested")


def test_resume_takes_the_stored_encoder(trained, tmp_path):
    whole = replace(texts("sure", str(trained / "mails.jsonl")), steps=4, device="cpu", threads=1)
    whole = replace(whole, network=replace(whole.network, name="members-10-8"), out=str(tmp_path / "whole"))
    whole = replace(whole, evaluation=replace(whole.evaluation, every=2))
    quiet = Console(quiet=True)
    fit(whole, console=quiet)

    class Stop(Exception):
        pass

    def stop(row):
        if row["step"] == 2:
            raise Stop

    halved = replace(whole, out=str(tmp_path / "halved"))
    with pytest.raises(Stop):
        fit(halved, console=quiet, watch=stop)
    resumed = fit(halved, console=quiet, resume=True)
    for name, weights in load(tmp_path / "whole").network.state_dict().items():
        np.testing.assert_array_equal(resumed.network.state_dict()[name].numpy(), weights.numpy())


def test_held_out_texts_have_no_part_in_the_encoder(trained, tmp_path):
    config = replace(texts("sure", str(trained / "mails.jsonl")), steps=1, holdout="50%", device="cpu", threads=1)
    config = replace(config, network=replace(config.network, name="members-10-8"), out=str(tmp_path / "held"))
    run = fit(config, console=Console(quiet=True))
    from surelabel.models.encoders.ngrams import learn

    pool = run.data.train.texts(np.arange(len(run.data.train)))
    assert len(pool) == len(TEXTS) - 16  # a half of 15 labels of each class, rounded
    assert run.encoder.fingerprint == learn(pool).fingerprint


def test_damaged_encoder_is_told(trained, tmp_path):
    shutil.copytree(trained / "run", tmp_path / "run")
    (tmp_path / "run" / "encoder.safetensors").write_bytes(b"nonsense")
    assert main(["predict", str(tmp_path / "run"), str(trained / "mails.jsonl"), "-o", str(tmp_path / "o.csv")]) == 2


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["mails.jsonl", "--text-column", "txt"], "'text'"),
        (["mails.jsonl", "--encoder", "none"], "ngrams"),
        (["mails.jsonl", "--method", "paws"], "paws"),
        (["mails.jsonl", "--encoder", "efficientnet-lite0"], "texts"),
        (["files", "--text-column", "text"], "--text-column"),
        (["mails.jsonl", "--size", "paper"], "--size"),
    ],
)
def test_mistakes_are_told(trained, monkeypatch, capsys, words, named):
    monkeypatch.chdir(trained)
    (trained / "files" / "a").mkdir(parents=True, exist_ok=True)
    (trained / "files" / "a" / "1.txt").write_text("one")
    assert main(["fit", *words, "--out", "nowhere"]) == 2
    assert named in capsys.readouterr().err


def model(**parameters):
    return SureLabelClassifier(kind="texts", steps=2, settings={"network.name": "members-10-8"}, **parameters)


@pytest.mark.parametrize("of", [list, np.array, lambda texts: pytest.importorskip("pandas").Series(texts)])
def test_estimator_takes_lists_arrays_and_columns(of):
    fitted = model().fit(of(TEXTS), Y)
    assert fitted.score(of(TEXTS[30:]), [("food", "sport").index(name) for name in NAMES[30:]]) > 0.9
    expected = fitted.predict_proba(TEXTS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(TEXTS), expected)
    np.testing.assert_array_equal(clone(fitted).fit(TEXTS, Y).predict_proba(TEXTS), expected)
    np.testing.assert_allclose(fitted.predict_proba([TEXTS[3], ""])[0], expected[3], rtol=1e-12)


@pytest.mark.parametrize(
    ("X", "named"), [([*TEXTS[:-1], 5], "sample 119 is 5"), ("one", "one text"), ([None] * 120, "sample 0 is None")]
)
def test_estimator_names_what_is_no_text(X, named):
    with pytest.raises(ValueError, match=named):
        model().fit(X, Y)


def test_copies_of_a_text_share_a_fold():
    from surelabel.data.label_folds import folds_of
    from surelabel.data.texts.source import TextSource
    from surelabel.models.frozen_features import FeatureSource

    words = [*TEXTS[:20], TEXTS[0].upper() + "!", TEXTS[1].replace(" ", ",  ")]
    source = TextSource(words, [*Y[:20], Y[0], Y[1]], ["food", "sport"])
    random = np.random.default_rng(0).normal(size=(22, 80)).astype(np.float32)
    fold = folds_of(FeatureSource(source, random), np.arange(22), 5, 0)
    assert (fold[20], fold[21]) == (fold[0], fold[1])


def test_a_sentence_encoder_describes_a_folder_of_texts(tmp_path):
    pytest.importorskip("transformers")
    from tests.models.encoders.test_hugging_face import bert

    for number, (text, label) in enumerate(zip(TEXTS[:60], LABELS, strict=False)):
        path = tmp_path / "files" / (label or "unlabelled") / f"{number:02}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    bert(tmp_path / "model")
    words = ["--encoder", f"hf:{tmp_path / 'model'}", "--out", str(tmp_path / "run")]
    assert main(["fit", str(tmp_path / "files"), *QUICK, *words]) == 0
    rows = read(tmp_path / "run" / "predictions.csv")
    assert [row["sample"] for row in rows] == [f"unlabelled/{number}.txt" for number in range(30, 60)]
    assert not (tmp_path / "run" / "encoder.safetensors").exists()
    found = load(tmp_path / "run").predict([TEXTS[30], TEXTS[31]])
    np.testing.assert_allclose(found.confidence, [float(row["confidence"]) for row in rows[:2]], atol=1e-5)
