import json
import tarfile

import numpy as np
import pytest
from PIL import Image

from surelabel.cli.main import main
from surelabel.data.images import folder, limits
from surelabel.data.shards import source as shards
from surelabel.data.shards import write as make_shards
from surelabel.utils.errors import UserError
from tests.helpers.images import picture, write_files


def make(place, out, size_mb=1, seed=0):
    return make_shards.make_shards(place, out, size_mb, seed, lambda done, total: None)


@pytest.fixture
def pictures(tmp_path):
    """30 training images of noise, 120 KB each, some unlabelled, and 6 test images."""
    noise = np.random.default_rng(0).integers(0, 256, (36, 200, 200, 3), dtype=np.uint8)
    images = [Image.fromarray(one) for one in noise]
    names = ["cat", "große Katze, weiß", "unlabelled"]
    write_files(tmp_path / "in", {f"train/{names[n % 3]}/{n}.v1.PNG": images[n] for n in range(30)})
    write_files(tmp_path / "in", {f"test/{names[n % 2]}/{n}.png": images[n] for n in range(30, 36)})
    return tmp_path / "in"


def test_make_shards_stores_every_image_and_class_in_the_given_size(pictures, tmp_path):
    counts, skipped = make(pictures, tmp_path / "out")
    assert (counts, skipped) == ({"train": 30, "test": 6}, ())
    sizes = [path.stat().st_size for path in sorted((tmp_path / "out").glob("train-*.tar"))]
    assert len(sizes) > 2
    assert all(0.8 * 2**20 < size < 1.3 * 2**20 for size in sizes[:-1])
    made, original = shards.load(tmp_path / "out"), folder.load(pictures)
    assert made.classes == original.classes == ("cat", "große Katze, weiß")
    for mine, theirs in ((made.train, original.train), (made.test, original.test)):
        everything = [s.samples(np.arange(len(s))) for s in (mine, theirs)]
        labels = {image.tobytes(): label for image, label in zip(everything[1], theirs.labels, strict=True)}
        assert [labels.pop(image.tobytes()) for image in everything[0]] == mine.labels.tolist()
        assert not labels


def test_make_shards_shuffles_by_seed_and_is_deterministic(pictures, tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        make(pictures, tmp_path / name, seed=seed)
    first, again, other = (sorted((tmp_path / name).glob("*.tar")) for name in "abc")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert [path.read_bytes() for path in first] != [path.read_bytes() for path in other]
    labels = shards.load(tmp_path / "a").train.labels
    assert len(set(labels[:6].tolist())) > 1


def test_make_shards_writes_webdataset_members(pictures, tmp_path):
    make(pictures, tmp_path / "out")
    names = json.loads((tmp_path / "out" / "classes.json").read_text())
    found = {}
    for path in (tmp_path / "out").glob("train-*.tar"):
        with tarfile.open(path) as archive:
            for member in archive:
                key, suffix = member.name.split(".")
                found.setdefault(key, {})[suffix] = archive.extractfile(member).read()
    originals = {path.read_bytes(): path.parent.name for path in (pictures / "train").rglob("*.PNG")}
    assert len(found) == 30
    for sample in found.values():
        name = originals[sample["png"]]
        assert sample.get("cls") == (None if name == "unlabelled" else str(names.index(name)).encode())


def test_make_shards_resumes_to_the_same_bytes(pictures, tmp_path, monkeypatch):
    make(pictures, tmp_path / "whole")
    write_shard, written = make_shards._write_shard, []

    def interrupted(place, out, shard, layout):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(shard.name)
        return write_shard(place, out, shard, layout)

    monkeypatch.setattr(make_shards, "_write_shard", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(pictures, tmp_path / "out")
    (tmp_path / "out" / ".train-000002.tar.abc").write_bytes(b"half")
    with pytest.raises(UserError, match="incomplete: run the same"):
        shards.load(tmp_path / "out")
    with pytest.raises(UserError, match="unfinished shards of other images"):
        make(pictures, tmp_path / "out", seed=3)
    monkeypatch.setattr(make_shards, "_write_shard", lambda *of: written.append(of[2].name) or write_shard(*of))
    make(pictures, tmp_path / "out")
    assert len(written) == len(set(written))
    whole = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir() if path.suffix == ".tar"}
    assert whole == {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.suffix == ".tar"}
    assert not list((tmp_path / "out").glob(".*abc"))
    assert not (tmp_path / "out" / shards.UNFINISHED).exists()


def test_make_shards_leaves_out_undecodable_files(tmp_path):
    write_files(tmp_path / "in", {f"cat/{n}.png": picture(n, (50, 50)) for n in range(4)} | {"cat/notes.txt": b"notes"})
    half = tmp_path / "in/cat/1.png"
    half.write_bytes(half.read_bytes()[:-2000])
    (tmp_path / "in/cat/nowhere.png").symlink_to(tmp_path / "absent.png")
    counts, skipped = make(tmp_path / "in", tmp_path / "out")
    assert counts == {"train": 3}
    assert [name for name, _ in skipped] == ["cat/1.png", "cat/notes.txt", "cat/nowhere.png"]
    assert "truncated" in skipped[0][1]


def test_make_shards_reads_labels_csv(tmp_path):
    write_files(tmp_path / "in", {f"{n}.png": picture(n) for n in range(4)})
    write_files(tmp_path / "in", {"labels.csv": b'path,label\n0.png,"a/b, c"\n2.png,dog\n'})
    make(tmp_path / "in", tmp_path / "out")
    data = shards.load(tmp_path / "out")
    assert data.classes == ("a/b, c", "dog")
    assert sorted(data.train.labels) == [-1, -1, 0, 1]


def test_make_shards_checks_arguments_before_writing(pictures, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    for out, more, message in (
        (tmp_path / "full", [], "exists already"),
        (pictures / "out", [], "the folder of the images"),
        (tmp_path / "out", ["--size-mb", "0"], "--size-mb: '0' is no whole number from 1"),
    ):
        assert main(["data", "make-shards", str(pictures), "-o", str(out), *more]) == 2
        assert message in capsys.readouterr().err
    assert main(["data", "make-shards", str(tmp_path / "absent"), "-o", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("most_files", "most_bytes"), [(4, 2**30), (100, 300_000)])
def test_make_shards_bounds_its_memory(pictures, tmp_path, monkeypatch, most_files, most_bytes):
    make(pictures, tmp_path / "whole", size_mb=64)
    held, map_files = [], make_shards.map_files

    def counted(job, place, files, **more):
        contents, skipped = map_files(job, place, files, **more)
        held.append((len(contents), sum(map(len, contents.values()))))
        return contents, skipped

    monkeypatch.setattr(make_shards, "map_files", counted)
    monkeypatch.setattr(make_shards, "HELD_FILES", most_files)
    monkeypatch.setattr(make_shards, "HELD_BYTES", most_bytes)
    make(pictures, tmp_path / "out", size_mb=64)
    assert sum(files for files, _ in held) == 36
    assert all(files <= most_files and size < most_bytes + 130_000 for files, size in held)
    for name in ("train-000000.tar", "test-000000.tar"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_make_shards_leaves_out_too_large_images(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "most_bytes", lambda: 5000)
    write_files(
        tmp_path / "in", {f"cat/{n}.png": picture(n) for n in range(3)} | {"cat/large.png": picture(3, (90, 90))}
    )
    size = (tmp_path / "in/cat/large.png").stat().st_size
    counts, skipped = make(tmp_path / "in", tmp_path / "out")
    assert counts == {"train": 3}
    assert skipped == (
        ("cat/large.png", f"{size:,} bytes are more than 5,000: $SURELABEL_IMAGE_MEGABYTES sets the limit"),
    )
