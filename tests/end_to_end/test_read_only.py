"""A run folder that cannot be written can be read."""

import shutil
import subprocess
import sys

import pytest

from surelabel.inference import crossfit
from surelabel.inference.trained_run import fit
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import Busy
from tests.helpers.runs import fit_folder
from tests.helpers.tables import table_run

# Root may write where others may not, but not in a folder that is mounted for reading only.
MOUNT = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && "$@"'
COMMANDS = """
import sys
from surelabel.cli.main import main
print(*(main(line.split()) for line in sys.argv[1:]))
"""
READING = [
    "evaluate run held.csv",
    "predict run table.csv -o out.csv",
    "suggest run -n 2",
    "report run -o page.html",
    "export run --onnx run.onnx",
]


def write_table(path, rows):
    path.write_text("a,b,label\n" + "".join(f"{n},{n * n},{'xy'[n % 2] if n % 3 else ''}\n" for n in rows))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run on a table, beside another one to evaluate on."""
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "table.csv", range(60))
    write_table(tmp_path / "held.csv", range(100, 160))
    return table_run(tmp_path / "table.csv", tmp_path / "run", labels="all", method="uda")


def read_only(folder):
    """Words before a command for which this folder cannot be written."""
    words = ["unshare", "--mount", "--map-root-user", "sh", "-c", MOUNT, str(folder)]
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no folder can be mounted here")
    assert subprocess.run([*words, "touch", str(folder / "x")], capture_output=True, check=False).returncode
    return words


@pytest.mark.slow
def test_every_reading_command_reads_a_folder_that_cannot_be_written(run):
    folder = fit_folder(run).path
    words = [*read_only(folder), sys.executable, "-c", COMMANDS, *READING, "fit --resume run"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines()[-1] == "0 0 0 0 0 2", ended.stderr
    assert "cannot write run: Read-only file system" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_two_processes_do_not_leave_labels_out_of_one_run(run, monkeypatch):
    def meanwhile(*_):
        with RunFolder(run.folder).locked():
            pytest.fail("another process could begin the same runs")

    monkeypatch.setattr(crossfit, "_leave_out", meanwhile)
    with pytest.raises(Busy, match=f"training in {run.folder}: wait for it"):
        fit(run, crossfit=2)
