from dataclasses import replace

import numpy as np
import torch

from surelabel.training import build, build_data


def loader(run, data, **views):
    run = build.resolve(replace(run, views=replace(run.views, **views)))
    return build.build_loader(run, data, build_data.build_split(run, data))


def test_loader_without_augmentation_yields_stored_images(tiny, digits_data):
    load = loader(tiny, digits_data, labelled="none", weak="none", strong="none")
    stored = {
        image.tobytes(): i for i, image in enumerate(digits_data.train.samples(np.arange(len(digits_data.train))))
    }
    for step in range(4):
        batch = load(step)
        found = [stored[image.numpy().tobytes()] for image in batch.labelled]
        assert set(found) <= set(load.labelled)
        assert batch.labels.tolist() == digits_data.train.labels[found].tolist()
        pool = [stored[image.numpy().tobytes()] for image in batch.weak]
        assert torch.equal(batch.weak, batch.strong)
        assert batch.hidden.tolist() == digits_data.train.labels[pool].tolist()


def test_loader_draws_every_training_image_once_per_pass(tiny, digits_data):
    load = loader(tiny, digits_data, weak="none")
    steps = len(digits_data.train) // (load.batch * load.ratio)
    seen = np.concatenate([load(step).weak.numpy() for step in range(steps)])
    assert len(np.unique(seen.reshape(len(seen), -1), axis=0)) >= len(seen) - 5  # digits holds a few equal images


def test_loader_draws_independently_for_each_view(tiny, digits_data):
    load = loader(tiny, digits_data, weak="weak", strong="weak")
    batch = load(0)
    assert not torch.equal(batch.weak, batch.strong)


def test_loader_labelled_batch_does_not_depend_on_pool_or_method(tiny, digits_data):
    first = loader(tiny, digits_data)
    other = loader(replace(tiny, method="supervised", batch=replace(tiny.batch, ratio=5)), digits_data)
    assert torch.equal(first(2).labelled, other(2).labelled)
    assert other(2).weak is None
