"""Random numbers as functions of explicit keys; see `docs/random.md`.

`key` makes a key of a seed, `split` and `fold_in` make keys of a key, and distributions draw from
one. The same key gives the same numbers, eager and compiled, however the work is split.
"""

from typing import TYPE_CHECKING, Any

from anabranch import composed as _composed  # noqa: F401  # fills the table of functions
from anabranch.core.op import public_functions as _public_functions
from anabranch.frontends import keys as _keys  # noqa: F401  # the same

globals().update(_public_functions("random"))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
