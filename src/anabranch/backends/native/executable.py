"""A graph as machine code, called through its entry."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.backends.base import Call
from anabranch.backends.native import entry, pool, target
from anabranch.backends.native.expand import expanded
from anabranch.backends.native.program import Program
from anabranch.backends.native.view import View
from anabranch.backends.reference import blame, reference
from anabranch.core.aval import Aval
from anabranch.core.graph import Graph
from anabranch.core.node import Literal, Node
from anabranch.core.values import settled

LONG = 30_000.0  # ns from which on a program lets Python's other threads run

_Entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_Island = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_void_p)


class NativeExecutable:
    """Parameters in, outputs out; several threads may run it at once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        machine = target.host()
        self.program = program = Program(expanded(graph), machine.vector_bytes)
        self._constants = [node.attrs["value"] for node in program.constants]
        self._islands = [_IslandCall(graph, node, program) for node in program.called]
        self._failures: dict[int, BaseException] = {}  # by thread
        myself = weakref.ref(self)  # the callback lies in the program, and must not hold it
        self._callback = _Island(lambda number, frame: _alive(myself)._run_island(number, frame))
        imports = {"pool": pool.address()} if program.shares else {}
        self._loaded = target.Loaded(target.object_code(program.ir), ["entry"], imports)
        self._entry = _Entry(self._loaded.addresses["entry"])
        self._dtypes = [node.avals[0].dtype for node in graph.parameters]
        self._spare: deque[np.ndarray[Any, Any]] = deque(maxlen=8)  # workspaces at rest

    def function(self, call: Call) -> Callable[..., Any] | None:
        """The program as a Python function of its parameters; None where there can be none."""
        outputs, parameters = self._graph.outputs, self._graph.parameters
        avals = [node.avals[0] for node in parameters]
        if (
            not entry.is_offered()
            or any(isinstance(edge, Literal) for edge in outputs)
            or any(aval.weak and aval.dtype != np.float64 for aval in avals)
        ):
            return None
        results = [edge.aval for edge in outputs]
        is_long = self.program.time > LONG
        text = entry.Text(
            call, avals, len(self._constants), results, self.program.workspace, is_long
        )
        loaded = target.Loaded(target.object_code(text.ir), ["call", "table"])
        resting = ctypes.c_void_p()  # the workspace that no call is using
        held = {**text.objects, "slow": call.slow, "fail": self._raise_failure}
        pointers = (ctypes.c_void_p * len(text.slots)).from_address(loaded.addresses["table"])
        for i, slot in enumerate(text.slots):
            pointers[i] = id(held[slot]) if slot in held else self._address(slot, resting)
        return entry.python_function(call.name, _Keeper(loaded, resting, held, self))

    def _address(self, slot: str, resting: ctypes.c_void_p) -> int | None:
        """Of what an entry asks for by name."""
        if slot == "resting":
            return ctypes.addressof(resting)
        if slot == "program":
            return self._loaded.addresses["entry"]
        if slot == "island":
            return ctypes.cast(self._callback, ctypes.c_void_p).value
        word, _, number = slot.partition(" ")
        if word == "constant":
            return int(self._constants[int(number)].ctypes.data)
        return entry.address(slot)

    def _raise_failure(self) -> None:
        raise self._failures.pop(threading.get_ident())

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """The outputs, each in memory of its own."""
        given = [
            np.ascontiguousarray(value, dtype)
            for value, dtype in zip(arguments, self._dtypes, strict=True)
        ]
        outputs = [
            None if isinstance(edge, Literal) else np.empty(edge.aval.shape, edge.aval.dtype)
            for edge in self._graph.outputs
        ]
        addresses = [
            0 if array is None else array.ctypes.data
            for array in (*given, *self._constants, *outputs)
        ]
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        workspace = self._workspace()
        status = self._entry(table, workspace.ctypes.data, self._callback)
        self._spare.append(workspace)
        if status:
            self._raise_failure()
        return [
            edge.value if array is None else _result(array, edge.aval)
            for array, edge in zip(outputs, self._graph.outputs, strict=True)
        ]

    def _workspace(self) -> np.ndarray[Any, Any]:
        try:
            return self._spare.pop()
        except IndexError:
            block = np.empty(self.program.workspace + 64, np.uint8)
            return block[-block.ctypes.data % 64 :]

    def _run_island(self, number: int, frame: int) -> int:
        try:
            self._islands[number].run(frame)
        except BaseException as error:  # it goes on in `run`, above the machine code
            self._failures[threading.get_ident()] = error
            return 1
        return 0


class _Keeper:
    """What a Python function in machine code needs to stay alive."""

    definition: Any = None

    def __init__(self, loaded: target.Loaded, resting: ctypes.c_void_p, *held: Any) -> None:
        self._resting = resting
        self.code = loaded.addresses["call"]
        self._loaded = loaded
        self._held = held

    def __del__(self) -> None:
        entry.release_workspace(self._resting)


def _alive(reference: weakref.ref[NativeExecutable]) -> NativeExecutable:
    found = reference()
    assert found is not None  # it is running
    return found


class _IslandCall:
    """A node computed by its reference on memory of the program."""

    def __init__(self, graph: Graph, node: Node, program: Program) -> None:
        self._node = node
        self._name = graph.name
        self._ref = reference(node)
        places = program.schedule.places
        self._inputs = [
            edge if isinstance(edge, Literal) else (edge.aval, places[edge.node.id, edge.index])
            for edge in node.inputs
        ]

    def run(self, frame: int) -> None:
        pointers = ctypes.cast(frame, ctypes.POINTER(ctypes.c_void_p))
        position = 0
        values = []
        for one in self._inputs:
            if isinstance(one, Literal):
                values.append(one.value)
                continue
            aval, place = one
            values.append(_value_at(pointers[position], aval, place.view))
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


def _result(array: np.ndarray[Any, Any], aval: Aval) -> Any:
    if aval.shape:
        return array
    return array.item() if aval.weak else array[()]
