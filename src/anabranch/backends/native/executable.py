"""A graph as machine code, called through its entry."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.backends.native import target
from anabranch.backends.native.program import Program
from anabranch.backends.native.schedule import Island
from anabranch.backends.reference import reference
from anabranch.core.aval import Aval
from anabranch.core.graph import Graph
from anabranch.core.node import Literal
from anabranch.core.values import settled
from anabranch.errors import AnabranchError

_Entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_Island = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_void_p)


class NativeExecutable:
    """Parameters in, outputs out; several threads may run it at once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        machine = target.host()
        self.program = program = Program(graph, machine.vector_bytes)
        self._islands = [_IslandCall(graph, island, program) for island in program.islands]
        self._failures: dict[int, BaseException] = {}  # by thread
        myself = weakref.ref(self)  # the callback lies in the program, and must not hold it
        self._callback = _Island(lambda number, frame: _alive(myself)._run_island(number, frame))
        self._loaded = target.Loaded(target.object_code(program.ir), ["entry"])
        self._entry = _Entry(self._loaded.addresses["entry"])
        self._constants = [node.attrs["value"] for node in program.constants]
        self._dtypes = [node.avals[0].dtype for node in graph.parameters]
        self._spare: deque[np.ndarray[Any, Any]] = deque(maxlen=8)  # workspaces at rest

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
            raise self._failures.pop(threading.get_ident())
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


def _alive(reference: weakref.ref[NativeExecutable]) -> NativeExecutable:
    found = reference()
    assert found is not None  # it is running
    return found


class _IslandCall:
    """A node computed by its reference on memory of the program."""

    def __init__(self, graph: Graph, island: Island, program: Program) -> None:
        self._node = node = island.node
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
            except AnabranchError as error:
                error.source = error.source or self._node.source
                error.facts = (*error.facts, f'running {self._node!r} of graph "{self._name}"')
                raise
            except Exception as error:
                error.add_note(
                    f'in {self._node!r} of graph "{self._name}", written at {self._node.source}'
                )
                raise
        outs = out if isinstance(out, tuple) else (out,)
        for i, (value, aval) in enumerate(zip(outs, self._node.avals, strict=True), position):
            target_array = _array_at(pointers[i], aval.shape, aval.dtype)
            target_array[...] = value


def _array_at(address: int | None, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """The memory of a program as an array."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not size or address is None:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


def _value_at(address: int | None, aval: Aval, view: Any) -> Any:
    """A value of the program as the reference takes it, in C order."""
    if 0 in aval.shape or address is None:
        return np.empty(aval.shape, aval.dtype)
    steps = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
    low = view.offset + sum(step for step in steps if step < 0)
    high = view.offset + sum(step for step in steps if step > 0)
    size = aval.dtype.itemsize
    flat = _array_at(address + low * size, (high - low + 1,), aval.dtype)
    found = np.lib.stride_tricks.as_strided(
        flat[view.offset - low :], view.shape, [s * size for s in view.strides], writeable=False
    )
    array = settled(np.array(found, order="C"))
    return array.item() if aval.weak else array


def _result(array: np.ndarray[Any, Any], aval: Aval) -> Any:
    if aval.shape:
        return array
    return array.item() if aval.weak else array[()]
