"""No command contacts anything, or leaves a file where nobody asked for one."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from surelabel.config.encoders import DEFAULT, missing
from tests.helpers.images import picture, write_files

# Runs one command after the other, and tells of every connection that Python is asked for.
COMMANDS = """
import socket, sys
from surelabel.cli.main import main

def told(event, given):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto") and given[0].family != socket.AF_UNIX:
        print("CONTACT", event, given)

sys.addaudithook(told)
for line in sys.argv[1:]:
    print(line, flush=True)
    assert main(line.split()) == 0, line
"""
PICTURES = [
    "fit pictures --out run --encoder {encoder} --steps 2 --network.name {network} --batch.labelled 4",
    "predict run pictures -o out.csv",
    "suggest run -n 1",
    "evaluate run pictures2",
    "export run --onnx run.onnx",
    "report run -o run.html",
    "data make-shards pictures -o shards",
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with pictures, where a process has its home, its temporary files and its cache."""
    for name in ("home", "tmp", "cache"):
        (tmp_path / name).mkdir()
    files = {f"{name}/{n}.png": picture(n + 10 * m, (32, 32)) for m, name in enumerate(("a", "b")) for n in range(6)}
    write_files(tmp_path / "pictures", files)
    write_files(tmp_path / "pictures" / "unlabelled", {f"{n}.png": picture(50 + n, (32, 32)) for n in range(4)})
    write_files(tmp_path / "pictures2", {f"{name}/1.png": picture(90, (32, 32)) for name in "ab"})
    monkeypatch.chdir(tmp_path)
    given = {"HOME": "home", "TMPDIR": "tmp", "SURELABEL_CACHE": "cache"}
    for name, folder in given.items():
        monkeypatch.setenv(name, str(tmp_path / folder))
    for name in ("XDG_CACHE_HOME", "ORT_DISABLE_TELEMETRY", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


HOMELY = (".cache", ".config")  # of matplotlib's fonts


def without_network():
    """Words before a command that let it run where no route leads anywhere."""
    words = ["unshare", "--net", "--map-root-user"]
    if not shutil.which("unshare") or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace can be made here")
    return words


def traced(log):
    """Words before a command that write the addresses to which it, or any library in it, would connect, into a file."""
    words = ["strace", "-f", "-qq", "-e", "trace=connect,sendto", "-o", str(log)]
    if not shutil.which("strace") or subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        return []
    return words


def left_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize(("encoder", "network"), [("none", "wrn-10-1"), ("efficientnet-lite0", "mlp-1-8")])
def test_commands_contact_nobody_and_leave_no_temporary_file(place, encoder, network):
    if missing(encoder if encoder != "none" else DEFAULT):
        pytest.skip("the pretrained network or onnxruntime is not installed")
    options = " --method fixmatch" if encoder != "none" else ""
    lines = [line.format(encoder=encoder, network=network) for line in PICTURES]
    lines[0] += options
    before = [*without_network(), *traced(place / "log")]
    ended = subprocess.run(
        [*before, sys.executable, "-c", COMMANDS, *lines], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "CONTACT" not in ended.stdout
    if (place / "log").exists():
        assert "AF_INET" not in (place / "log").read_text()
    assert left_in(place / "tmp") == []
    assert [name for name in left_in(place / "home") if "matplotlib" not in name and name not in HOMELY] == []


def test_onnxruntime_is_told_to_be_silent_whoever_imports_it(place):
    if find_spec("onnxruntime") is None:  # importing it here would leave a file itself
        pytest.skip("onnxruntime is not installed")
    program = "import surelabel.utils.onnx, onnxruntime"
    subprocess.run([*without_network(), sys.executable, "-c", program], check=True)
    assert left_in(place / "tmp") + left_in(place / "home") == []


def test_killed_command_leaves_nothing_in_the_temporary_folder(place):
    """What is half written lies beside what it becomes, where the next run removes it."""
    program = (
        "import os, signal\nfrom surelabel.utils.files import atomic_write\n"
        "with atomic_write('out.csv') as file:\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    assert left_in(place / "tmp") == []
    assert [name for name in os.listdir() if name.startswith(".out.csv.")]  # noqa: PTH208
    assert not Path("out.csv").exists()
