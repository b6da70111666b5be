"""Processes of one thread that are joined by gloo, in tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing

from surelabel.utils.distributed import World


def on_ranks(size: int, folder: Path, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What `work(world, *arguments)`, a function of a module, returns on each of `size` ranks: tensors and the like."""
    folder.mkdir()
    multiprocessing.spawn(_on_rank, (size, str(folder), work, arguments), nprocs=size)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)]


def _on_rank(rank: int, size: int, folder: str, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
    torch.save(work(World(rank, size), *arguments), f"{folder}/{rank}.pt")
    dist.destroy_process_group()
