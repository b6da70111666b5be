"""Choices that both the config, which imports no torch, and torch code name."""

from typing import Literal

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["auto", "32", "64", "bf16-mixed"]
