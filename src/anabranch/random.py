"""Random numbers as functions of explicit keys; see `docs/random.md`.

`key` makes a key of a seed, `split` and `fold_in` make keys of a key, and distributions draw from
one. The same key gives the same numbers, eager and compiled, however the work is split.
"""

from typing import TYPE_CHECKING, Any

from anabranch.core.late import late_names as _late_names
from anabranch.core.op import PublicFunctions as _PublicFunctions

_late_names(globals(), {}, _PublicFunctions("random"))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
