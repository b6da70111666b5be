"""surelabel embed: Describe pictures or texts by a pretrained network, once, and keep the rows in a file to learn from.

  surelabel embed PICTURES -o embeddings.npz                 then: surelabel fit embeddings.npz --labels labels.csv
  surelabel embed SHARDS -o embeddings.npy --float16 --part 3/16

Where labels.csv names the files of pictures, it names the rows of what is written too. A call that was killed goes on
where it stopped.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.cli.predict import add_part
from surelabel.config.encoders import DEFAULT
from surelabel.data.part import WHOLE, Part
from surelabel.utils.errors import UserError

if TYPE_CHECKING:
    from surelabel.data.source import Source
    from surelabel.models.encoders.base import Encoder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", metavar="DATA", help="a folder of pictures, texts or tar shards, a .npy or .npz file of pictures, a "
        "table of texts, or a data set by name",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--out", required=True, type=Path, metavar="FILE", help="a .npy, .npz, .parquet or .safetensors file"
    )
    parser.add_argument("--encoder", default=DEFAULT, metavar="NAME", help=f"the network (default: {DEFAULT})")
    parser.add_argument("--float16", action="store_true", help="half as large, with three digits")
    parser.add_argument("--test", action="store_true", help="of data with a test set, this instead of the rest")
    add_part(parser)
    parser.add_argument("--data-dir", metavar="DIR", help="where the files of a named data set are")
    parser.add_argument("--text-column", metavar="COLUMN", help="the column of a table, or key of .jsonl, with texts")
    parser.add_argument("--device", default="auto", metavar="DEVICE", help="cpu, cuda, mps, or auto (the default)")
    parser.add_argument("--offline", action="store_true", help="download nothing")


def run(options: argparse.Namespace) -> int:
    part = WHOLE if options.part is None else Part.parse(options.part)
    if options.encoder == "none":
        raise UserError("--encoder none: name a network")
    import numpy as np
    from rich.console import Console

    from surelabel.inference.embed import check_output, embed
    from surelabel.models.encoders import open_encoder
    from surelabel.training.display import PLAIN, describe_skipped, reading
    from surelabel.utils.devices import resolve_device

    check_output(options.out)
    console = Console()
    encoder = open_encoder(options.encoder, offline=options.offline, device=resolve_device(options.device))
    with reading(console) as progress:
        source = _opened(options, encoder, progress)
        texts = source.texts(np.arange(len(source)))
        encoder = encoder if texts is None else encoder.fitted(texts)
    for note in source.notes:
        console.print(note, **PLAIN)
    with reading(console, "embedding") as progress:
        made = embed(source, encoder, options.out, options.float16, part, progress)
    earlier = f" ({made.before:,} of them by an earlier call)" if made.before else ""
    console.print(f"{made.count:,} rows of {encoder.dimensions:,} numbers in {made.path}{earlier}", **PLAIN)
    if source.skipped:
        console.print(describe_skipped(source.skipped), **PLAIN)
    return 0


def _opened(options: argparse.Namespace, encoder: "Encoder", progress: Callable[[int, int], None]) -> "Source":
    """The samples, with the classes that are known."""
    from surelabel.data.images.scaling import PLAIN
    from surelabel.data.open import open_data
    from surelabel.data.open_like import Form, open_like
    from surelabel.data.tables.rows import NoLabelColumn

    seen, text_column = encoder.preprocessing, options.text_column
    try:
        data = open_data(
            options.data, options.data_dir, progress=progress, image_size=None if seen is None else seen.side,
            scaling=PLAIN if seen is None else seen.scaling, text_column=text_column,
        )  # fmt: skip
    except NoLabelColumn:
        return open_like(options.data, Form(options.encoder, (), text_column=text_column or "text"), options.data_dir)
    if options.test and data.test is None:
        raise UserError(f"--test: {options.data} has no test set")
    return data.test if options.test and data.test is not None else data.train
