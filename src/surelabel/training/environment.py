"""The versions and the machine of a run, which decide how its results round."""

import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import torch

import surelabel


def commit() -> str | None:
    """The commit of this code, if it is a git checkout."""
    here = Path(__file__).parent
    try:
        # The file must be tracked: an installed package may be inside the checkout of another project.
        for question in (["ls-files", "--error-unmatch", __file__], ["describe", "--always", "--dirty", "--abbrev=40"]):
            answer = subprocess.run(["git", "-C", str(here), *question], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def environment() -> dict[str, Any]:
    """The versions and the machine of a run."""
    return {
        "surelabel": surelabel.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": torch.backends.cpu.get_cpu_capability(),  # its instructions decide how sums round
        "threads": torch.get_num_threads(),
    }
