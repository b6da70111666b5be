"""Small files in the official layouts of CIFAR and IDX, for the tests to read."""

import gzip
import io
import struct
import tarfile

import numpy as np

CIFAR_FOLDER = {
    ("cifar10", "binary"): "cifar-10-batches-bin",
    ("cifar10", "python"): "cifar-10-batches-py",
    ("cifar100", "binary"): "cifar-100-binary",
    ("cifar100", "python"): "cifar-100-python",
}
CIFAR_ARCHIVE = {
    ("cifar10", "binary"): "cifar-10-binary.tar.gz",
    ("cifar10", "python"): "cifar-10-python.tar.gz",
    ("cifar100", "binary"): "cifar-100-binary.tar.gz",
    ("cifar100", "python"): "cifar-100-python.tar.gz",
}
CLASSES = {"cifar10": [f"class{n}" for n in range(10)], "cifar100": [f"fine{n}" for n in range(100)]}


def python2_pickle(value) -> bytes:
    """Protocol 2 as written by Python 2: (SHORT_)BINSTRING, arrays by numpy.core.multiarray."""
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value) -> bytes:
    if isinstance(value, bytes):
        short = len(value) < 256
        return (b"U" + struct.pack("<B", len(value)) if short else b"T" + struct.pack("<i", len(value))) + value
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(_opcodes, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(_opcodes(key) + _opcodes(item) for key, item in value.items()) + b"u"
    if isinstance(value, np.ndarray):
        dtype = b"cnumpy\ndtype\n" + _opcodes(value.dtype.str[1:].encode()) + b"K\x00K\x01\x87R"
        dtype += b"(K\x03" + _opcodes(value.dtype.str[:1].encode()) + b"NNN" + _opcodes(-1) * 2 + b"K\x00tb"
        made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        shape = b"(" + b"".join(map(_opcodes, value.shape)) + b"t"
        return made + b"(K\x01" + shape + dtype + b"\x89" + _opcodes(value.tobytes()) + b"tb"
    raise TypeError(type(value))


def cifar_parts(name, seed=0, records=4):
    """{official file stem: (labels [n], coarse labels [n], pixels [n, 3072])}."""
    random = np.random.default_rng(seed)
    stems = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"] if name == "cifar10" else ["train", "test"]
    return {
        stem: (
            random.integers(0, len(CLASSES[name]), records),
            random.integers(0, 20, records),
            random.integers(0, 256, (records, 3072)).astype(np.uint8),
        )
        for stem in stems
    }


def cifar_files(name, version, parts) -> dict[str, bytes]:
    """{official file name: content}."""
    names = CLASSES[name]
    files = {}
    for stem, (labels, coarse, pixels) in parts.items():
        if version == "binary":
            columns = [labels] if name == "cifar10" else [coarse, labels]
            prefix = np.stack(columns, axis=1).astype(np.uint8)
            files[f"{stem}.bin"] = np.concatenate([prefix, pixels], axis=1).tobytes()
        else:
            batch = {b"batch_label": b"a batch", b"data": pixels, b"filenames": [b"x.png"] * len(labels)}
            keys = {b"labels": labels} if name == "cifar10" else {b"coarse_labels": coarse, b"fine_labels": labels}
            files[stem] = python2_pickle(batch | {key: list(map(int, value)) for key, value in keys.items()})
    if version == "binary":
        files["batches.meta.txt" if name == "cifar10" else "fine_label_names.txt"] = (
            "\n".join(names) + "\n\n"
        ).encode()
    else:
        meta, key = ("batches.meta", b"label_names") if name == "cifar10" else ("meta", b"fine_label_names")
        files[meta] = python2_pickle({key: [text.encode() for text in names]})
    return files


def write_cifar(folder, name, version, packed, files) -> None:
    inner = CIFAR_FOLDER[name, version]
    if packed:
        content = tar_gz({f"{inner}/{file}": data for file, data in files.items()})
        (folder / CIFAR_ARCHIVE[name, version]).write_bytes(content)
        return
    (folder / inner).mkdir(parents=True)
    for file, data in files.items():
        (folder / inner / file).write_bytes(data)


def tar_gz(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, data in members.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def idx(array) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(folder, compressed=False, seed=0, train=20, test=10):
    """Writes the four files; returns {part: (images, labels)}."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for part, count in (("train", train), ("t10k", test)):
        images = random.integers(0, 256, (count, 28, 28)).astype(np.uint8)
        labels = random.integers(0, 10, count).astype(np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            content = idx(array)
            name = f"{part}-{kind}-ubyte" + (".gz" if compressed else "")
            (folder / name).write_bytes(gzip.compress(content) if compressed else content)
        written[part] = images, labels
    return written
