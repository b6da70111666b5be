from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def mpb():
    """Ten random crystals solved by MPB 1.11: parameters, epsilon, gaps, every twelfth wave vector's bands."""
    with np.load(Path(__file__).parent / "fixtures" / "mpb.npz", allow_pickle=False) as arrays:
        return dict(arrays)
