"""Open data for training: a data set by name, or whatever lies at a path."""

from collections.abc import Callable, Sequence
from pathlib import Path

from surelabel.config.recipes import PHOTOGRAPH
from surelabel.config.run import ARRAY_FILES, JSON_LINES, TABLE_FILES, TEXT_COLUMN, Table
from surelabel.data.arrays import files as array_files
from surelabel.data.arrays.parquet import find_columns
from surelabel.data.benchmarks import cifar, phc
from surelabel.data.benchmarks import mnist as idx
from surelabel.data.images import folder
from surelabel.data.images.map_files import Progress
from surelabel.data.images.scaling import PLAIN, Scaling
from surelabel.data.long_tail import long_tailed
from surelabel.data.probe import holds_texts
from surelabel.data.shards import source as shards
from surelabel.data.source import DataSet
from surelabel.data.tables import source as table
from surelabel.data.texts import folder as text_folder
from surelabel.data.texts import table as text_table
from surelabel.utils.errors import UserError, suggestion

# How tables are kept elsewhere.
OTHER_TABLES = (".tsv", ".txt", ".gz", ".zip", ".xlsx", ".xls", ".ods", ".feather", ".arrow", ".json", ".dta")


def _imagenet(
    place: Path, image_size: int | None = None, shape: tuple[int, int, int] | None = None, scaling: Scaling = PLAIN
) -> DataSet:
    if shards.are_in(place):
        return shards.load(place, image_size or PHOTOGRAPH, shape, scaling)
    return folder.load(place, image_size or PHOTOGRAPH if shape is None else shape[1], scaling=scaling)


def _in_folder(
    path: Path,
    image_size: int | None,
    shape: tuple[int, int, int] | None,
    scaling: Scaling,
    label_files: Sequence[str],
    progress: Progress | None,
) -> DataSet:
    """Tar shards, texts or pictures."""
    if shards.are_in(path):
        return shards.load(path, image_size, shape, scaling)
    if holds_texts(path):
        return text_folder.load(path, label_files, progress)
    return folder.load(path, image_size, label_files, progress, scaling)


# The data sets by name, each with its loader.
NAMED: dict[str, Callable[[str | None], DataSet]] = {
    "phc": lambda where: phc.load(where) if where else phc.load(),
    "cifar10": lambda where: cifar.load(where or ".", "cifar10"),
    "cifar100": lambda where: cifar.load(where or ".", "cifar100"),
    "cifar10-lt10": lambda where: long_tailed(cifar.load(where or ".", "cifar10"), 10),
    "cifar10-lt100": lambda where: long_tailed(cifar.load(where or ".", "cifar10"), 100),
    "cifar100-lt10": lambda where: long_tailed(cifar.load(where or ".", "cifar100"), 10),
    "cifar100-lt100": lambda where: long_tailed(cifar.load(where or ".", "cifar100"), 100),
    "mnist": lambda where: idx.load(where, "mnist"),
    "fashion-mnist": lambda where: idx.load(where, "fashion-mnist"),
    "imagenet": lambda where: _imagenet(Path(where or ".")),
}


def open_data(
    data: str,
    data_dir: str | None = None,
    label_column: str | None = None,
    of_table: Table | None = None,
    label_files: Sequence[str] = (),
    progress: Progress | None = None,
    image_size: int | None = None,
    shape: tuple[int, int, int] | None = None,
    scaling: Scaling = PLAIN,
    group_column: str | None = None,
    embedding_column: str | None = None,
    id_column: str | None = None,
    text_column: str | None = None,
) -> DataSet:
    """The data set of this name, its files in `data_dir`, or the one at this path: a folder of images, of texts or of
    tar shards, or a .npz, .npy, .safetensors, .csv, .parquet or .jsonl file.

    `embedding_column` is that of a .parquet file of embeddings, and `id_column` what their rows are called by.
    `label_column`, `group_column` and `of_table` say how to read a table, of which only the texts are learnt from if
    there is a `text_column`. `label_files` name the classes of a folder's
    files or of rows, and `image_size` is the side of pictures; reading a folder, which may take a while, tells its
    progress. Images of shards, and ImageNet's, become `shape`, where given: (channels, height, width); `scaling` says
    how pictures in files are brought to a size.
    """
    path = Path(data) if data_dir is None else Path(data_dir, data)
    is_table = path.suffix.lower() in (*TABLE_FILES, JSON_LINES) and path.is_file()
    if label_files and (data in NAMED or not (path.is_dir() or is_table or path.suffix in ARRAY_FILES)):
        raise UserError(
            f"{label_files[0]} names the classes of files in a folder, or of rows of a table or of a .npy, .npz or "
            f".safetensors file, but {data} is none of these"
        )
    if data in NAMED:
        return (
            _imagenet(Path(data_dir or "."), image_size, shape, scaling)
            if data == "imagenet"
            else NAMED[data](data_dir)
        )
    if path.is_dir():
        return _in_folder(path, image_size, shape, scaling, label_files, progress)
    if path.suffix in ARRAY_FILES and path.is_file():
        return array_files.LOADERS[path.suffix](path, label_files=label_files, id_column=id_column)
    if is_table and embedding_column is not None:
        columns = find_columns(path, embedding_column, id_column, label_column)
        return array_files.load_parquet(path, columns, label_files, id_column)
    if is_table:
        if text_column is None and path.suffix.lower() != JSON_LINES:
            return table.load(path, label_column, of_table or Table(), group_column, label_files)
        return text_table.load(path, text_column or TEXT_COLUMN, label_column, group_column, label_files)
    if path.is_file():
        if path.suffix.lower() in OTHER_TABLES:
            raise UserError(f"{path}: tables are read from .csv, .parquet and .jsonl files; save it as one of these")
        raise UserError(f"{path} is a single file of no known kind: give the folder that it lies in")
    raise UserError(
        f"there is no data set {data!r}, nor a folder, .npz, .npy, .safetensors, .csv, .parquet or .jsonl file of that "
        f"name."
        f"{suggestion(data, NAMED)}"
    )
