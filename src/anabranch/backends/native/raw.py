"""A program without the entry's checks: its C function, and calls on arrays that stay in place."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.backends.native import calls, layout, loading, modules
from anabranch.backends.native.methods import free_workspace, python_function
from anabranch.backends.native.table import TableWriter
from anabranch.core.aval import Aval, Shape
from anabranch.core.dtype import DType
from anabranch.errors import ArgumentError

_NO_ARGUMENTS = 0x4


@dataclass(frozen=True)
class Slot:
    """One argument or result: in C, a pointer to so many elements in C order."""

    name: str
    dtype: DType
    shape: Shape


class RawText(TableWriter):
    """The IR of the C functions around a program."""

    def __init__(self, arguments: int, fixed: int, results: int, workspace: int) -> None:
        super().__init__()
        self._counts = arguments, fixed, results
        functions = [self._raw(workspace), self._bound(), self._of_doubles()]
        size = max(len(self.slots), 1)
        self.ir = "\n".join([f"@table = global [{size} x ptr] zeroinitializer", *functions, ""])

    def _finished(self, head: str) -> str:
        lines, self._lines = self._lines, []
        self._block = "entry"
        return "\n".join([f"{head} {{", "entry:", *lines, "}"])

    def _raw(self, workspace: int) -> str:
        """Status of a run on the addresses of arguments and results: 0, 1 raised, 2 no memory."""
        arguments, fixed, results = self._counts
        given = self._new(f"alloca ptr, i64 {max(arguments + fixed + results, 1)}")
        for i in range(arguments):
            self._copied(given, i, "%arguments", i)
        for i in range(fixed):
            place = self._entry(given, arguments + i)
            self._line(f"store ptr {self._slot(f'fixed {i}')}, ptr {place}")
        for i in range(results):
            self._copied(given, arguments + fixed + i, "%results", i)
        space = self._taken(workspace, "short") if workspace else "null"
        status = self._run(given, space)
        if workspace:
            self._put_back(space)
        self._line(f"ret i32 {status}")
        if workspace:
            self._label("short")
            self._line("ret i32 2")
        return self._finished("define i32 @raw(ptr %arguments, ptr %results)")

    def _copied(self, given: str, place: int, source: str, i: int) -> None:
        address = self._new(f"load ptr, ptr {self._entry(source, i)}")
        self._line(f"store ptr {address}, ptr {self._entry(given, place)}")

    def _run(self, given: str, space: str) -> str:
        context = f"ptr {self._slot('context')}"
        return self._call("i32", "program", f"ptr {given}", f"ptr {space}", context)

    def _bound(self) -> str:
        """A Python function without arguments: all addresses lie in the array that is its self."""
        given = self._field("%self", layout.DATA)
        space = self._new(f"load ptr, ptr {self._entry(given, sum(self._counts))}")
        status = self._run(given, space)
        self._go_on_if(self._is("i32", status, 0), "raised")
        none = self._slot("none")
        self._do("Py_IncRef", f"ptr {none}")
        self._line(f"ret ptr {none}")
        self._label("raised")
        self._line("ret ptr null")
        return self._finished("define ptr @bound(ptr %self, ptr %unused)")

    def _of_doubles(self) -> str:
        """The first result, a double, of arguments that are doubles in a row; NaN if that fails."""
        arguments, _, results = self._counts
        given = self._new(f"alloca ptr, i64 {max(arguments, 1)}")
        for i in range(arguments):
            place = self._new(f"getelementptr double, ptr %x, i64 {i}")
            self._line(f"store ptr {place}, ptr {self._entry(given, i)}")
        out = self._new("alloca double")
        outs = self._new(f"alloca ptr, i64 {max(results, 1)}")
        self._line(f"store ptr {out}, ptr {outs}")
        status = self._new(f"call i32 @raw(ptr {given}, ptr {outs})")
        value = self._new(f"load double, ptr {out}")
        good = self._is("i32", status, 0)
        nan = "double 0x7FF8000000000000"
        self._line(f"ret double {self._new(f'select i1 {good}, double {value}, {nan}')}")
        return self._finished("define double @of_doubles(i32 %n, ptr %x)")


class Raw:
    """A compiled program as a C function, for callers who check their arguments themselves.

    Nothing stands between the caller and the machine code. Whoever calls `address` or `function`
    guarantees that each pointer leads to memory as the signature says: of that dtype and shape, in
    C order, aligned to its elements, alive and at rest during the call, and for results writeable
    and apart from everything else. Anything else reads or writes foreign memory. What `bind` gives
    is safe as long as nobody changes the bound arrays while it runs, in another thread; only one
    thread may run it at a time.

    Values that the function captured are those that it had when this was made: names are not
    looked up again, but arrays in C order are read where they lie. Options of a block
    (`ab.config`), running traces and `ab.inspect` are not noticed.

    Attributes:
        parameters: the arguments in order, each with `name`, `dtype` and `shape`.
        outputs: the results in order.
        donated: for parameters whose memory a result takes, that result: both pointers are equal.
        address: of the C function `int f(void *const *arguments, void *const *results)`. It gives
            0; 1 if a part that runs in Python raised (the error is set); 2 if there was no memory.
            It may be called from any thread, with Python's lock or without it, as long as this
            object lives.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> f = ab.compile(lambda x, y: ab.value_and_grad(lambda x: (x * y + x) ** 2)(x))
        >>> raw = f.raw(2.0, 3.0)
        >>> [(one.name, str(one.dtype), one.shape) for one in raw.parameters]
        [('x', 'float64', ()), ('y', 'float64', ())]
        >>> (x, y), (z, dx) = raw.arrays()
        >>> run = raw.bind((x, y), (z, dx))
        >>> x[...], y[...] = 2.0, 3.0
        >>> run()
        >>> float(z), float(dx)
        (64.0, 64.0)
    """

    def __init__(
        self,
        slots: tuple[Sequence[Slot], Sequence[Slot]],
        fixed: Sequence[np.ndarray[Any, Any]],
        donated: Mapping[int, int],
        program: int,
        context: calls.Context,
        workspace: int,
        owner: Any,
    ) -> None:
        self.parameters, self.outputs = map(tuple, slots)
        self.donated = donated
        self._fixed = list(fixed)
        self._held = context, owner
        self._workspace = workspace
        self._resting = ctypes.c_void_p()
        text = RawText(len(self.parameters), len(fixed), len(self.outputs), workspace)
        names = ["table", "raw", "bound", "of_doubles"]
        self._loaded = loading.Loaded([modules.object_code(text.ir)], names)
        addresses = {
            "resting": ctypes.addressof(self._resting),
            "program": program,
            "context": context.address,
            "none": id(None),
            **{f"fixed {i}": array.ctypes.data for i, array in enumerate(fixed)},
        }
        table = (ctypes.c_void_p * len(text.slots)).from_address(self._loaded.addresses["table"])
        for slot, place in text.slots.items():
            table[place] = addresses[slot] if slot in addresses else layout.address(slot)
        self.address = self._loaded.addresses["raw"]

    def __del__(self, free: Callable[[int | None], None] = free_workspace) -> None:
        free(self._resting.value)

    @property
    def function(self) -> Any:
        """The C function for `ctypes`; it raises what Python raised."""
        kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        return self._holding(kind(self.address))

    def _holding(self, function: Any) -> Any:
        function.raw = self  # its code lives as long as this object
        return function

    def arrays(self) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
        """New arrays for the arguments and for the results, to be filled and bound."""
        arguments = [np.zeros(one.shape, one.dtype) for one in self.parameters]
        results = [np.zeros(one.shape, one.dtype) for one in self.outputs]
        for parameter, output in self.donated.items():
            results[output] = arguments[parameter]
        return arguments, results

    def bind(self, arguments: Sequence[Any], results: Sequence[Any]) -> Any:
        """A function without arguments that computes these results from these arguments.

        The arrays are checked here, once; the function holds them. Each call reads what they hold
        then, writes the results, and returns None.

        Raises:
            ArgumentError: `[bad-binding]` for an array that does not fit the signature.
        """
        _require_fit("argument", self.parameters, arguments, False)
        _require_fit("result", self.outputs, results, True)
        own = [one for i, one in enumerate(results) if i not in self.donated.values()]
        if any(np.shares_memory(one, other) for one in own for other in (*arguments, *self._fixed)):
            raise _unfit("a result shares memory with an argument")
        for parameter, output in self.donated.items():
            if results[output] is not arguments[parameter]:
                name = self.parameters[parameter].name
                raise _unfit(f"result {output} is written into {name}, and must be the same array")
        space = np.empty(self._workspace + 64, np.uint8)
        held = [*arguments, *self._fixed, *results, space[-space.ctypes.data % 64 :]]
        bound = np.array([array.ctypes.data for array in held], np.uintp).view(_Bound)
        bound.held = held, self
        code = self._loaded.addresses["bound"]
        return python_function("bound", code, bound, _NO_ARGUMENTS)

    @property
    def of_doubles(self) -> Any:
        """`double f(int n, double *x)` as a `ctypes` function, for a program of such numbers.

        This is what `scipy.LowLevelCallable` takes. A call that fails gives NaN.

        Raises:
            ArgumentError: `[bad-binding]` if an argument or the only result is not `f64[]`.

        Example:
            >>> import anabranch as ab
            >>> from scipy import LowLevelCallable, integrate
            >>> f = ab.compile(lambda x, a: a * ab.exp(-x))
            >>> callable = LowLevelCallable(f.raw(0.0, 2.0).of_doubles)
            >>> round(integrate.quad(callable, 0.0, 1.0, args=(2.0,))[0], 9)
            1.264241118
        """
        every = (*self.parameters, *self.outputs)
        if len(self.outputs) != 1 or any(one.shape or one.dtype != np.float64 for one in every):
            raise _unfit("of_doubles is for arguments and one result that are f64[]")
        kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int, ctypes.POINTER(ctypes.c_double))
        return self._holding(kind(self._loaded.addresses["of_doubles"]))


class _Bound(np.ndarray[Any, Any]):
    """The addresses of a bound call, and what must live as long."""

    held: Any
    definition: Any


def _require_fit(word: str, slots: Sequence[Slot], arrays: Sequence[Any], is_written: bool) -> None:
    if len(slots) != len(arrays):
        raise _unfit(f"there are {len(slots)} {word}s, got {len(arrays)}")
    for i, (slot, array) in enumerate(zip(slots, arrays, strict=True)):
        wanted = Aval(slot.shape, slot.dtype)
        if not isinstance(array, np.ndarray):
            raise _unfit(f"{word} {i} is an array {wanted}, got a {type(array).__name__}")
        if array.dtype != slot.dtype or array.shape != slot.shape or not array.dtype.isnative:
            raise _unfit(f"{word} {i} is {wanted}, got {array.dtype}{list(array.shape)}")
        if not (array.flags.c_contiguous and array.flags.aligned):
            raise _unfit(f"{word} {i} is not contiguous in C order")
        if is_written and not array.flags.writeable:
            raise _unfit(f"{word} {i} is read-only")
    if is_written:
        for i, array in enumerate(arrays):
            if any(np.shares_memory(array, other) for other in arrays[:i]):
                raise _unfit(f"result {i} shares memory with another one")


def _unfit(sentence: str) -> ArgumentError:
    return ArgumentError("bad-binding", sentence)
