"""Models of a hub: those stored here, and downloads, which are announced with their size and can be refused."""

import os
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path

from surelabel.utils.errors import UserError

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when the hub's package is imported
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt", ".h5")


def is_offline() -> bool:
    """Whether downloads are refused: by --offline, or for all programs that know the hub."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def model_folder(
    name: str, repository: str, revision: str | None, offline: bool, weights: Sequence[str], others: Sequence[str] = ()
) -> tuple[Path, str]:
    """The folder with the files of a model, downloaded if it is not stored here, and its commit.

    Of the files called `weights` the first one there is taken, with its parts; `others` are patterns. `name` is that of
    the encoder in messages.
    """
    from huggingface_hub import snapshot_download

    folder = _stored(repository, revision, weights, others)
    if folder is None:
        if offline:
            raise UserError(f"encoder {name}: {repository} is not stored here, and downloads are refused (--offline)")
        files = _files(name, repository, revision)
        chosen = chosen_files(name, files, weights, others)
        size = sum(files[file] for file in chosen)
        announce(f"{repository}{'@' + revision if revision else ''} of the hub", size)
        try:
            folder = Path(snapshot_download(repository, revision=revision, allow_patterns=chosen))
        except Exception as error:  # of the network, the disk, or the hub
            raise UserError(f"encoder {name}: the download of {repository} failed: {error}") from error
    return folder, folder.name


def announce(what: str, size: float) -> None:
    """Say what is downloaded, before it is."""
    print(f"surelabel: downloading {what}, {size / 1e6:,.1f} MB", file=sys.stderr, flush=True)


def chosen_files(name: str, files: Iterable[str], weights: Sequence[str], others: Sequence[str] = ()) -> list[str]:
    """Those to have of these files; raises where there are no weights that can be loaded without running code."""
    files = sorted(files)
    settings = [file for file in files if any(fnmatch(file, pattern) for pattern in others)]
    for first in weights:
        if first in files:
            return [first, *settings]
        if (index := f"{first}.index.json") in files:
            parts = [file for file in files if fnmatch(file, first.replace(".safetensors", "-*.safetensors"))]
            return list(dict.fromkeys([index, *parts, *settings]))
    if pickled := [file for file in files if file.endswith(PICKLES)]:
        raise UserError(
            f"encoder {name}: its weights, {pickled[0]}, may carry code that runs when they are loaded, so they are "
            "refused: choose a model or a revision with .safetensors, or convert them elsewhere"
        )
    raise UserError(f"encoder {name}: there is no {' or '.join(weights)} among its files")


def _stored(repository: str, revision: str | None, weights: Sequence[str], others: Sequence[str]) -> Path | None:
    """The folder of a model that was downloaded before, if it is complete."""
    from huggingface_hub import snapshot_download, try_to_load_from_cache

    for first in weights:
        parts = [first, f"{first}.index.json", first.replace(".safetensors", "-*.safetensors")]
        try:
            if any(isinstance(try_to_load_from_cache(repository, part, revision=revision), str) for part in parts[:2]):
                wanted = [*parts, *others]
                return Path(
                    snapshot_download(repository, revision=revision, allow_patterns=wanted, local_files_only=True)
                )
        except Exception:  # a part is missing, or this is no name of a model, which the hub will say
            return None
    return None


def _files(name: str, repository: str, revision: str | None) -> dict[str, int]:
    """The files of a model on the hub and their sizes."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        found = HfApi().model_info(repository, revision=revision, files_metadata=True)
    except HFValidationError as error:
        raise UserError(f"encoder {name}: {repository} is no folder here, nor can a model be called so") from error
    except RevisionNotFoundError as error:
        raise UserError(f"encoder {name}: {repository} has no revision {revision}") from error
    except RepositoryNotFoundError as error:
        raise UserError(
            f"encoder {name}: there is no folder {repository} here, nor a public model of that name on the hub"
        ) from error
    except Exception as error:  # of the network, by whichever package it is reached
        raise UserError(
            f"encoder {name}: {repository} is not stored here, and the hub cannot be reached ({type(error).__name__}): "
            "fetch the model where there is a network, and give its folder"
        ) from error
    return {file.rfilename: file.size or 0 for file in found.siblings or ()}
