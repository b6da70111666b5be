import contextlib
import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.data.shards.tar import read_members
from surelabel.utils.errors import UserError

LONG = "folder/" * 30 + "ü" * 40 + ".png"
CONTENTS = {"a.txt": b"", "b/c.jpg": b"x" * 513, LONG: b"long", "./d.png": bytes(1024), "é.png": b"e", "z" * 100: b"z"}


def tar(contents, form=tarfile.GNU_FORMAT, kinds=()):
    """The bytes of an archive; kinds are (name, type, target) of members without content."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as made:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
        for name, kind, target in kinds:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            made.addfile(member)
    return file.getvalue()


def read(content):
    """The members found in these bytes, by a file of their own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.tar")
        path.write_bytes(content)
        return list(read_members(path))


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_and_places_are_those_that_pythons_own_reader_finds(form):
    content = tar(CONTENTS, form, [("folder/", tarfile.DIRTYPE, "")])
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        expected = [(member.name, member.offset_data, member.size, member.isreg()) for member in archive]
    found = read(content)
    assert [(m.name.rstrip("/"), m.offset, m.size, m.kind == "file") for m in found] == expected
    for member, original in zip(found, CONTENTS.values(), strict=False):
        assert content[member.offset : member.offset + member.size] == original


@pytest.mark.parametrize("form", ["gnu", "ustar", "pax", "v7"])
def test_archives_of_the_tar_command_are_read(tmp_path, form):
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


def test_sizes_too_large_for_octal_digits_are_read():
    content = bytearray(tar({"a": b"abc"}))
    content[124:136] = b"\x80" + (3).to_bytes(11, "big")
    content[148:156] = b"%06o\0 " % (sum(content[:512]) - sum(content[148:156]) + 8 * 32)
    assert read(bytes(content))[0].size == 3


def test_links_devices_and_unknown_kinds_are_told_apart():
    kinds = [
        ("l", tarfile.SYMTYPE, "/etc/passwd"),
        ("h", tarfile.LNKTYPE, "a"),
        ("d", tarfile.CHRTYPE, ""),
        ("f/", b"5", ""),
    ]
    found = read(tar({"a": b"1"}, kinds=kinds))
    assert [member.kind for member in found] == ["file", "link", "link", "other", "folder"]


@pytest.mark.parametrize("cut", [1, 511, 600, 1023])
def test_a_truncated_archive_is_refused_wherever_it_ends(cut):
    content = tar({"a": b"x" * 600, "b": b"y"})[: 512 * 5]
    assert len(read(content + bytes(1024))) == 2
    with pytest.raises(UserError, match="is cut off"):
        read(content[: len(content) - cut])
    with pytest.raises(UserError, match="without the mark of an archive's end"):
        read(content)


def test_what_is_joined_on_behind_the_end_is_not_passed_over():
    with pytest.raises(UserError, match="goes on behind the mark of its end"):
        read(tar({"a": b"1"}) + tar({"b": b"2"}))


def test_a_huge_claimed_size_or_name_is_refused():
    huge = tarfile.TarInfo("a.jpg")
    huge.size = 2**60
    with pytest.raises(UserError, match="is cut off"):
        read(huge.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    name = tarfile.TarInfo("././@LongLink")
    name.type, name.size = tarfile.GNUTYPE_LONGNAME, 2**17
    with pytest.raises(UserError, match="a name of 131,072 bytes"):
        read(name.tobuf(tarfile.GNU_FORMAT) + bytes(2**18))


def test_sparse_members_are_refused(tmp_path):
    with (tmp_path / "s").open("wb") as file:
        file.truncate(2**20)
        file.seek(2**19)
        file.write(b"x")
    for form in ("gnu", "pax"):
        made = tmp_path / f"{form}.tar"
        subprocess.run(["tar", "-S", f"--format={form}", "-cf", made, "-C", tmp_path, "s"], check=True)
        with pytest.raises(UserError, match="sparse"):
            list(read_members(made))


def test_what_is_no_archive_or_is_not_there_is_refused(tmp_path):
    with pytest.raises(UserError, match="is no tar archive"):
        read(b"no archive at all" * 100)
    with pytest.raises(UserError, match="cannot be read"):
        list(read_members(tmp_path / "absent.tar"))


GOOD = {form: tar(CONTENTS, form) for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)}


def mended(content, header):
    """The archive with a right checksum in the header at this block, so that damage elsewhere in it counts."""
    start = 512 * header
    block = bytearray(content[start : start + 512])
    block[148:156] = b"%06o\0 " % (sum(block) - sum(block[148:156]) + 8 * 32)
    return content[:start] + bytes(block) + content[start + 512 :]


@given(st.sampled_from(sorted(GOOD)), st.integers(0, 14), st.integers(0, 511), st.binary(min_size=1, max_size=16))
def test_a_changed_header_ends_in_members_or_in_a_message(form, header, place, change):
    good = GOOD[form]
    start = 512 * header + place
    changed = good[:start] + change + good[start + len(change) :]
    for content in (changed, mended(changed, header)):
        try:
            found = read(content)
        except UserError:
            continue
        assert all(0 <= m.offset <= len(content) for m in found)
        assert all(m.offset + m.size <= len(content) for m in found if m.kind == "file")


@given(st.binary(max_size=2000))
def test_any_bytes_end_in_members_or_in_a_message(content):
    with contextlib.suppress(UserError):
        read(content)
