"""Photonic crystals: random unit cells, their TM bands and complete gaps, and their file format.

from surelabel.phc import bands, gaps
gaps(epsilon)                            # nine gaps of a square cell [N, N], percent of mid-gap
bands(epsilon, [[0.5, 0.0]], n_bands=4)  # ωa/2πc at X
"""

from surelabel.phc.geometry import Crystal, draw
from surelabel.phc.solver import bands, gaps
from surelabel.phc.store import CLASSES, CrystalSet, classify

__all__ = ["CLASSES", "Crystal", "CrystalSet", "bands", "classify", "draw", "gaps"]
