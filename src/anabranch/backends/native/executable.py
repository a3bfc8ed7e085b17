"""A graph as machine code, called through its entry."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.backends.base import Call, Wanted
from anabranch.backends.native import calls, layout, loading, modules, pool
from anabranch.backends.native.code import Callback, code_of, view_of
from anabranch.backends.native.described import Way, are_found, is_taken
from anabranch.backends.native.methods import free_workspace, python_function
from anabranch.backends.native.results import result_pool
from anabranch.backends.native.view import View
from anabranch.backends.reference import blame, reference
from anabranch.core import attention, spare
from anabranch.core.aval import Aval
from anabranch.core.graph import Graph
from anabranch.core.late import LateModule
from anabranch.core.locks import Lock
from anabranch.core.node import Literal
from anabranch.core.once import once
from anabranch.core.values import settled

if TYPE_CHECKING:
    from anabranch.backends.native import account, entry, expand, target, timing
    from anabranch.backends.native import program as programs
    from anabranch.backends.native import raw as unchecked
    from anabranch.backends.plan import Plan, Timing
else:  # what writes code and looks at it is not loaded where the code is on disk
    account = LateModule("anabranch.backends.native.account")
    entry = LateModule("anabranch.backends.native.entry")
    expand = LateModule("anabranch.backends.native.expand")
    programs = LateModule("anabranch.backends.native.program")
    target = LateModule("anabranch.backends.native.target")
    timing = LateModule("anabranch.backends.native.timing")
    unchecked = LateModule("anabranch.backends.native.raw")

LONG = 30_000.0  # ns from which on a program lets Python's other threads run
_LARGE = 65_536  # bytes of a result from which on its pages cost more than a look into the pool


class NativeExecutable:
    """Parameters in, outputs out; several threads may run it at once."""

    def __init__(self, wanted: Wanted) -> None:
        made = _Made(wanted)
        self._wanted, self._made = wanted, made
        self.code = code = code_of(wanted, made)
        self.donated = code.donated
        graph = wanted.built if code.is_as_built else wanted.optimised
        self._parameters = [(str(node.name), node.avals[0]) for node in graph.parameters]
        self._outputs = graph.outputs
        self._constants = code.constants
        self._context = calls.Context(_Islands(made, code.called))
        self._lock = Lock()
        self._found: loading.Loaded | None = None
        if not wanted.is_called:
            self._load()
        self._dtypes = [aval.dtype for _, aval in self._parameters]
        self._spare: deque[np.ndarray[Any, Any]] = deque(maxlen=8)  # workspaces at rest
        _executables.add(self)

    def _load(self) -> loading.Loaded:
        """Its code in memory; the first who asks waits until all is made."""
        with self._lock:
            if self._found is None:
                imports = pool.imports(self.code.shares)
                self._found = loading.Loaded(self.code.objects(), ["entry"], imports)
            return self._found

    @once
    def program(self) -> programs.Program:
        """How the code was written; for looking at it, since runs need none of this."""
        with self._wanted.as_asked():  # what is looked at later is what was made
            return programs.Program(self._made(), target.host().vector_bytes, self.donated)

    def function(self, call: Call) -> Callable[..., Any] | None:
        """The program as a Python function of its parameters; None where there can be none."""
        outputs, avals = self._outputs, [aval for _, aval in self._parameters]
        if (
            not layout.is_known()
            or any(isinstance(edge, Literal) for edge in outputs)
            or not all(is_taken(aval) for aval in avals)
            or not are_found(call)
        ):
            return None
        results = [edge.aval for edge in outputs]
        scalars = {aval.dtype for aval in (*avals, *results) if not aval.shape}
        if not all(map(layout.scalar_is_known, scalars)):
            return None
        spares = result_pool()
        constants, workspace = len(self._constants), self.code.workspace
        rest = self.donated, workspace, spares is not None, self.code.time > LONG
        way = Way(call, avals, constants, results, *rest)
        described, objects = way.described()

        def write() -> modules.Written:
            text = entry.Text(way, objects)
            return text.ir, list(text.slots)

        code, slots = modules.described_code(described, write)
        loaded = loading.Loaded([code], ["call", "table"])
        resting = ctypes.c_void_p()  # the workspace that no call is using
        held = {f"object {i}": one for i, one in enumerate(objects.held)} | {"slow": call.slow}
        pointers = (ctypes.c_void_p * len(slots)).from_address(loaded.addresses["table"])
        pointers[:] = [
            id(held[slot]) if slot in held else self._address(slot, resting) for slot in slots
        ]
        keeper = _Keeper(loaded, resting, workspace, held, self)
        return python_function(call.name, loaded.addresses["call"], keeper)

    def raw(self, captured: Sequence[np.ndarray[Any, Any]]) -> unchecked.Raw | None:
        """The program without checks; None if it has a result that is a fixed number."""
        if any(isinstance(edge, Literal) for edge in self._outputs):
            return None
        parameters = self._parameters[: len(self._parameters) - len(captured)]
        outputs = [(f"result {i}", edge.aval) for i, edge in enumerate(self._outputs)]
        first, second = (
            [unchecked.Slot(name, aval.dtype, aval.shape) for name, aval in one]
            for one in (parameters, outputs)
        )
        code = self._load().addresses["entry"], self._context, self.code.workspace
        return unchecked.Raw(
            (first, second), [*captured, *self._constants], self.donated, *code, self
        )

    def _address(self, slot: str, resting: ctypes.c_void_p) -> int | None:
        """Of what an entry asks for by name."""
        if slot == "resting":
            return ctypes.addressof(resting)
        if slot == "program":
            return self._load().addresses["entry"]
        if slot == "context":
            return self._context.address
        if slot == "attention":
            return attention.ADDRESS
        spares = result_pool()
        if spares is not None and slot in spares.addresses:
            return spares.addresses[slot]
        word, _, number = slot.partition(" ")
        if word == "constant":
            return int(self._constants[int(number)].ctypes.data)
        return layout.address(slot)

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """The outputs, each in memory of its own or of a donated parameter."""
        program = self._load().addresses["entry"]
        outputs = self.filled(functools.partial(calls.unlocked(), program), arguments)
        return [
            edge.value if array is None else _result(array, edge.aval)
            for array, edge in zip(outputs, self._outputs, strict=True)
        ]

    def filled(
        self, run: Callable[..., Any], arguments: Sequence[Any], *more: Any
    ) -> list[np.ndarray[Any, Any] | None]:
        """The arrays that a program fills, None for a number; it gets these pointers as well."""
        given = [
            np.ascontiguousarray(value, dtype)
            for value, dtype in zip(arguments, self._dtypes, strict=True)
        ]
        reused = {}
        for parameter, output in self.donated.items():  # the array itself, which can be written to
            given[parameter] = reused[output] = arguments[parameter]
        outputs = [
            None if isinstance(edge, Literal) else reused[i] if i in reused else _fresh(edge.aval)
            for i, edge in enumerate(self._outputs)
        ]
        addresses = [
            0 if array is None else array.ctypes.data
            for array in (*given, *self._constants, *outputs)
        ]
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        workspace = self._workspace()
        run(table, workspace.ctypes.data, self._context.address, *more)
        self._spare.append(workspace)
        return outputs

    # Looking at it

    def plan(self) -> Plan:
        """Its steps, and where its values lie."""
        return account.plan_of(self.program)

    def text(self, kind: str) -> str | None:
        """Its IR or assembly."""
        modules = self.program.modules
        return "\n".join(modules if kind == "ir" else map(target.assembly, modules))

    def timing(self, arguments: Sequence[Any]) -> Timing | None:
        """Seconds for each step, measured in a build of the same program that looks at a clock."""
        with self._wanted.as_asked():
            return timing.measured(self, self._made(), arguments)

    def _workspace(self) -> np.ndarray[Any, Any]:
        try:
            return self._spare.pop()
        except IndexError:
            block = np.empty(self.code.workspace + 64, np.uint8)
            return block[-block.ctypes.data % 64 :]

    def give_workspaces(self) -> int:
        """Free the workspaces that rest here; gives their bytes."""
        resting, self._spare = self._spare, deque(maxlen=8)
        return sum(space.nbytes for space in resting)


class _Keeper:
    """What a Python function in machine code needs to stay alive."""

    definition: Any = None

    def __init__(
        self, loaded: loading.Loaded, resting: ctypes.c_void_p, size: int, *held: Any
    ) -> None:
        self._resting = resting
        self._size = size
        self._loaded = loaded
        self._held = held
        _keepers.add(self)

    def __del__(self, free: Callable[[int | None], None] = free_workspace) -> None:
        free(self._resting.value)

    def give_workspace(self) -> int:
        """Free the workspace that rests here; gives its bytes."""
        spares = result_pool()
        space = None if spares is None else spares.emptied(self._resting)
        free_workspace(space)
        return self._size if space else 0


_keepers: weakref.WeakSet[_Keeper] = weakref.WeakSet()
_executables: weakref.WeakSet[NativeExecutable] = weakref.WeakSet()


def _give_workspaces(_: int) -> int:
    given = sum(keeper.give_workspace() for keeper in list(_keepers))
    return given + sum(executable.give_workspaces() for executable in list(_executables))


spare.when_trimmed(_give_workspaces)


class _Made:
    """The optimised graph in terms of ops that have code of their own, once it is asked for."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    @once
    def _graph(self) -> Graph:
        with self._wanted.as_asked():
            return expand.expanded(self._wanted.optimised)

    def __call__(self) -> Graph:
        return self._graph


class _Islands:
    """What a program calls back: it holds no executable, which holds it."""

    def __init__(self, made: _Made, called: Sequence[Callback]) -> None:
        self._made = made
        self._called = called
        self._islands: dict[int, _IslandCall] = {}

    def __call__(self, number: int, frame: int) -> None:
        island = self._islands.get(number)
        if island is None:
            island = self._islands[number] = _IslandCall(self._made(), self._called[number])
        island.run(frame)


class _IslandCall:
    """A node computed by its reference on memory of the program."""

    def __init__(self, graph: Graph, island: Callback) -> None:
        self._node = node = graph.nodes[island.node]
        self._name = graph.name
        self._ref = reference(node)
        self._inputs = [
            edge if view is None else (edge.aval, view_of(view))
            for edge, view in zip(node.inputs, island.views, strict=True)
        ]

    def run(self, frame: int) -> None:
        pointers = ctypes.cast(frame, ctypes.POINTER(ctypes.c_void_p))
        position = 0
        values = []
        for one in self._inputs:
            if isinstance(one, Literal):
                values.append(one.value)
                continue
            aval, view = one
            values.append(_value_at(pointers[position], aval, view))
            position += 1
        with np.errstate(all="ignore"):
            try:
                out = self._ref(*values, **self._node.attrs)
            except Exception as error:
                blame(error, self._node, self._name)
                raise
        outs = out if isinstance(out, tuple) else (out,)
        for i, (value, aval) in enumerate(zip(outs, self._node.avals, strict=True), position):
            target_array = _array_at(pointers[i], aval.shape, aval.dtype)
            target_array[...] = value


def _array_at(address: int | None, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """The memory of a program as an array in C order."""
    return _viewed_at(address, View.whole(shape), dtype)


def _viewed_at(address: int | None, view: View, dtype: Any) -> np.ndarray[Any, Any]:
    """The elements that a view shows of the memory at this address."""
    if 0 in view.shape or address is None:
        return np.empty(view.shape, dtype)
    steps = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
    low = view.offset + sum(step for step in steps if step < 0)
    high = view.offset + sum(step for step in steps if step > 0)
    size = dtype.itemsize
    memory = (ctypes.c_char * ((high - low + 1) * size)).from_address(address + low * size)
    strides = [step * size for step in view.strides]
    return np.ndarray(view.shape, dtype, memory, (view.offset - low) * size, strides)


def _value_at(address: int | None, aval: Aval, view: View) -> Any:
    """A value of the program as the reference takes it, in C order; references own what they give.

    Only a scalar is always a copy: NumPy computes quicker with its own.
    """
    array = settled(np.asarray(_viewed_at(address, view, aval.dtype), order="C"))
    return array.item() if aval.weak else array


def _fresh(aval: Aval) -> np.ndarray[Any, Any]:
    """Memory for a result."""
    spares = result_pool() if aval.size * aval.dtype.itemsize >= _LARGE else None
    return np.empty(aval.shape, aval.dtype) if spares is None else spares.array(aval)


def _result(array: np.ndarray[Any, Any], aval: Aval) -> Any:
    if aval.shape:
        return array
    return array.item() if aval.weak else array[()]
