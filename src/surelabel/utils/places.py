"""Where this package, and the libraries that it uses, may leave files. Imports nothing that takes time."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """$SURELABEL_CACHE, or `surelabel` in the user's cache folder."""
    given = os.environ.get("SURELABEL_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "surelabel")


def settle() -> None:
    """Keep libraries from contacting their makers, and from leaving temporary files, as they are imported.

    onnxruntime would send what it does and store an id of the machine; torch makes a folder for what it compiles.
    """
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        root = cache_folder().absolute()
    except RuntimeError:  # no home directory
        return
    if os.access(next(place for place in (root, *root.parents) if place.exists()), os.W_OK):
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(root / "torch"))
