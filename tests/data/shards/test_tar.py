import contextlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.data.shards.tar import read_members
from surelabel.utils.errors import UserError
from tests.helpers.shards import tar

LONG = "folder/" * 30 + "ü" * 40 + ".png"
CONTENTS = {"a.txt": b"", "b/c.jpg": b"x" * 513, LONG: b"long", "./d.png": bytes(1024), "é.png": b"e", "z" * 100: b"z"}


def read(content):
    """The members of an archive with these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.tar")
        path.write_bytes(content)
        return list(read_members(path))


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_read_members_finds_what_tarfile_wrote(form):
    content = tar(CONTENTS, form, [("folder/", tarfile.DIRTYPE, "")])
    *files, folder = read(content)
    assert {m.name: content[m.offset : m.offset + m.size] for m in files} == CONTENTS
    assert {m.kind for m in files} == {"file"}
    assert folder.kind == "folder"


@pytest.mark.parametrize("form", ["gnu", "ustar", "pax", "v7"])
def test_read_members_finds_what_the_tar_command_wrote(tmp_path, form):
    names = ["a.txt", "deep/er/b.txt"] + ([] if form == "v7" else ["deep/" + "n" * 90 + "/" + "m" * 80])
    for name in names:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
    made = tmp_path / "x.tar"
    subprocess.run(["tar", f"--format={form}", "-cf", made, "-C", tmp_path / "in", "."], check=True)
    content = made.read_bytes()
    found = {
        m.name.removeprefix("./"): content[m.offset : m.offset + m.size] for m in read_members(made) if m.kind == "file"
    }
    assert found == {name: name.encode() for name in names}


def test_read_members_tells_kinds_apart():
    kinds = [
        ("l", tarfile.SYMTYPE, "/etc/passwd"),
        ("h", tarfile.LNKTYPE, "a"),
        ("d", tarfile.CHRTYPE, ""),
        ("f/", b"5", ""),
    ]
    found = read(tar({"a": b"1"}, kinds=kinds))
    assert [member.kind for member in found] == ["file", "link", "link", "other", "folder"]


@pytest.mark.parametrize("cut", [1, 511, 600, 1023])
def test_read_members_rejects_a_truncated_archive(cut):
    content = tar({"a": b"x" * 600, "b": b"y"})[: 512 * 5]
    assert len(read(content + bytes(1024))) == 2
    with pytest.raises(UserError, match="is cut off"):
        read(content[: len(content) - cut])
    with pytest.raises(UserError, match="no end-of-archive mark"):
        read(content)


def test_read_members_rejects_archives_joined_by_cat():
    with pytest.raises(UserError, match="continues after its end"):
        read(tar({"a": b"1"}) + tar({"b": b"2"}))


def header(size, kind=tarfile.REGTYPE):
    """A header with any size, also one that octal digits cannot express."""
    block = bytearray(tarfile.TarInfo("a.jpg").tobuf(tarfile.GNU_FORMAT))
    block[124:136] = (b"\xff" if size < 0 else b"\x80") + size.to_bytes(11, "big", signed=True)
    block[156:157] = kind
    return mended(bytes(block), 0)


def mended(content, number):
    """The archive with the checksum of header `number` corrected."""
    start = 512 * number
    block = bytearray(content[start : start + 512])
    block[148:156] = b"%06o\0 " % (sum(block) - sum(block[148:156]) + 8 * 32)
    return content[:start] + bytes(block) + content[start + 512 :]


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, b"?"])
@pytest.mark.parametrize("size", [2**80, 2**60, 2**17, -1, -512, -(2**60)])
def test_read_members_rejects_impossible_sizes(size, kind):
    with pytest.raises(UserError, match=r"x\.tar"):
        read(header(size, kind) + bytes(2048))


def test_read_members_rejects_other_hostile_archives():
    sparse = bytearray(header(0, tarfile.GNUTYPE_SPARSE))
    sparse[482] = 1  # its map continues beyond the end of the archive
    wrong = bytearray(tar({"a": b"1", "b": b"2"}))
    wrong[1024] ^= 1  # the second header
    for content in (header(0, tarfile.XHDTYPE) * 5000, mended(bytes(sparse), 0), bytes(wrong)):
        with pytest.raises(UserError, match=r"x\.tar is damaged"):
            read(content)


def test_read_members_rejects_sparse_members(tmp_path):
    with (tmp_path / "s").open("wb") as file:
        file.truncate(2**20)
        file.seek(2**19)
        file.write(b"x")
    for form in ("gnu", "pax"):
        made = tmp_path / f"{form}.tar"
        subprocess.run(["tar", "-S", f"--format={form}", "-cf", made, "-C", tmp_path, "s"], check=True)
        with pytest.raises(UserError, match="sparse"):
            list(read_members(made))


def test_read_members_rejects_other_and_missing_files(tmp_path):
    with pytest.raises(UserError, match="not a tar archive"):
        read(b"no archive at all" * 100)
    with pytest.raises(UserError, match="cannot be read"):
        list(read_members(tmp_path / "absent.tar"))


GOOD = {form: tar(CONTENTS, form) for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)}


@given(st.sampled_from(sorted(GOOD)), st.integers(0, 14), st.integers(0, 511), st.binary(min_size=1, max_size=16))
def test_read_members_survives_changed_headers(form, number, place, change):
    good = GOOD[form]
    start = 512 * number + place
    changed = good[:start] + change + good[start + len(change) :]
    for content in (changed, mended(changed, number)):
        try:
            found = read(content)
        except UserError:
            continue
        assert all(0 <= m.offset <= len(content) for m in found)
        assert all(m.offset + m.size <= len(content) for m in found if m.kind == "file")


@given(st.binary(max_size=2000))
def test_read_members_survives_any_bytes(content):
    with contextlib.suppress(UserError):
        read(content)
