"""What is kept of a program: its machine code, and what must be known to run that.

It is filed under the structure of the graph, the machine, and everything that decides what code
is written, so that a process that compiles a known graph writes none. Where only the library's own
passes and ops take part, that is the graph as it was built, and no pass runs either.
"""

from __future__ import annotations

import functools
import marshal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from anabranch.backends.base import Wanted
from anabranch.backends.native import calls, disk, machine, modules, pool, results
from anabranch.backends.native.view import View
from anabranch.core.digest import key_of
from anabranch.core.graph import Graph
from anabranch.core.identity import all_parts, structure_lines
from anabranch.core.late import LateModule
from anabranch.core.leaves import CONSTANT, LEAVES
from anabranch.core.locks import Lock
from anabranch.core.node import Literal
from anabranch.core.op import Kernel, Op
from anabranch.core.record import record
from anabranch.core.registry import is_own
from anabranch.core.values import as_dtype

if TYPE_CHECKING:
    from anabranch.backends.native import program as programs
    from anabranch.backends.native import target
else:
    programs = LateModule("anabranch.backends.native.program")
    target = LateModule("anabranch.backends.native.target")


@record
class Callback:
    """A node that runs in the reference, or may be left to it.

    Attributes:
        node: its number in the graph.
        views: for each input that is no number, how it lies in memory: (offset, shape, strides).
    """

    node: int
    views: tuple[tuple[int, Sequence[int], Sequence[int]] | None, ...]


@record
class Code:
    """The machine code of a program.

    Attributes:
        objects: gives the object files that are linked together, when all are made.
        workspace: bytes of memory that a run needs besides arguments and results.
        called: what it calls back for, by the number it asks with.
        time: about how long it takes on one thread, in ns.
        shares: whether threads share its work.
        donated: for each parameter whose memory a result takes, that result.
        constants: the arrays that a run is handed, in order.
        is_as_built: whether its parameters and outputs are those of the graph as it was built.
    """

    objects: Callable[[], tuple[bytes, ...]]
    workspace: int
    called: tuple[Callback, ...]
    time: float
    shares: bool
    donated: dict[int, int]
    constants: tuple[np.ndarray[Any, Any], ...]
    is_as_built: bool

    def parts(self, graph: Graph) -> list[bytes]:
        """As bytes for the disk; arrays of this graph are named, others written out."""
        own = {id(node.attrs["value"]): node.id for node in graph.nodes if node.op is CONSTANT}
        facts = {
            "workspace": self.workspace,
            "called": [asdict(one) for one in self.called],
            "time": self.time,
            "shares": self.shares,
            "donated": self.donated,
        }
        constants = [
            own.get(id(array), (array.dtype.name, array.shape, array.tobytes()))
            for array in self.constants
        ]
        return [marshal.dumps((facts, constants)), *self.objects()]

    @classmethod
    def of_parts(cls, parts: Sequence[bytes], graph: Graph) -> Code:
        """What `parts` gave, for a graph of the same structure."""
        # As much to be trusted as the machine code beside it.
        facts, constants = marshal.loads(parts[0])
        facts["called"] = tuple(Callback(**one) for one in facts["called"])
        arrays = tuple(
            graph.nodes[one].attrs["value"] if isinstance(one, int) else _array(*one)
            for one in constants
        )
        objects = tuple(parts[1:])
        return cls(lambda: objects, constants=arrays, is_as_built=True, **facts)


def _array(dtype: str, shape: tuple[int, ...], content: bytes) -> np.ndarray[Any, Any]:
    array = np.empty(shape, as_dtype(dtype))
    array.reshape(-1).view(np.uint8)[:] = np.frombuffer(content, np.uint8)
    array.flags.writeable = False
    return array


def view_of(found: Any) -> View:
    """A view out of what a `Callback` has of it."""
    offset, shape, strides = found
    return View(tuple(shape), tuple(strides), offset)


def code_of(wanted: Wanted, made_of: Callable[[], Graph]) -> Code:
    """The code of a graph for this machine: from the disk, or written now.

    `made_of` gives the optimised graph in terms of ops that have code of their own.
    """
    store, source = disk.store(), machine.library()
    identity = machine.identity()
    if store is None or source is None or identity is None:
        return _written(wanted, made_of(), is_kept=store is not None)
    # Where others' passes or ops take part, only what they made says what will run.
    graph = wanted.built if _is_all_ours(wanted) else made_of()
    described = _described(graph)
    if described is None:
        return _written(wanted, made_of(), is_kept=True)
    settings = repr((wanted.passes, wanted.given, wanted.options))
    key = key_of("program", described, settings, source, *_VERSIONS, *identity)
    found = store.read(key)
    if found is not None:
        disk.counts.found += 1
        return Code.of_parts(found, graph)

    def keep(code: Code) -> None:
        if code.is_as_built and machine.is_still(source):
            store.write(key, code.parts(graph))

    return _written(wanted, made_of(), is_kept=False, keep=keep)


# What folds constants, and lays out what is kept.
_VERSIONS = sys.version, np.__version__, ml_dtypes.__version__


def _written(
    wanted: Wanted,
    graph: Graph,
    is_kept: bool,
    keep: Callable[[Code], None] = lambda _: None,
) -> Code:
    """The code of a graph, which may still be in the making.

    What it shares with others is kept on disk, or each of its modules; and the whole by `keep`.
    """
    making = modules.Making()
    modules.begin_fixed([*calls.awaited(), *results.awaited()])
    program = programs.Program(
        graph,
        target.host().vector_bytes,
        wanted.donated,
        closed=lambda text: making.begin([text], [text] if is_kept else []),
    )
    making.begin(program.shared, program.shared)
    if program.shares:
        modules.begin_fixed(pool.awaited())
    called = tuple(
        Callback(
            node.id,
            tuple(None if isinstance(e, Literal) else _view(program, e) for e in node.inputs),
        )
        for node in program.called
    )
    constants = tuple(node.attrs["value"] for node in program.constants)
    known = program.workspace, called, program.time, program.shares
    objects = _Objects(making, program.modules)
    code = Code(objects, *known, wanted.donated, constants, _is_as_built(wanted))
    objects.keep = functools.partial(keep, code)
    return code


class _Objects:
    """The object files of a program, once all are made; who first asks for them keeps them."""

    keep: Callable[[], None] | None = None

    def __init__(self, making: modules.Making, texts: Sequence[str]) -> None:
        self._making, self._texts = making, texts
        self._made: tuple[bytes, ...] | None = None
        self._lock = Lock(threading.RLock)

    def __call__(self) -> tuple[bytes, ...]:
        with self._lock:
            if self._made is None:
                self._made = self._making.codes(self._texts)
                self._texts = ()
                if self.keep is not None:
                    self.keep()
                    self.keep = None  # which leads to this object
            return self._made


def _view(program: programs.Program, edge: Any) -> tuple[int, Sequence[int], Sequence[int]]:
    view = program.schedule.places[edge.node.id, edge.index].view
    return view.offset, view.shape, view.strides


def _is_as_built(wanted: Wanted) -> bool:
    """Whether a run of the optimised graph takes and gives what the graph as built does."""
    built, optimised = wanted.built, wanted.optimised
    avals = [[node.avals[0] for node in graph.parameters] for graph in (built, optimised)]
    if avals[0] != avals[1] or any(isinstance(edge, Literal) for edge in optimised.outputs):
        return False
    return [e.aval for e in built.outputs] == [e.aval for e in optimised.outputs]


# What a program is filed under


def _is_all_ours(wanted: Wanted) -> bool:
    """Whether the graph as built decides, with this library, what will run."""
    return wanted.passes is not None and all(map(_is_ours_alone, set(_ops(wanted.built))))


def _is_ours_alone(op: Op) -> bool:
    return op in LEAVES or is_own(op)


def _described(graph: Graph) -> str | None:
    """What decides the code of a graph; None where that cannot be said."""
    others = sorted({op for op in _ops(graph) if not _is_ours_alone(op)}, key=lambda op: op.name)
    rules = [f"{op.name} {_rule(op.scalar)} {_rule(op.lower)}" for op in others]
    if any("?" in rule for rule in rules):
        return None
    text = "\n".join([*rules, *structure_lines(graph)])
    return None if " at 0x" in text else text  # an attr that is another one in each process


def _ops(graph: Graph) -> Iterator[Op]:
    for part in (graph, *all_parts(graph)):
        for node in part.nodes:
            yield node.op


def _rule(rule: Any) -> str:
    """What decides an op's code: a name, or a function of ours; `?` is somebody else's."""
    if isinstance(rule, str | Kernel):
        return repr(rule)
    if not callable(rule):
        return "-"
    return "ours" if _is_ours(rule) else "?"


def _is_ours(function: Any) -> bool:
    """Whether a function, with all that it holds, is written in this library's files."""
    if isinstance(function, functools.partial):
        held = (function.func, *function.args, *function.keywords.values())
        return all(map(_is_ours, filter(callable, held)))
    if not str(getattr(function, "__module__", "")).startswith("anabranch."):
        return False
    cells = (cell.cell_contents for cell in getattr(function, "__closure__", None) or ())
    return all(map(_is_ours, filter(callable, cells)))
