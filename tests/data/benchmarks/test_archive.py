import gzip
import io
import tarfile

import pytest

from surelabel.data.benchmarks import archive
from surelabel.data.benchmarks.archive import read_file, read_files
from surelabel.utils.errors import UserError
from tests.data.benchmarks.official_files import tar_gz

FILES = {"one.bin": b"1" * 5000, "two.bin": bytes(range(256)) * 20}


def test_a_folder_and_an_archive_give_the_same_files(tmp_path):
    (tmp_path / "inner").mkdir()
    for name, content in FILES.items():
        (tmp_path / "inner" / name).write_bytes(content)
    (tmp_path / "a.tar.gz").write_bytes(tar_gz({f"any/where/{name}": content for name, content in FILES.items()}))
    assert read_files(tmp_path / "inner", FILES) == FILES
    assert read_files(tmp_path / "a.tar.gz", FILES) == FILES


@pytest.mark.parametrize("path", ["../../one.bin", "/tmp/one.bin", "C:/one.bin"])
def test_a_member_is_never_written_where_its_path_says(tmp_path, path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "x.tar.gz").write_bytes(tar_gz({path: b"content"}))
    before = sorted(tmp_path.rglob("*"))
    assert read_files(inner / "x.tar.gz", ["one.bin"]) == {"one.bin": b"content"}
    assert sorted(tmp_path.rglob("*")) == before


def test_links_and_folders_in_an_archive_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        for name, kind in (("one.bin", tarfile.SYMTYPE), ("two.bin", tarfile.LNKTYPE), ("three.bin", tarfile.DIRTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, str(secret)
            file.addfile(member)
    (tmp_path / "x.tar.gz").write_bytes(buffer.getvalue())
    with pytest.raises(UserError, match=r"without one\.bin, two\.bin, three\.bin"):
        read_files(tmp_path / "x.tar.gz", ["one.bin", "two.bin", "three.bin"])


def test_a_missing_file_is_named(tmp_path):
    (tmp_path / "x.tar.gz").write_bytes(tar_gz({"one.bin": b""}))
    with pytest.raises(UserError, match=r"x\.tar\.gz is incomplete, without two\.bin"):
        read_files(tmp_path / "x.tar.gz", FILES)


def test_a_name_that_comes_twice_is_refused(tmp_path):
    (tmp_path / "x.tar.gz").write_bytes(tar_gz({"a/one.bin": b"1", "b/one.bin": b"2"}))
    with pytest.raises(UserError, match=r"holds one\.bin more than once"):
        read_files(tmp_path / "x.tar.gz", ["one.bin"])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_archive_is_refused_with_its_size(tmp_path, share):
    whole = tar_gz(FILES)
    cut = whole[: int(share * len(whole))]
    (tmp_path / "x.tar.gz").write_bytes(cut)
    with pytest.raises(
        UserError, match=rf"x\.tar\.gz of {len(cut):,} bytes cannot be read, being truncated or corrupt"
    ):
        read_files(tmp_path / "x.tar.gz", FILES)


def test_a_wrong_byte_anywhere_in_the_contents_is_noticed(tmp_path):
    # Stored without compression, so that only the checksum at the very end can tell.
    whole = bytearray(gzip.compress(gzip.decompress(tar_gz(FILES)), compresslevel=0))
    whole[2000] ^= 1
    (tmp_path / "x.tar.gz").write_bytes(whole)
    with pytest.raises(UserError, match="truncated or corrupt"):
        read_files(tmp_path / "x.tar.gz", FILES)


@pytest.mark.parametrize("content", [b"", b"no archive at all", gzip.compress(b"no tar inside", mtime=0)])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "x.tar.gz").write_bytes(content)
    with pytest.raises(UserError, match="truncated or corrupt"):
        read_files(tmp_path / "x.tar.gz", FILES)


def test_a_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 10**6)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(10**7)))
    with pytest.raises(UserError, match="unpacks to more than"):
        read_file(tmp_path / "bomb.gz")


def test_plain_and_compressed_files_read_the_same(tmp_path):
    (tmp_path / "plain").write_bytes(FILES["two.bin"])
    (tmp_path / "packed.gz").write_bytes(gzip.compress(FILES["two.bin"]))
    assert read_file(tmp_path / "plain") == read_file(tmp_path / "packed.gz") == FILES["two.bin"]
