"""The native backend: one machine-code program for each graph.

LLVM writes the code (`llvmlite`); it is loaded when a graph is first compiled.
"""

from __future__ import annotations

from anabranch.backends.base import Capabilities, Executable
from anabranch.core.graph import Graph


class NativeBackend:
    """Machine code for loops, and calls back into the reference for what has none yet."""

    name = "native"
    capabilities = Capabilities()

    def compile(self, graph: Graph) -> Executable:
        from anabranch.backends.native.executable import NativeExecutable

        return NativeExecutable(graph)
