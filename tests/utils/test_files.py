import errno
import os
import stat

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
