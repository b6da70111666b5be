"""The config of a run that is resumed: its own, which must be the one asked for."""

from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console

from surelabel.config.run import CUSTOM, MACHINE, MORE_STEPS, RunConfig
from surelabel.config.settings import flatten
from surelabel.training import build
from surelabel.training.components import Components
from surelabel.training.display import PLAIN
from surelabel.training.environment import environment
from surelabel.training.run_folder import RunFolder
from surelabel.utils.errors import UserError

# Settings that may change on resume. Moved data are checked when they are read.
MAY_CHANGE = {*MACHINE, "out", "data_dir"}


def stored_config(asked: RunConfig, folder: RunFolder, console: Console, components: Components) -> RunConfig:
    """The config of the run to resume, which must be the one asked for; says what differs about the machine."""
    config = folder.config
    _check_same_settings(asked, config, folder.path, components)
    here = environment()
    changes = [(name, before, here[name]) for name, before in folder.environment().items() if before is not None]
    if asked.threads is not None:
        changes.append(("threads", config.threads, asked.threads))
        config = replace(config, threads=asked.threads)
    for name, before, now in changes:
        if before != now:
            console.print(f"Started with {name} {before}, resuming with {now}: results may differ slightly", **PLAIN)
    if asked.processes != config.processes:
        console.print(f"Started with {config.processes} processes, resuming with {asked.processes}", **PLAIN)
    return replace(config, devices=asked.devices, nodes=asked.nodes, data_dir=asked.data_dir or config.data_dir)


def _check_same_settings(asked: RunConfig, stored: RunConfig, folder: Path, components: Components) -> None:
    """Raise unless the asked settings are the stored ones, on the same type of device.

    Settings left to the machine are taken from the run; paths are compared after resolving links.
    """
    asked = replace(
        asked,
        device=stored.device if asked.device == "auto" else asked.device,
        precision=stored.precision if asked.precision == "auto" else asked.precision,
        compile=stored.compile if asked.compile is None else asked.compile,
    )
    here, before = (flatten(asdict(build.resolve(config))) for config in (components.named_in_config(asked), stored))
    for key, value in here.items():
        # A missing user component raises where it is needed, with instructions.
        if key not in MAY_CHANGE and value != before[key] != CUSTOM:
            why = f" ({MORE_STEPS})" if key == "steps" else ""
            raise UserError(
                f"{folder} was started with {key} {before[key]}, but {value} is asked for now{why}. "
                "Resume it with its settings, or choose another folder"
            )
