"""What an encoder gains by being trained further, by its share of the learning rate: a tenth of an hour on one core.

    python tools/compare_tuning.py CIFAR_DIR [SHARE ...]

EfficientNet-Lite0 on CIFAR-10's pictures at 64 pixels, trained on 100 labels (supervised, 60 steps), one draw. Prints
the accuracy on 200 other pictures; a share of 0 trains the head only.
"""

import sys
import time
from dataclasses import replace

from rich.console import Console

from surelabel.config.recipes import trained_encoder
from surelabel.config.run import Batch, Evaluation, Tuning
from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.data.open import open_data
from surelabel.data.source import DataSet
from surelabel.inference.trained_run import fit
from surelabel.training.components import Components
from surelabel.utils.rng import generator

LABELS, TESTED = 100, 200


def drawn(cifar: str) -> DataSet:
    """So many labelled pictures, and others to test on."""
    whole = open_data("cifar10", cifar).train
    index = generator(0, "tuning").permutation(len(whole))[: LABELS + TESTED]
    pictures, labels = whole.samples(index), whole.labels[index]
    parts = (slice(0, LABELS), slice(LABELS, None))
    return user_data_set("tuning", *(ArraySource(pictures[part], labels[part], whole.classes) for part in parts))


def main(cifar: str, *shares: str) -> None:
    data = Components(drawn(cifar))
    print("| share of the learning rate | accuracy | s |\n|---|---|---|")
    for share in map(float, shares or ("0", "0.01", "0.1")):
        config = trained_encoder("supervised", "custom", "all", "efficientnet-lite0")
        config = replace(config, steps=60, image_size=64, threads=1, batch=Batch(16), evaluation=Evaluation(every=60))
        start = time.perf_counter()
        run = fit(replace(config, tuning=Tuning(share)), components=data, console=Console(quiet=True), save=False)
        seconds = time.perf_counter() - start
        print(f"| {share:g} | {run.metrics['averaged']['accuracy']:.1%} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
