"""Linear algebra under the names of `numpy.linalg`: `ab.linalg.solve`, `ab.linalg.norm`, ...

Gathered from the ops and composed functions whose names begin with `linalg.`.
"""

from typing import TYPE_CHECKING, Any

from anabranch import composed as _composed  # noqa: F401  # fills the table of functions
from anabranch.core.op import public_functions as _public_functions

globals().update(_public_functions("linalg"))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
