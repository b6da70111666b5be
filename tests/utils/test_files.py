import errno
import os
import socket
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from surelabel.utils.errors import UserError
from surelabel.utils.files import atomic_write


def test_atomic_write_makes_a_whole_file_with_usual_mode(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with atomic_write(path) as file:
        file.write("naïve\n")
        assert not path.exists()
    assert path.read_bytes() == "naïve\n".encode()
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt()])
def test_atomic_write_keeps_the_old_file_on_error(tmp_path, error):
    path = tmp_path / "file.bin"
    path.write_bytes(b"before")
    with pytest.raises(type(error)), atomic_write(path, "wb") as file:
        file.write(b"half")
        raise error
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_atomic_write_reports_a_full_disk(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("before")
    with pytest.raises(UserError, match=r"file\.txt: No space left"), atomic_write(path) as file:
        file.write("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_atomic_write_leaves_a_link_and_writes_what_it_leads_to(tmp_path):
    target, link, dangling = tmp_path / "deep" / "file", tmp_path / "link", tmp_path / "dangling"
    target.parent.mkdir()
    target.write_text("before")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "new" / "file")
    for path in (link, dangling):
        with atomic_write(path) as file:
            file.write("after")
        assert path.is_symlink()
        assert path.read_text() == path.resolve().read_text() == "after"


def test_atomic_write_keeps_the_permissions_of_a_file(tmp_path):
    path = tmp_path / "secret"
    path.touch(0o600)
    with atomic_write(path) as file:
        file.write("after")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_atomic_write_passes_through_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_write(path) as file:
        file.write("through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert list(tmp_path.iterdir()) == [path]


def test_atomic_write_writes_to_devices(tmp_path):
    for device, ends in ((Path("/dev/null"), nullcontext()), (Path("/dev/full"), pytest.raises(UserError))):
        link, before = tmp_path / device.name, device.stat()
        link.symlink_to(device)
        with ends, atomic_write(link) as file:
            file.write("gone")
        assert os.path.samestat(device.stat(), before)
        assert stat.S_ISCHR(device.stat().st_mode)


def test_atomic_write_refuses_folders_and_sockets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        for path, what in ((tmp_path, "a folder"), (Path("socket"), "a socket")):
            with pytest.raises(UserError, match=what), atomic_write(path) as file:
                file.write("never")
    assert stat.S_ISSOCK(Path("socket").stat().st_mode)


@pytest.mark.parametrize("out", ["/dev/stdout", "file"])
def test_atomic_write_joins_the_standard_output(tmp_path, out):
    program = (
        f"from surelabel.utils.files import atomic_write\nprint('before')\n"
        f"with atomic_write({out!r}) as file:\n    file.write('within\\n')\nprint('after')"
    )
    with (tmp_path / "file").open("wb") as stdout:
        subprocess.run([sys.executable, "-c", program], stdout=stdout, cwd=tmp_path, check=True)
    assert (tmp_path / "file").read_text() == "before\nwithin\nafter\n"
