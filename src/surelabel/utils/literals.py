"""Types that the config needs, which must not import torch."""

from typing import Literal

Device = Literal["auto", "cpu", "cuda", "mps"]
Drawn = Literal["auto", "random", "per-class"]
Precision = Literal["auto", "32", "64", "bf16-mixed"]
