"""What is kept of a program: its machine code, and what must be known to run that.

It is filed under the structure of the graph, the machine, and everything that decides what code
is written, so that a process that compiles a known graph writes none.
"""

from __future__ import annotations

import functools
import marshal
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.backends.native import disk, target
from anabranch.backends.native.view import View
from anabranch.core.config import options
from anabranch.core.graph import Graph
from anabranch.core.identity import all_parts, structure_hash
from anabranch.core.late import LateModule
from anabranch.core.node import Literal
from anabranch.core.op import Kernel, Op
from anabranch.core.record import record

if TYPE_CHECKING:
    from anabranch.backends.native import emission
    from anabranch.backends.native import program as programs
else:
    emission = LateModule("anabranch.backends.native.emission")
    programs = LateModule("anabranch.backends.native.program")

_ROOMS = ("core", "ops", "backends")  # what decides the code that is written for a graph


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
        objects: object files that are linked together.
        workspace: bytes of memory that a run needs besides arguments and results.
        called: what it calls back for, by the number it asks with.
        time: about how long it takes on one thread, in ns.
        shares: whether threads share its work.
    """

    objects: tuple[bytes, ...]
    workspace: int
    called: tuple[Callback, ...]
    time: float
    shares: bool

    def parts(self) -> list[bytes]:
        """As bytes for the disk."""
        facts = {
            "workspace": self.workspace,
            "called": [asdict(one) for one in self.called],
            "time": self.time,
            "shares": self.shares,
        }
        return [marshal.dumps(facts), *self.objects]

    @classmethod
    def of_parts(cls, parts: Sequence[bytes]) -> Code:
        """What `parts` gave."""
        facts = marshal.loads(parts[0])  # as much to be trusted as the machine code beside it
        called = tuple(Callback(**one) for one in facts["called"])
        return cls(tuple(parts[1:]), facts["workspace"], called, facts["time"], facts["shares"])


def view_of(found: Any) -> View:
    """A view out of what a `Callback` has of it."""
    offset, shape, strides = found
    return View(tuple(shape), tuple(strides), offset)


def code_of(graph: Graph, donated: Mapping[int, int]) -> Code:
    """The code of a graph for this machine: from the disk, or written now."""
    store = disk.store()
    key = None if store is None else _key(graph, donated)
    if store is None or key is None:
        return written(_program(graph, donated), is_kept=True)
    found = store.read(key)
    if found is not None:
        disk.counts.found += 1
        return Code.of_parts(found)
    code = written(_program(graph, donated), is_kept=False)
    store.write(key, code.parts())
    return code


def _program(graph: Graph, donated: Mapping[int, int]) -> programs.Program:
    return programs.Program(graph, target.host().vector_bytes, donated)


def written(program: programs.Program, is_kept: bool) -> Code:
    """The code of a program; what it shares with others is kept on disk, or each of its modules."""
    called = tuple(
        Callback(
            node.id,
            tuple(None if isinstance(e, Literal) else _view(program, e) for e in node.inputs),
        )
        for node in program.called
    )
    kept = program.modules if is_kept else program.shared
    objects = emission.object_codes(program.modules, kept)
    return Code(objects, program.workspace, called, program.time, program.shares)


def _view(program: programs.Program, edge: Any) -> tuple[int, Sequence[int], Sequence[int]]:
    view = program.schedule.places[edge.node.id, edge.index].view
    return view.offset, view.shape, view.strides


def _key(graph: Graph, donated: Mapping[int, int]) -> str | None:
    """What the code of a graph is filed under; None where that cannot be said beforehand."""
    source = _source()
    ops = sorted(set(_ops(graph)), key=lambda op: op.name)
    rules = [f"{op.name} {_rule(op.scalar)} {_rule(op.lower)}" for op in ops]
    if source is None or any("?" in rule for rule in rules):
        return None
    settings = repr((options(), sorted(donated.items())))
    texts = structure_hash(graph), *rules, settings, source, *target.identity()
    return disk.key_of("program", *texts)


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


@functools.lru_cache(maxsize=1)
def _source() -> str | None:
    """A digest of the library's own files that decide what is written; None without files."""
    root = Path(__file__).parents[2]
    found = (one for room in _ROOMS for one in sorted(os.walk(root / room)))
    files = [os.path.join(at, n) for at, _, names in found for n in sorted(names) if _is_code(n)]
    return disk.key_of(*map(_content, files)) if files else None


def _is_code(name: str) -> bool:
    return name.endswith((".py", ".ll"))


def _content(file: str) -> bytes:
    with open(file, "rb", buffering=0) as opened:
        return opened.read()
