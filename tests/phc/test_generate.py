import os
import signal
import subprocess
import sys
from multiprocessing import active_children
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

from surelabel.phc import generate as module
from surelabel.phc.generate import generate
from surelabel.phc.geometry import draw
from surelabel.phc.solver import gaps
from surelabel.phc.store import classify, load
from surelabel.utils.errors import UserError

SAMPLES = 12  # 5 without a gap, 7 with: some fifty draws
CHUNK = 8  # of the tests, so that a run has several chunks

# Prints the workers' process ids once, for the test to see them end.
PROGRAM = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which tests in the background of a shell are begun without
from multiprocessing import active_children
from pathlib import Path
from surelabel.utils.errors import UserError
from surelabel.phc import generate as module
module._CHUNK = {CHUNK}
shown = []
def progress(draws, kept, expected):
    if not shown:
        print(*(child.pid for child in active_children()), flush=True)
        shown.append(True)
if len(sys.argv) > 2:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    module.generate(Path(sys.argv[1]), samples={SAMPLES}, workers=1, progress=progress)
except UserError as error:
    sys.exit(f"UserError: {{error}}")
"""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", CHUNK)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small set, made by two workers."""
    out = tmp_path_factory.mktemp("phc") / "two.npz"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", CHUNK)
        generate(out, samples=SAMPLES, workers=2)
    return out


def gone(process: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet counts as ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_the_set_is_the_first_draws_of_each_kind(made):
    crystals = load(made)
    has_gap = []
    while sum(has_gap) < 7 or len(has_gap) - sum(has_gap) < 5:
        has_gap.append(bool(gaps(draw(0, len(has_gap)).epsilon()).any()))
    expected = sorted([*np.flatnonzero(np.logical_not(has_gap))[:5], *np.flatnonzero(has_gap)[:7]])
    assert crystals.index.tolist() == expected
    assert crystals.draws == len(has_gap)
    assert np.array_equal(crystals.label, classify(crystals.gaps))


def test_nothing_is_left_beside_the_set(made):
    assert [path.name for path in made.parent.iterdir()] == ["two.npz"]
    assert not active_children()


def test_one_worker_gives_the_same_bytes_as_two(made, tmp_path):
    generate(tmp_path / "one.npz", samples=SAMPLES, workers=1)
    assert (tmp_path / "one.npz").read_bytes() == made.read_bytes()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for the workers in /proc")
def test_a_killed_run_goes_on_to_the_same_bytes(made, tmp_path):
    out = tmp_path / "killed.npz"
    run = subprocess.Popen([sys.executable, "-c", PROGRAM, out], stdout=subprocess.PIPE, text=True)
    workers = [int(number) for number in run.stdout.readline().split()]
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    assert workers
    deadline = monotonic() + 20
    while not all(gone(worker) for worker in workers):
        assert monotonic() < deadline, "workers outlive their parent"
        sleep(0.05)
    assert not out.exists()
    assert list((tmp_path / "killed.npz.parts").glob("*.npy"))
    generate(out, samples=SAMPLES, workers=2)
    assert out.read_bytes() == made.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["killed.npz"]


def test_a_worker_that_dies_is_an_error_that_loses_nothing(tmp_path):
    def kill_a_worker(*_):
        os.kill(active_children()[0].pid, signal.SIGKILL)

    with pytest.raises(UserError, match="a worker was killed"):
        generate(tmp_path / "set.npz", samples=SAMPLES, workers=2, progress=kill_a_worker)
    assert [path.name for path in tmp_path.iterdir()] == ["set.npz.parts"]
    assert list((tmp_path / "set.npz.parts").glob("*.npy"))


def test_an_interrupted_run_ends_at_once_and_can_go_on(tmp_path):
    run = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path / "set.npz"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stdout.readline()
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to the workers as well
    _, complaint = run.communicate(timeout=60)
    # The parent's alone. (It may have been in an exception handler, so that tracebacks do not count processes.)
    assert complaint.splitlines().count("KeyboardInterrupt") == 1
    assert complaint.strip().endswith("KeyboardInterrupt")
    assert list((tmp_path / "set.npz.parts").glob("*.npy"))
    assert not (tmp_path / "set.npz").exists()


def test_a_disk_without_room_is_an_error_that_loses_nothing(made, tmp_path):
    out = tmp_path / "full.npz"
    limit = made.stat().st_size - 1  # one byte too few for the set, more than enough for a chunk
    run = subprocess.run([sys.executable, "-c", PROGRAM, out, str(limit)], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.startswith(f"UserError: cannot write {out}")
    assert [path.name for path in tmp_path.iterdir()] == ["full.npz.parts"]
    generate(out, samples=SAMPLES, workers=1)
    assert out.read_bytes() == made.read_bytes()


def test_finished_chunks_are_not_solved_again_and_damaged_ones_are(tmp_path):
    parts = tmp_path / "set.npz.parts"
    module._open_parts(parts, module.Recipe(0, 0.0, "midpoint"))
    marked = np.zeros((CHUNK, 9))
    marked[4:, 2] = 33.0
    np.save(parts / "000000.npy", marked)
    (parts / "000001.npy").write_bytes(b"\x93NUMPY cut short")
    crystals = generate(tmp_path / "set.npz", samples=10, workers=1)
    assert (crystals.gaps[:, 2] == 33.0).sum() == 4
    assert crystals.index.max() >= CHUNK
    assert crystals.gaps[crystals.index >= CHUNK].max() < 33.0


def test_parts_of_other_settings_are_refused(tmp_path):
    module._open_parts(tmp_path / "set.npz.parts", module.Recipe(1, 0.0, "midpoint"))
    with pytest.raises(UserError, match="other settings"):
        generate(tmp_path / "set.npz", samples=SAMPLES, seed=2)
    assert not (tmp_path / "set.npz").exists()


def test_an_existing_file_is_refused_and_kept(tmp_path):
    out = tmp_path / "set.npz"
    out.write_text("mine")
    with pytest.raises(UserError, match="exists"):
        generate(out)
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"samples": 9}, "samples = 9"),
        ({"seed": -1}, "seed = -1"),
        ({"workers": 0}, "workers = 0"),
        ({"min_delta_eps": 19.0}, "min_delta_eps = 19"),
        ({"min_delta_eps": float("nan")}, "min_delta_eps = nan"),
        ({"grid": "fine"}, "'fine'"),
    ],
)
def test_impossible_requests_are_refused_before_any_work(tmp_path, arguments, complaint):
    with pytest.raises(UserError, match=complaint):
        generate(tmp_path / "set.npz", **arguments)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        generate(tmp_path / "file" / "set.npz")


def test_the_test_split_is_balanced_and_leaves_every_class_a_training_sample():
    label = np.repeat(np.arange(5), [5000, 3850, 1386, 700, 440])
    test = module._test_split(label, seed=0)
    assert np.bincount(label[test]).tolist() == [300] * 5
    assert not np.array_equal(test, module._test_split(label, seed=1))
    scarce = np.repeat(np.arange(5), [600, 500, 60, 3, 1])
    assert np.bincount(scarce[module._test_split(scarce, 0)], minlength=5).tolist() == [31, 31, 31, 2, 0]


def test_the_environment_of_the_caller_is_left_as_it_was(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with module._single_threaded_blas():
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
