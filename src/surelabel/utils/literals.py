"""Types that the config needs, which must not import torch."""

from typing import Literal

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["auto", "32", "64", "bf16-mixed"]
