"""Tar archives and folders of shards."""

import io
import json
import tarfile


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


def write_shards(folder, shards, classes=None):
    """Write {shard: {member: bytes}} and classes.json into a folder, and return it."""
    folder.mkdir(exist_ok=True)
    for name, contents in shards.items():
        (folder / name).write_bytes(tar(contents))
    if classes is not None:
        (folder / "classes.json").write_text(json.dumps(classes))
    return folder
