import io
import os
import pickle
import signal
import tarfile
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from surelabel.cli.main import main
from surelabel.config.run import Batch, Evaluation, Network
from surelabel.data.arrays.source import ArraySource, user_data_set
from surelabel.data.loader import Loader
from surelabel.data.open import open_data
from surelabel.data.shards import source as shards
from surelabel.data.source import Subset, in_batches
from surelabel.methods.base import Pool
from surelabel.training import build, build_data
from surelabel.training.display import Display
from surelabel.training.loop import training_step
from surelabel.utils import rng as randomness
from surelabel.utils.distributed import ALONE, World
from surelabel.utils.errors import UserError
from surelabel.utils.signals import Stopped
from tests.data.shards.test_index import write
from tests.data.shards.test_samples import png
from tests.data.shards.test_tar import tar
from tests.helpers.images import picture, write_files
from tests.helpers.runs import fit_folder


def encoded(number, size=(12, 10), kind="PNG"):
    file = io.BytesIO()
    picture(number, size).save(file, kind)
    return file.getvalue()


def class_of(number):
    return str(number % 3).encode()


def members(numbers, size=(12, 10)):
    images = {f"{number:04}.png": encoded(number, size) for number in numbers}
    return images | {f"{number:04}.cls": class_of(number) for number in numbers if number % 5}


@pytest.fixture
def some(tmp_path):
    """Ninety training images in three shards, in order, and nine test images."""
    parts = {f"train-{shard}.tar": members(range(30 * shard, 30 * shard + 30)) for shard in range(3)}
    test = {f"{number}.png": encoded(number) for number in range(1, 9)}
    test |= {f"{number}.cls": class_of(number) for number in range(1, 9)}
    return write(tmp_path / "shards", parts | {"val-0.tar": test})


def pixels(number, size=(12, 10)):
    return np.asarray(picture(number, size)).transpose(2, 0, 1)


def test_shards_samples_equal_pillows(some):
    data = open_data(str(some))
    assert (len(data.train), len(data.test), data.classes) == (90, 8, ("0", "1", "2"))
    order = np.random.default_rng(0).permutation(90)
    images = data.train.samples(order)
    assert images.dtype == np.uint8
    for image, number in zip(images, order, strict=True):
        np.testing.assert_array_equal(image, pixels(number))
    expected = [number % 3 if number % 5 else -1 for number in range(90)]
    np.testing.assert_array_equal(data.train.labels, expected)
    np.testing.assert_array_equal(data.test.samples(np.arange(8)), [pixels(number) for number in range(1, 9)])


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "TIFF"])
def test_other_kinds_and_sizes_are_brought_to_one_size_as_pillow_does(tmp_path, kind):
    suffix = {"JPEG": "jpeg", "TIFF": "tif"}.get(kind, kind.lower())
    contents = {f"{number}.{suffix}": encoded(number, (20 + number, 16), kind) for number in range(4)}
    source = shards.load(write(tmp_path / "s", {"a.tar": contents}), size=8).train
    for number, image in enumerate(source.samples(np.arange(4))):
        with Image.open(io.BytesIO(contents[f"{number}.{suffix}"])) as opened:
            expected = ImageOps.fit(opened.convert("RGB"), (8, 8), Image.Resampling.BICUBIC)
        np.testing.assert_array_equal(image, np.asarray(expected).transpose(2, 0, 1))


def test_images_take_the_size_of_half_of_them_or_32_and_one_channel_if_all_are_grey(tmp_path):
    mixed = {"0.png": png((5, 5)), "1.png": png((6, 6)), "2.png": png((7, 7))}
    assert shards.load(write(tmp_path / "a", {"a.tar": mixed})).train.shape == (3, 32, 32)
    grey = {"0.png": png((5, 4), "L"), "1.png": png((5, 4), "L")}
    assert shards.load(write(tmp_path / "b", {"a.tar": grey})).train.shape == (1, 4, 5)
    assert shards.load(tmp_path / "b", shape=(3, 9, 8)).train.shape == (3, 9, 8)


def test_shards_prefetch_decodes_once(some, monkeypatch):
    source = shards.load(some).train
    decoded = []
    decode = shards.decode
    monkeypatch.setattr(shards, "decode", lambda *a, **k: decoded.append(1) or decode(*a, **k))
    index = np.arange(20)
    source.prefetch(index)
    source.prefetch(index)
    np.testing.assert_array_equal(source.samples(index)[7], pixels(7))
    assert len(decoded) == 20
    for start in range(10):
        source.prefetch(np.arange(start, start + 2))
    assert len(source._pending) == shards.MOST_AHEAD
    np.testing.assert_array_equal(source.samples(np.arange(2))[1], pixels(1))


def test_batches_are_read_ahead_and_are_those_asked_for(some):
    source = shards.load(some).train
    index = np.arange(90)[::-1].copy()
    batches = list(in_batches(source, index, 40))
    assert [len(batch) for batch in batches] == [40, 40, 10]
    np.testing.assert_array_equal(np.concatenate(batches), source.samples(index))


def test_shards_prefetch_works_on_a_subset(some):
    whole = shards.load(some).train
    part = Subset(whole, np.arange(60, 20, -1))
    assert part.block_size == whole.block_size == shards.BLOCK
    assert len(list(in_batches(part, np.arange(9), 4))) == 3
    part.prefetch(np.array([0, 5]))
    assert list(whole._pending) == [np.array([60, 55]).tobytes()]
    np.testing.assert_array_equal(part.samples(np.array([0, 5])), whole.samples(np.array([60, 55])))


def run_of(tiny, place, **changes):
    return build.resolve(replace(tiny, data=str(place), labels=6, batch=Batch(3, 4), **changes))


def loader_of(run, data, world=ALONE):
    return replace(build.build_loader(run, data, build_data.build_split(run, data)), world=world)


@pytest.mark.parametrize("method", ["fixmatch", "supervised", "paws"])
def test_shards_prefetch_the_next_step(tiny, some, method):
    run = run_of(tiny, some, method=method)
    through, at_once = (loader_of(run, shards.load(some)) for _ in range(2))
    batches = [through(step) for step in range(4)]
    waiting = list(through.source._pending)
    after = through(4)
    assert waiting
    assert not set(waiting) & set(through.source._pending)
    for mine, theirs in ((batches[3], at_once(3)), (after, at_once(4))):
        for name, value in vars(mine).items():
            assert torch.equal(value, getattr(theirs, name)) if isinstance(value, torch.Tensor) else True


def losses(run, data, steps=6):
    method = build.build_method(run, len(data.train))
    loader = loader_of(run, data)
    state = build.build_state(run, build.build_network(run, build_data.task_of(data)), method, Pool.of(loader))
    state.network.train()
    return [
        training_step(method, state.network, state, loader(step), torch.autograd.backward).total.item()
        for step in range(steps)
    ]


class InMemory(ArraySource):
    """The same images as an array, taken in the order of shards."""

    block_size = shards.BLOCK

    def prefetch(self, index):
        pass


@pytest.mark.parametrize("window", [randomness.WINDOW, 64])
@pytest.mark.parametrize("method", ["fixmatch", "paws"])
def test_training_on_shards_has_the_losses_of_the_same_images_in_memory(tiny, some, monkeypatch, method, window):
    monkeypatch.setattr(randomness, "WINDOW", window)
    data = shards.load(some)
    kind = ArraySource if window > len(data.train) else InMemory
    images = kind(data.train.samples(np.arange(90)), data.train.labels, data.classes, "NCHW")
    run = run_of(tiny, some, method=method)
    assert losses(run, data) == losses(run, user_data_set("memory", images, None))


def test_shards_epoch_takes_every_image_once(some, monkeypatch):
    monkeypatch.setattr(randomness, "WINDOW", 64)
    data = shards.load(some)
    loader = Loader(data.train, np.arange(6), 0, 2, 5, torch.device("cpu"), *(lambda images, draws: images,) * 3)
    seen = np.concatenate([loader.indices(step)[1] for step in range(18)])
    assert sorted(seen[:90]) == sorted(seen[90:]) == list(range(90))
    assert not np.array_equal(seen[:90], seen[90:])
    window = np.sort(seen[:64])
    assert (np.diff(window) > 1).sum() <= 2  # two runs of 32, of which one may go round the end


def test_shards_two_ranks_see_the_batch_of_one(tiny, some):
    run = run_of(tiny, some, method="fixmatch")
    run = replace(run, batch=Batch(4, 3))
    data = shards.load(some)
    whole = loader_of(run, data)(5)
    halves = [loader_of(run, shards.load(some), World(rank, 2))(5) for rank in (0, 1)]
    for name in ("labelled", "labels", "weak", "strong", "hidden"):
        assert torch.equal(torch.cat([getattr(half, name) for half in halves]), getattr(whole, name)), name


def test_shards_source_can_be_pickled(some):
    source = shards.load(some).train
    source.prefetch(np.arange(4))
    copy = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(copy.samples(np.arange(90)), source.samples(np.arange(90)))


def damaged(tmp_path, wrong, count=60):
    """Images whose headers are fine, and whose pixels are not for the numbers in `wrong`."""
    contents = members(range(count))
    for number in wrong:
        image = bytearray(contents[f"{number:04}.png"])
        image[60:90] = bytes(30)
        contents[f"{number:04}.png"] = bytes(image)
    return write(tmp_path / "damaged", {"a.tar": contents})


@pytest.mark.filterwarnings("ignore:.*stands in for it")
def test_shards_replace_an_undecodable_image(tmp_path):
    source = shards.load(damaged(tmp_path, [7, 13, 59])).train
    with pytest.warns(UserWarning, match=r"a\.tar, 0007\.png cannot be decoded") as told:
        source.samples(np.arange(60))
    assert len(told) == 4  # 13 is tried for itself and for 7
    # 7 is of class 1, as is 13, which is damaged too, then 16; after 59, of class 2, comes 2.
    with warnings.catch_warnings(action="error"):
        images = source.samples(np.array([7, 8, 13, 59, 7]))
    for image, number, stand_in in zip(images, [7, 8, 13, 59, 7], [16, 8, 16, 2, 16], strict=True):
        np.testing.assert_array_equal(image, pixels(stand_in))
        assert source.labels[number] == source.labels[stand_in]


@pytest.mark.filterwarnings("ignore:.*stands in for it")
@pytest.mark.parametrize(
    ("wrong", "count", "message"),
    [(range(1, 40), 60, r"nor can \d+ others"), ([2], 3, "nor can any other of its class")],
)
def test_too_many_images_that_cannot_be_decoded_end_the_run(tmp_path, wrong, count, message):
    with pytest.raises(UserError, match=message):
        shards.load(damaged(tmp_path, wrong, count)).train.samples(np.arange(count))


def test_shards_stop_when_a_shard_changes(some):
    source = shards.load(some).train
    os.utime(some / "train-1.tar", (1, 1))
    with pytest.raises(UserError, match=r"train-1\.tar was changed since the run began"):
        source.samples(np.arange(90))
    (some / "train-1.tar").unlink()
    source.prefetch(np.arange(30, 40))
    with pytest.raises(UserError, match=r"train-1\.tar cannot be read any more"):
        source.samples(np.arange(30, 40))


def test_shards_raise_a_workers_failure(some, monkeypatch):
    source = shards.load(some).train

    def no_memory(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr(shards, "decode", no_memory)
    source.prefetch(np.arange(20))
    with pytest.raises(MemoryError, match="no room"):
        source.samples(np.arange(20))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["train-0.tar", "test-0.tar", "val-0.tar"], "not both"),
        (["train-0.tar", "extra-0.tar"], "It has extra-0.tar"),
        (["val-0.tar"], "It has val-0.tar"),
        (["a.tar", "b.tar.gz"], r"b\.tar\.gz is compressed"),
    ],
)
def test_shards_that_would_be_passed_over_are_refused(tmp_path, names, message):
    with pytest.raises(UserError, match=message):
        open_data(str(write(tmp_path / "s", dict.fromkeys(names, members(range(3))))))


def test_shards_without_a_part_in_their_names_are_all_for_training(tmp_path):
    data = open_data(str(write(tmp_path / "s", {"a.tar": members(range(3)), "b.tar": members(range(3, 6))})))
    assert (len(data.train), data.test) == (6, None)


def test_shards_are_not_a_folder_with_an_archive(tmp_path):
    write_files(tmp_path, {"cat/a.png": picture(0), "dog/b.png": picture(1)})
    write(tmp_path, {"c.tar": members(range(3))})
    data = open_data(str(tmp_path))
    assert len(data.train) == 2
    assert data.train.skipped == (("c.tar", "not named as an image"),)


def test_imagenet_may_be_in_shards(some):
    data = open_data("imagenet", str(some))
    assert data.train.shape == (3, 224, 224)


def test_damaged_archives_are_refused_before_anything_is_trained(some, tiny):
    content = (some / "train-2.tar").read_bytes()
    (some / "train-2.tar").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=r"train-2\.tar is cut off"):
        fit_folder(run_of(tiny, some))


def test_shards_are_never_unpacked(tmp_path):
    traps = {"../escaped.png": png(), str(tmp_path / "absolute.png"): png(), "0.png": png(), "a.png/b.png": png()}
    kinds = [("trap.png", tarfile.SYMTYPE, "/etc"), ("trap.png/x.png", tarfile.REGTYPE, "")]
    place = write(tmp_path / "s", {})
    (place / "a.tar").write_bytes(tar(traps, kinds=kinds))
    before = sorted(tmp_path.rglob("*"))
    data = shards.load(place)
    assert len(data.train) == 2
    assert len(data.train.skipped) == 4
    assert [path for path in sorted(tmp_path.rglob("*")) if path not in before] == [place / ".surelabel-index"]


@pytest.mark.slow
def test_shards_run_resumes_bit_for_bit(some, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(randomness, "WINDOW", 64)
    run = run_of(tiny, some, method="fixmatch", steps=12)
    whole = fit_folder(replace(run, out=str(tmp_path / "whole")))
    shown = Display.step

    def stop_at(self, now):
        shown(self, now)
        if now == 7:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Display, "step", stop_at)
    with pytest.raises(Stopped):
        fit_folder(run)
    monkeypatch.setattr(Display, "step", shown)
    resumed = fit_folder(run, resume=True)
    for name in ("weights.safetensors", "metrics.jsonl", "result.json"):
        assert (whole.path / name).read_bytes() == (resumed.path / name).read_bytes(), name


def test_a_run_on_shards_from_end_to_end(tmp_path, tiny, capsys):
    """Made from a folder, trained on, evaluated, and predicted from."""
    pictures = {f"train/{name}/{n}.png": picture(n + 40 * k) for k, name in enumerate("ab") for n in range(20)}
    pictures |= {f"test/{name}/{n}.png": picture(n + 40 * k) for k, name in enumerate("ab") for n in range(4)}
    write_files(tmp_path / "pictures", pictures | {"train/a/broken.png": b"broken"})
    place = tmp_path / "shards"
    assert main(["data", "make-shards", str(tmp_path / "pictures"), "-o", str(place), "--size-mb", "1"]) == 0
    assert "left out: train/a/broken.png: not an image" in capsys.readouterr().out
    run = replace(tiny, data=str(place), labels=8, steps=6, batch=Batch(4, 2), network=Network("wrn-10-1"))
    run = replace(run, evaluation=Evaluation(every=3))
    whole = fit_folder(run)
    assert main(["predict", str(whole.path), str(place), "-o", str(tmp_path / "out.csv")]) == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1 + 8
    assert main(["evaluate", str(whole.path)]) == 0
    assert "On 8 test samples" in capsys.readouterr().out
