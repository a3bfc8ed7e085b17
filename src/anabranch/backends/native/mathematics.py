"""The emitter that knows all functions: at most 2 units in the last place off, everywhere.

Each works for float64 and float32; halves are computed as float32 and rounded. The families are
classes that build on each other; a record names a method by `scalar`.
"""

from __future__ import annotations

from anabranch.backends.native.gammas import GammaFunctions
from anabranch.backends.native.rounding import Rounding


class Mathematics(GammaFunctions, Rounding):
    """An emitter that knows functions."""
