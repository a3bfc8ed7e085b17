"""How long each step of a program takes, and what the machine could do."""

from __future__ import annotations

import ctypes
import functools
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from anabranch.backends.native import loading, modules, pool, target
from anabranch.backends.native.program import Program
from anabranch.backends.plan import Limits, Timing
from anabranch.core.graph import Graph

SPENT = 0.2  # seconds that a measurement takes, about
_LEAST, _MOST = 3, 200  # rounds
_NEAR, _FAR = 2**18, 2**26  # bytes that lie in a core's caches, and that do not
_CHAINS, _TURNS = 12, 4_000  # sums that do not wait for one another, and how long they are

_Timed = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)
_Clock = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


class _Runs(Protocol):
    @property
    def donated(self) -> Mapping[int, int]: ...

    def filled(self, run: Any, arguments: Sequence[Any], *more: Any) -> Any: ...


def measured(executable: _Runs, graph: Graph, arguments: Sequence[Any]) -> Timing:
    """Seconds for each step of the graph's program with these arguments, the best of rounds."""
    program = Program(graph, target.host().vector_bytes, executable.donated, is_timed=True)
    objects = modules.object_codes(program.modules, program.modules)
    loaded = loading.Loaded(objects, ["entry"], pool.imports(program.shares))
    code, clock = _Timed(loaded.addresses["entry"]), _clock()
    count = len(program.steps)
    # What the caller has donated to a call is not donated to a measurement.
    arguments = [np.array(x) if i in executable.donated else x for i, x in enumerate(arguments)]
    times = np.zeros((count + 2, 2), np.int64)
    best = np.full(count + 1, np.inf)
    start = time.perf_counter()
    for turn in range(_MOST):
        executable.filled(code, arguments, clock, times.ctypes.data)
        best = np.minimum(best, np.diff(times @ [10**9, 1]))
        if turn + 1 >= _LEAST and time.perf_counter() - start > SPENT:
            break
    seconds = np.maximum(best[1:] - best[0], 0.0) * 1e-9  # the first is what a look takes
    return Timing(tuple(seconds.tolist()), limits())


def _clock() -> Any:
    """The system's clock, as a C function; where there is none, Python's."""
    try:
        return ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p)
    except (AttributeError, OSError, TypeError):
        return _Clock(_note)


def _note(_: int, place: int) -> int:
    pair = (ctypes.c_int64 * 2).from_address(place)
    pair[0], pair[1] = divmod(time.perf_counter_ns(), 10**9)
    return 0


@functools.lru_cache(maxsize=1)
def limits() -> Limits:
    """What one core of this machine can do, measured once in a process."""
    return Limits(
        near=_copied(_NEAR), far=_copied(_FAR), wide=_computed("double"), narrow=_computed("float")
    )


def _copied(size: int) -> float:
    """Bytes a second that are read and written when arrays of so many bytes are copied."""
    source, sink = np.zeros(size // 2, np.uint8), np.ones(size // 2, np.uint8)
    return size / _best(lambda: np.copyto(sink, source))


def _computed(element: str) -> float:
    """Operations a second: products and sums on registers, as many at once as there is room."""
    lanes = target.host().vector_bytes // (8 if element == "double" else 4)
    loaded = loading.Loaded([modules.object_code(_sums(element, lanes))], ["sums"])
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.addresses["sums"])
    place = np.zeros(lanes, np.float64)
    return 2 * lanes * _CHAINS * _TURNS / _best(lambda: run(place.ctypes.data))


def _sums(element: str, lanes: int) -> str:
    kind = f"<{lanes} x {element}>"
    name = f"@llvm.fma.v{lanes}f{64 if element == 'double' else 32}"
    joins = "fma" in target.host().features or not _is_x86()
    lines = [f"declare {kind} {name}({kind}, {kind}, {kind})"] if joins else []
    lines += ["define void @sums(ptr %p) {", "entry:", f"  %x = load {kind}, ptr %p, align 8"]
    lines += ["  br label %turn", "turn:", "  %i = phi i64 [0, %entry], [%j, %turn]"]
    chains = range(_CHAINS)
    lines += [f"  %a{c} = phi {kind} [%x, %entry], [%b{c}, %turn]" for c in chains]
    for c in chains:
        if joins:
            operands = f"{kind} %a{c}, {kind} %x, {kind} %x"
            lines.append(f"  %b{c} = call {kind} {name}({operands})")
        else:
            lines += [f"  %m{c} = fmul {kind} %a{c}, %x", f"  %b{c} = fadd {kind} %m{c}, %x"]
    lines += ["  %j = add i64 %i, 1", f"  %more = icmp slt i64 %j, {_TURNS}"]
    lines += ["  br i1 %more, label %turn, label %done", "done:"]
    total = "%b0"
    for c in chains[1:]:
        lines.append(f"  %s{c} = fadd {kind} {total}, %b{c}")
        total = f"%s{c}"
    lines += [f"  store {kind} {total}, ptr %p, align 8", "  ret void", "}", ""]
    return "\n".join(lines)


def _is_x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64", "x86", "i386", "i686")


def _best(work: Callable[[], Any]) -> float:
    """The shortest time of one run, in seconds."""
    found, start = float("inf"), time.perf_counter()
    for turn in range(_MOST):
        begun = time.perf_counter()
        work()
        found = min(found, time.perf_counter() - begun)
        if turn + 1 >= _LEAST and time.perf_counter() - start > SPENT / 10:
            break
    return found
