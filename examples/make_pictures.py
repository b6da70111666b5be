"""Write a data set out as a folder of PNG files with a table of a few labels: what a newcomer with pictures has.

    python examples/make_pictures.py pictures [--count 5000] [--labels 60] [--data cifar10 --data-dir DIR]
    surelabel fit pictures/all --labels pictures/labels.csv

Only `labels.csv` is shown to surelabel; `truth.csv` has the classes of all pictures, to see how well it did:

    python examples/make_pictures.py pictures --check RUN/predictions.csv
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from PIL import Image

from surelabel.data.open import open_data


def write(folder: Path, count: int, labelled: int, sets: int, data: str, data_dir: str | None) -> None:
    source = open_data(data, data_dir).train
    random = np.random.default_rng(0)
    chosen = np.sort(random.permutation(len(source))[:count])
    (folder / "all").mkdir(parents=True)
    names = [f"{number:05}.png" for number in chosen]
    for name, image in zip(names, source.samples(chosen), strict=True):
        Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(folder / "all" / name)
    truth = [(name, source.classes[label]) for name, label in zip(names, source.labels[chosen], strict=True)]
    table(folder / "truth.csv", truth)
    print(f"{count} pictures in {folder / 'all'}")
    each = labelled // len(source.classes)
    for number in range(sets):
        part = slice(number * each, (number + 1) * each)
        given = [row for kind in source.classes for row in [row for row in truth if row[1] == kind][part]]
        path = folder / (f"labels-{number}.csv" if number else "labels.csv")
        table(path, given)
        print(f"{len(given)} labels in {path}")


def table(path: Path, rows: list[tuple[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("path", "label"), *rows])


def check(folder: Path, predictions: Path) -> None:
    """How many of the predictions are right, and how sure they were."""
    with (folder / "truth.csv").open(encoding="utf-8") as file:
        truth = {row["path"]: row["label"] for row in csv.DictReader(file)}
    with predictions.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    right = np.array([truth[row["sample"]] == row["class"] for row in rows])
    sure = np.array([float(row["confidence"]) for row in rows])
    print(f"{len(rows)} unlabelled pictures: {right.mean():.1%} right, {sure.mean():.1%} mean confidence")
    surest = np.argsort(-sure)[: len(rows) // 2]
    print(
        f"of the half that it is surest of: {right[surest].mean():.1%} right, {sure[surest].mean():.1%} mean confidence"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--labels", type=int, default=60)
    parser.add_argument("--sets", type=int, default=1, help="so many sets of labels, none of which shares a picture")
    parser.add_argument("--data", default="fashion-mnist", choices=["fashion-mnist", "mnist", "cifar10", "cifar100"])
    parser.add_argument("--data-dir", help="where its files are; those of Fashion-MNIST may be where Debian puts them")
    parser.add_argument("--check", type=Path, metavar="CSV", help="compare predictions with the truth instead")
    options = parser.parse_args()
    if options.check:
        check(options.folder, options.check)
    else:
        write(options.folder, options.count, options.labels, options.sets, options.data, options.data_dir)


if __name__ == "__main__":
    main()
