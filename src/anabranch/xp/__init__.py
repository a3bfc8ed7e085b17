"""The array API standard, version 2024.12: standard names only, on tensors and on graph values.

`x.__array_namespace__()` gives this module, so that code written for the standard runs eagerly,
inside `ab.grad` and inside `ab.compile`. All functions are here, and all of `linalg`, with the
standard's argument names and defaults. What is not offered, and why:

- `nonzero` and `unique_*` raise `[dynamic-shape]`: their shapes depend on values, and a graph knows
  every shape before it runs. For the same reason a mask in brackets must be known; `xp.where` and
  `x.at[mask].set(v)` take a computed one.
- Item assignment raises `[item-assignment]`: `x.at[i].set(v)` makes a new value.
- Derivatives of complex values; the values themselves are computed.
- The extension `fft`, and devices other than "cpu".

Example:
    >>> import anabranch as ab
    >>> x = ab.asarray([3.0, 4.0])
    >>> xp = x.__array_namespace__()
    >>> xp.linalg.vector_norm(x)
    tensor(5.)
"""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from anabranch.frontends.array_api.making import namespace as _namespace
from anabranch.frontends.array_api.making import versions_of as _versions_of
from anabranch.xp import linalg as linalg

globals().update(_namespace())
_of_version = _versions_of(_sys.modules[__name__])

if _TYPE_CHECKING:

    def __getattr__(name: str) -> _Any: ...
