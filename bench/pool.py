"""The private memory of `predict` by the number of rows, and of the components of a large pool.

Each figure is from a process of its own, as in bench/memory.py. Needs the extra `tables`.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench.memory import LARGE, PART, SMALL, watched
from bench.timing import Row

WIDTH, COLUMNS = 256, 20
POOL, DIMENSIONS = 200_000, 1024
KINDS = {"table.parquet": "a parquet table", "table.csv": "a csv table", "rows.npy": "float16 embeddings in .npy",
         "rows.parquet": "float16 embeddings in parquet"}  # fmt: skip


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="surelabel-pool-") as folder:
        place = Path(folder)
        if shutil.disk_usage(place).free < 5e9:
            raise SystemExit(f"the benchmark needs 5 GB of room in {folder}: set TMPDIR")
        _make(place)
        found = []
        for name, what in KINDS.items():
            runs = {count: _measure("predict", str(place / f"{count}-{name}")) for count in (SMALL, LARGE)}
            found.append(Row(f"predict on {what}: before", runs[SMALL][0], "MB"))
            found += [Row(f"predict on {what}: most, {count:,} rows", most, "MB") for count, (_, most) in runs.items()]
            found.append(Row(f"predict on {what}: growth", runs[LARGE][1] - runs[SMALL][1], "MB", "0"))
        start, most = _measure("project", str(place / "pool.npy"))
        what = f"components of {POOL:,} embeddings of {DIMENSIONS:,}"
        return [*found, Row(f"{what}: added", most - start, "MB", f"{POOL * WIDTH * 4 / 1e6:.0f} are the result")]


def _make(place: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    generator = np.random.default_rng(0)
    pool = np.lib.format.open_memmap(place / "pool.npy", "w+", np.float16, (POOL, DIMENSIONS))
    for start in range(0, POOL, PART):
        pool[start : start + PART] = generator.standard_normal(pool[start : start + PART].shape, dtype=np.float32)
    for count in (1000, SMALL, LARGE):
        rows = np.lib.format.open_memmap(place / f"{count}-rows.npy", "w+", np.float16, (count, WIDTH))
        names = [f"x{number}" for number in range(COLUMNS)]
        kinds = pa.schema([*((name, pa.float64()) for name in names), ("label", pa.string())])
        lists = pa.schema([("embedding", pa.list_(pa.float16(), WIDTH))])
        with (
            parquet.ParquetWriter(place / f"{count}-table.parquet", kinds) as table,
            csv.CSVWriter(place / f"{count}-table.csv", kinds) as text,
            parquet.ParquetWriter(place / f"{count}-rows.parquet", lists) as listed,
        ):
            for start in range(0, count, PART):
                size = min(PART, count - start)
                some = generator.standard_normal((size, WIDTH), dtype=np.float32).astype(np.float16)
                rows[start : start + size] = some
                columns = [pa.array(generator.standard_normal(size).round(4)) for _ in names]
                made = pa.Table.from_arrays([*columns, pa.array(["a", "b"] * (size // 2))], schema=kinds)
                table.write_table(made)
                text.write_table(made)
                cells = pa.FixedSizeListArray.from_arrays(pa.array(some.ravel()), WIDTH)
                listed.write_table(pa.Table.from_arrays([cells], schema=lists))
    np.save(place / "1000-rows.labels.npy", np.arange(1000) % 2)


def _measure(what: str, path: str) -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-m", "bench.pool", what, path], capture_output=True, text=True, check=True)
    start, most = json.loads(done.stdout.splitlines()[-1])
    return start, most


def _predict(path: Path) -> tuple[float, float]:
    """A small network that was trained on the first thousand rows of such a file."""
    from rich.console import Console

    from surelabel.config.run import Batch, Network, RunConfig, Views
    from surelabel.inference.predict_file import predict_file
    from surelabel.inference.trained_run import fit, load

    small = path.with_name("1000-rows.npy" if "rows" in path.name else "1000-table.parquet")
    with tempfile.TemporaryDirectory() as folder:
        made = RunConfig(
            data=str(small), labels=40, steps=2, out=f"{folder}/run", device="cpu", threads=1, batch=Batch(16, 7),
            network=Network("mlp-1-32"), method="supervised", views=Views("none", "none", "none"),
        )  # fmt: skip
        trained = load(fit(made, console=Console(quiet=True)).path)
        return watched(lambda: predict_file(trained, str(path), Path(folder, "out.csv")))


def _project(path: Path) -> tuple[float, float]:
    """The components of the pool, as the method sure takes them."""
    import torch

    from surelabel.data.arrays.files import load_npy
    from surelabel.methods.sure import projected

    torch.set_num_threads(1)
    data = load_npy(path)
    space = torch.tensor(data.offset), torch.tensor(data.scale), torch.eye(DIMENSIONS, WIDTH)
    return watched(lambda: projected(data.train, *space))


if __name__ == "__main__":
    print(json.dumps({"predict": _predict, "project": _project}[sys.argv[1]](Path(sys.argv[2]))))
