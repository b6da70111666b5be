from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def mpb():
    """Ten random crystals solved by MPB 1.11, with bands at every twelfth wave vector."""
    with np.load(Path(__file__).parent / "fixtures" / "mpb.npz", allow_pickle=False) as arrays:
        return dict(arrays)
