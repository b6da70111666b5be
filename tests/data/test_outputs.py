"""Runs, caches and results in a folder of data are no data."""

import pytest

from surelabel.cli.main import main
from surelabel.data.images.layout import files_below, read_layout
from surelabel.data.outputs import holds_outputs_only, is_output
from surelabel.data.probe import looks_photographic
from surelabel.data.shards.source import are_in
from surelabel.utils.cache import writable_cache
from tests.helpers.images import picture, png, write_files


def write_run(folder):
    write_files(folder, {"config.yaml": b"", "task.json": b"", "report.html": b"", "plot.png": png()})


def names(folder):
    return sorted(file.relative_to(folder).as_posix() for file in files_below(folder))


def test_runs_and_caches_are_no_classes(tmp_path, monkeypatch):
    write_files(tmp_path, {"cat/1.png": png(), "dog/2.png": png()})
    before = read_layout(tmp_path)
    write_run(tmp_path / "runs" / "one")
    write_run(tmp_path / "runs" / "sweep" / "two")
    write_files(tmp_path, {"runs/sweep/two.log": b""})
    write_run(tmp_path / "mine")
    write_run(tmp_path / "cat" / "deep" / "run")
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    write_files(writable_cache(), {"left.png": png()})
    assert is_output(tmp_path / "cache")
    assert is_output(tmp_path / "mine")
    assert not is_output(tmp_path / "cat")
    assert read_layout(tmp_path) == before
    assert names(tmp_path) == ["cat/1.png", "dog/2.png"]


def test_runs_beside_train_and_test_are_no_split(tmp_path):
    write_files(tmp_path, {"train/a/1.png": png(), "train/b/2.png": png(), "test/a/3.png": png()})
    write_run(tmp_path / "runs" / "one")
    assert read_layout(tmp_path).classes == ("a", "b")


def test_folder_of_images_beside_a_run_is_a_class(tmp_path):
    write_files(tmp_path, {"runs/1.png": png()})
    write_run(tmp_path / "runs" / "one")
    assert not holds_outputs_only(tmp_path / "runs")
    assert read_layout(tmp_path).class_of == {"runs/1.png": "runs"}
    (tmp_path / "empty").mkdir()
    assert not holds_outputs_only(tmp_path / "empty")


def test_cache_of_another_program_is_known_by_its_signature(tmp_path):
    write_files(tmp_path, {"a/CACHEDIR.TAG": b"Signature: 8a477f597d28d172789f06886806bc55\n", "b/CACHEDIR.TAG": b""})
    assert is_output(tmp_path / "a")
    assert not is_output(tmp_path / "b")


def test_runs_beside_shards_are_no_images(tmp_path):
    write_files(tmp_path, {"train-0.tar": b""})
    write_run(tmp_path / "runs" / "one")
    assert are_in(tmp_path)
    write_files(tmp_path, {"cat/1.png": b""})
    assert not are_in(tmp_path)


def test_plots_in_a_run_choose_no_recipe(tmp_path):
    write_files(tmp_path, {f"cat/{n}.png": png((4, 4)) for n in range(2)})
    for n in range(5):
        write_run(tmp_path / "runs" / str(n))
        write_files(tmp_path / "runs" / str(n), {"plot.png": png((100, 100), "RGB")})
    assert not looks_photographic(tmp_path)


@pytest.mark.slow
def test_run_in_the_folder_of_its_pictures_ends_and_is_read_again(tmp_path, monkeypatch, capsys):
    files = {f"{name}/{n}.png": picture(n, (8, 8)) for name in ("cat", "dog", "unlabelled") for n in range(4)}
    write_files(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    options = ["--encoder", "none", "--steps", "2", "--network.name", "wrn-10-1", "--batch.labelled", "2"]
    for seed in "01":
        assert main(["fit", ".", *options, "--seed", seed]) == 0
    (run, _) = sorted(tmp_path.glob("runs/*"))
    assert main(["predict", str(run), ".", "-o", "out.csv"]) == 0
    assert main(["suggest", str(run), "-n", "1"]) == 0
    assert "12 predictions" in capsys.readouterr().out
