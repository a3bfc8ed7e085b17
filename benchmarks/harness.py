"""What a benchmark is: the same mathematics for each peer, compared before it is timed.

A workload module defines `WORKLOAD`. Each of its cases is built for a peer by a function that
returns a `Bench`: `step()` is what is timed, `numbers()` gives the values that must agree.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

# What a peer's process imports before its clock starts.
MODULES = {
    "anabranch": "anabranch",
    "numpy": "numpy",
    "torch": "torch",
    "autograd": "autograd.numpy",
    "micrograd": "micrograd.engine",
    "jax": "jax.numpy",
}


@dataclass
class Bench:
    """One peer's version of one case."""

    step: Callable[[], Any]
    numbers: Callable[[], dict[str, Any]]


@dataclass
class Workload:
    """Cases, and for each peer the function that builds them; None from it means: not this case."""

    title: str
    cases: list[str]
    unit: float  # seconds
    unit_name: str
    tolerance: float = 1e-12
    peers: dict[str, Callable[[str], Bench | None]] = field(default_factory=dict)

    def peer(self, name: str) -> Callable[[Callable[[str], Bench | None]], Any]:
        """Register the decorated function as the builder of this peer."""

        def register(build: Callable[[str], Bench | None]) -> Callable[[str], Bench | None]:
            self.peers[name] = build
            return build

        return register


def load(name: str) -> Workload:
    """The workload of a module in this folder."""
    found: Workload = importlib.import_module(name).WORKLOAD
    return found


def environment(peer: str) -> dict[str, str]:
    """The environment of a peer's process: fixed hash seed, no overrides of the BLAS kernels."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    env["PYTHONHASHSEED"] = "0"
    if peer == "jax":
        env |= {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}
    return env


def installed(peers: Iterable[str]) -> list[str]:
    """Those peers that can be imported here."""
    return [p for p in peers if importlib.util.find_spec(MODULES[p].split(".")[0]) is not None]
