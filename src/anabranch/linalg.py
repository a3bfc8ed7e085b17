"""Linear algebra under the names of `numpy.linalg`: `ab.linalg.solve`, `ab.linalg.norm`, ...

Gathered from the ops and composed functions whose names begin with `linalg.`.
"""

from typing import TYPE_CHECKING, Any

from anabranch.core.late import late_names as _late_names
from anabranch.core.op import PublicFunctions as _PublicFunctions

_late_names(globals(), {}, _PublicFunctions("linalg"))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
