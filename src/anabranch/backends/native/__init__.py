"""The native backend: one machine-code program for each graph.

LLVM writes the code, through `llvmlite`, which is loaded when a graph is first compiled.
"""

from __future__ import annotations

import importlib

from anabranch.backends.base import Capabilities, Executable
from anabranch.backends.reference import ReferenceBackend
from anabranch.core.graph import Graph


class NativeBackend:
    """Machine code for loops, and calls back into the reference for what has none yet.

    A graph that logs values at each run is left to the reference as a whole.
    """

    name = "native"
    capabilities = Capabilities()

    def compile(self, graph: Graph) -> Executable:
        if any(node.logs for node in graph.nodes):
            return ReferenceBackend().compile(graph)
        module = importlib.import_module("anabranch.backends.native.executable")
        made: Executable = module.NativeExecutable(graph)
        return made
