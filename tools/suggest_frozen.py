"""A labelling round on the frozen features of finished runs: only a last layer is taught anew, with more labels.

    python tools/suggest_frozen.py --more 20 RUN ...

The labels added are those of `surelabel suggest`, or as many random ones (the mean of ten draws), or those of the
largest entropy. The last layer is scikit-learn's logistic regression on features of length 10; the accuracy is on the
test set.
"""

import argparse

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from surelabel import datasets
from surelabel.data.source import Source
from surelabel.equations import entropy
from surelabel.evaluate import predict
from surelabel.fit import load_network
from surelabel.network import Network
from surelabel.randomness import generator
from surelabel.runfolder import RunFolder
from surelabel.suggest import backbone_features, suggestions, unlabelled

BATCH, DRAWS = 500, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--more", type=int, default=20)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    options = parser.parse_args()
    rows = [one_run(RunFolder(path), options.more) for path in options.runs]
    random = np.array([row["random"] for row in rows])
    for how in rows[0]:
        above = np.array([row[how] for row in rows]) - random
        error = above.std(ddof=1) / len(rows) ** 0.5
        print(f"{how:10} {(above + random).mean():.1%}   above random {above.mean():+.1%} ± {error:.1%}")


def one_run(folder: RunFolder, more: int) -> dict[str, float]:
    run, network = folder.run(), load_network(folder)
    data = datasets.load(run.data, run.data_dir)
    assert data.test is not None
    test, labelled = features(network, data.test, np.arange(len(data.test))), folder.labelled()

    def accuracy(added: NDArray[np.int64]) -> float:
        index = np.concatenate([labelled, added])
        last = LogisticRegression(max_iter=3000).fit(features(network, data.train, index), data.train.labels[index])
        return float(last.score(test, data.test.labels))

    pool = unlabelled(data.train, labelled)
    uncertain = entropy(predict(network, data.train, pool, BATCH).probs).topk(more).indices.numpy()
    draws = [generator(number, "random labels").choice(pool, more, replace=False) for number in range(DRAWS)]
    found = {
        "before": accuracy(labelled[:0]),
        "suggested": accuracy(np.array([one.index for one in suggestions(folder.path, more)])),
        "random": float(np.mean([accuracy(draw) for draw in draws])),
        "entropy": accuracy(pool[uncertain]),
    }
    print(f"{folder.path.name}: " + "  ".join(f"{how} {share:.1%}" for how, share in found.items()), flush=True)
    return found


def features(network: Network, source: Source, index: NDArray[np.int64]) -> NDArray[np.float32]:
    return 10 * F.normalize(backbone_features(network, source, index, BATCH), dim=-1).numpy()


if __name__ == "__main__":
    main()
