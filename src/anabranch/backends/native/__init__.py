"""The native backend: one machine-code program for each graph.

LLVM writes the code, through `llvmlite`, which is loaded when a graph is first compiled. Where it
cannot be imported, graphs run on the reference backend instead, which is said once.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from anabranch.backends.base import Capabilities, Executable
from anabranch.backends.reference import ReferenceBackend
from anabranch.core.graph import Graph
from anabranch.core.identity import all_parts
from anabranch.core.source import warn


class NativeBackend:
    """Machine code for loops and products, and calls back into the reference for the rest.

    A graph that logs values at each run is left to the reference as a whole.
    """

    name = "native"
    capabilities = Capabilities()

    def compile(self, graph: Graph, donated: Mapping[int, int] | None = None) -> Executable:
        parts = (graph, *all_parts(graph))
        is_logged = any(node.logs for part in parts for node in part.nodes)
        made = None if is_logged else _executable_type()
        if made is not None:
            executable: Executable = made(graph, donated)
            return executable
        stands_in = ReferenceBackend().compile(graph)
        reason = "a value is logged at each run" if is_logged else "llvmlite cannot be imported"
        stands_in.remark = f"{reason}, so {stands_in.remark}"
        return stands_in


@functools.lru_cache(maxsize=1)
def _executable_type() -> Any:
    """The class that needs LLVM; None, with a warning, where there is none."""
    try:
        return importlib.import_module("anabranch.backends.native.executable").NativeExecutable
    except ImportError as error:
        warn(
            f"the native backend needs llvmlite, which cannot be imported ({error}); graphs run on"
            " the reference backend (pip install llvmlite)"
        )
        return None
