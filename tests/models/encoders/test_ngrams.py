import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from surelabel.models.encoders import ngrams
from surelabel.models.encoders.ngrams import Ngrams, learn
from surelabel.utils.errors import UserError

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "while",
    "dogs",
    "ran",
    "over",
    "hills",
    "to",
    "see",
    "birds",
    "and",
    "fish",
    "swim",
    "near",
    "boats",
]
TEXTS = [" ".join(np.random.default_rng(seed).choice(WORDS, 12)) for seed in range(60)]


@pytest.mark.parametrize("kind", [0, 1])
def test_features_are_those_of_tf_idf_and_svd(monkeypatch, kind):
    """Scikit-learn's vectoriser with a vocabulary instead of hashes, up to rounding to 16 bits and signs."""
    of, lengths = ngrams.KINDS[kind]
    monkeypatch.setattr(ngrams, "KINDS", (ngrams.KINDS[kind],))
    monkeypatch.setattr(ngrams, "DIMENSIONS", 5)
    counts = TfidfVectorizer(analyzer=of, ngram_range=lengths, min_df=2, sublinear_tf=True).fit(TEXTS)
    expected = TruncatedSVD(5, random_state=0).fit_transform(counts.transform(TEXTS))
    found = learn(TEXTS)(TEXTS)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=5e-3)


def test_both_kinds_count_alike():
    encoder = learn(TEXTS)
    rows = ngrams.weighted(ngrams.counted(TEXTS)[:, encoder.kept], encoder.kept, encoder.weights)
    split = np.searchsorted(encoder.kept, ngrams.HASHES)
    for kind in (rows[:, :split], rows[:, split:]):
        np.testing.assert_allclose(kind.multiply(kind).sum(1), 1, rtol=1e-6)


def test_learning_is_repeatable_and_stored_state_is_all():
    first, second = learn(TEXTS), learn(TEXTS)
    assert first.fingerprint == second.fingerprint != learn(TEXTS[:-1]).fingerprint
    np.testing.assert_array_equal(Ngrams(**first.tensors())(TEXTS), first(TEXTS))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=5))
def test_features_do_not_depend_on_the_other_texts(others):
    encoder = learn(TEXTS)
    alone, among = encoder([TEXTS[0]]), encoder([*others, TEXTS[0], *others])
    np.testing.assert_array_equal(among[len(others)], alone[0])
    assert among.shape == (2 * len(others) + 1, encoder.dimensions)


def test_a_text_without_known_words_is_zero():
    np.testing.assert_array_equal(learn(TEXTS)(["", "☃", "zzzz"]), 0)


def test_large_pools_are_learnt_from_a_part(monkeypatch):
    monkeypatch.setattr(ngrams, "FITTED", 20)
    assert learn(TEXTS).fingerprint == learn(TEXTS[::3]).fingerprint


def test_only_the_most_frequent_are_kept(monkeypatch):
    monkeypatch.setattr(ngrams, "MOST", 7)
    encoder = learn(TEXTS)
    assert len(encoder.kept) == 14
    documents = (ngrams.counted(TEXTS) > 0).sum(0)
    words = documents[: ngrams.HASHES]
    assert sorted(words[encoder.kept[:7]]) == sorted(words)[-7:]


@pytest.mark.parametrize("texts", [[""] * 5, ["one", "two", "three"]])
def test_learn_needs_shared_words(texts):
    with pytest.raises(UserError, match="words"):
        learn(texts)
