"""The native backend: one machine-code program for each graph.

LLVM writes the code, through `llvmlite`, which is loaded when a graph is first compiled. Where it
cannot be imported, graphs run on the reference backend instead, which is said once.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from anabranch.backends.base import Capabilities, Executable, Wanted
from anabranch.backends.reference import ReferenceBackend
from anabranch.core.late import LateModule
from anabranch.core.source import warn

if TYPE_CHECKING:
    from anabranch.backends.native import executable as executables
else:
    executables = LateModule("anabranch.backends.native.executable")


class NativeBackend:
    """Machine code for loops and products, and calls back into the reference for the rest.

    A graph that logs values at each run is left to the reference as a whole.
    """

    name = "native"
    capabilities = Capabilities()

    def compile(self, wanted: Wanted) -> Executable:
        if wanted.is_logged:
            return _stand_in(wanted, "a value is logged at each run")
        try:
            executable: Executable = executables.NativeExecutable(wanted)
        except ImportError as error:
            if not str(error.name).startswith("llvmlite"):
                raise
            _tell_once(str(error))
            return _stand_in(wanted, "llvmlite cannot be imported")
        return executable


def _stand_in(wanted: Wanted, reason: str) -> Executable:
    made = ReferenceBackend().compile(wanted)
    made.remark = f"{reason}, so {made.remark}"
    return made


@functools.cache
def _tell_once(error: str) -> None:
    warn(
        f"the native backend needs llvmlite, which cannot be imported ({error}); graphs run on"
        " the reference backend (pip install llvmlite)"
    )
