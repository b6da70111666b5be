import gzip
import io
import tarfile

import pytest

from surelabel.data.benchmarks import archive
from surelabel.data.benchmarks.archive import read_file, read_files
from surelabel.utils.errors import UserError
from tests.data.benchmarks.official_files import tar_gz

FILES = {"one.bin": b"1" * 5000, "two.bin": bytes(range(256)) * 20}


def test_read_files_from_folder_and_archive(tmp_path):
    (tmp_path / "inner").mkdir()
    for name, content in FILES.items():
        (tmp_path / "inner" / name).write_bytes(content)
    (tmp_path / "a.tar.gz").write_bytes(tar_gz({f"any/where/{name}": content for name, content in FILES.items()}))
    assert read_files(tmp_path / "inner", FILES) == FILES
    assert read_files(tmp_path / "a.tar.gz", FILES) == FILES


@pytest.mark.parametrize("path", ["../../one.bin", "/tmp/one.bin", "C:/one.bin"])
def test_read_files_never_writes_to_member_paths(tmp_path, path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "x.tar.gz").write_bytes(tar_gz({path: b"content"}))
    before = sorted(tmp_path.rglob("*"))
    assert read_files(inner / "x.tar.gz", ["one.bin"]) == {"one.bin": b"content"}
    assert sorted(tmp_path.rglob("*")) == before


def test_read_files_does_not_follow_links(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as file:
        for name, kind in (("one.bin", tarfile.SYMTYPE), ("two.bin", tarfile.LNKTYPE), ("three.bin", tarfile.DIRTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, str(secret)
            file.addfile(member)
    (tmp_path / "x.tar.gz").write_bytes(buffer.getvalue())
    with pytest.raises(UserError, match=r"lacks one\.bin, two\.bin, three\.bin"):
        read_files(tmp_path / "x.tar.gz", ["one.bin", "two.bin", "three.bin"])


def test_read_files_names_a_missing_file(tmp_path):
    (tmp_path / "x.tar.gz").write_bytes(tar_gz({"one.bin": b""}))
    with pytest.raises(UserError, match=r"x\.tar\.gz lacks two\.bin"):
        read_files(tmp_path / "x.tar.gz", FILES)


def test_read_files_rejects_a_repeated_name(tmp_path):
    (tmp_path / "x.tar.gz").write_bytes(tar_gz({"a/one.bin": b"1", "b/one.bin": b"2"}))
    with pytest.raises(UserError, match=r"holds one\.bin more than once"):
        read_files(tmp_path / "x.tar.gz", ["one.bin"])


def wrong_byte():
    # Stored without compression, so that only the checksum at the very end can tell.
    content = bytearray(gzip.compress(gzip.decompress(tar_gz(FILES)), compresslevel=0))
    content[2000] ^= 1
    return content


@pytest.mark.parametrize(
    "content",
    [
        *(tar_gz(FILES)[: int(share * len(tar_gz(FILES)))] for share in (0.0, 0.1, 0.5, 0.9, 0.999)),
        wrong_byte(),
        b"no archive at all",
        gzip.compress(b"no tar inside", mtime=0),
    ],
    ids=range(8),
)
def test_read_files_rejects_damaged_archives_with_their_size(tmp_path, content):
    (tmp_path / "x.tar.gz").write_bytes(content)
    with pytest.raises(UserError, match=rf"x\.tar\.gz of {len(content):,} bytes is truncated or corrupt"):
        read_files(tmp_path / "x.tar.gz", FILES)


def test_read_file_rejects_a_compression_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 10**6)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(10**7)))
    with pytest.raises(UserError, match="unpacks to more than"):
        read_file(tmp_path / "bomb.gz")


def test_read_file_decompresses_gz(tmp_path):
    (tmp_path / "plain").write_bytes(FILES["two.bin"])
    (tmp_path / "packed.gz").write_bytes(gzip.compress(FILES["two.bin"]))
    assert read_file(tmp_path / "plain") == read_file(tmp_path / "packed.gz") == FILES["two.bin"]
