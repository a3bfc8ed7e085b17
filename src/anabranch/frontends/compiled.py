"""`ab.compile`: trace a function once for each signature, then run the compiled graph."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.core.bind import NUMBERS, state
from anabranch.core.entry import boundary
from anabranch.core.graph import Graph
from anabranch.core.late import LateModule
from anabranch.core.node import Edge
from anabranch.core.replay import replay
from anabranch.core.source import warn
from anabranch.core.values import plain, settled
from anabranch.errors import ArgumentError
from anabranch.frontends.containers import flatten, positional_names
from anabranch.frontends.donation import donated_parameters, given_away
from anabranch.frontends.entries import weakly
from anabranch.frontends.execution import Passes, Program, find_backend
from anabranch.frontends.quick import quick_entry
from anabranch.frontends.signatures import Key, difference, signature
from anabranch.frontends.static import Static, leaf_aval
from anabranch.frontends.tensor import Tensor, make_tensor
from anabranch.frontends.trace import Trace, trace_function

if TYPE_CHECKING:
    from anabranch.frontends import explaining
else:
    explaining = LateModule("anabranch.frontends.explaining")

_CACHE_SIZE = 128
_MANY_COMPILES = 8


class CompiledFunction:
    """A function that runs as a compiled graph; made by `ab.compile`."""

    def __init__(
        self,
        function: Callable[..., Any],
        backend: str | None,
        passes: Passes,
        without: str | Sequence[str],
        static: Iterable[str | int],
        donate: Iterable[str | int],
        verbose: bool,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.backend = backend
        self.passes = passes
        self.without = without
        self.name = getattr(function, "__name__", type(function).__name__)
        self._static = tuple(static)
        self._donate = tuple(donate)
        self._verbose = verbose
        self._cache: OrderedDict[Key, tuple[Trace, Program]] = OrderedDict()
        self._reasons: list[str] = []
        self._last_key: Key | None = None
        self._warned = False
        self._entries = 0  # in machine code
        self._offered: set[tuple[int, ...]] = set()  # programs, and which arguments were tensors

    def __del__(self) -> None:
        # A type of its own is freed by the collector only; its entry goes now.
        if "__call__" in vars(kind := type(self)) and kind is not CompiledFunction:
            del kind.__call__

    def __reduce__(self) -> Any:
        # Copies, too, have nothing compiled yet; a deep copy of a method is one of a copied object.
        if _has_global_name(self):
            return str(vars(self)["__qualname__"])  # as functions are pickled
        rest = self.passes, self.without, self._static, self._donate, self._verbose
        return CompiledFunction, (self.function, self.backend, *rest)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = self._leaves(args, kwargs)
        if state.trace is not None or any(isinstance(leaf, Edge) for leaf in leaves):
            return self.function(*args, **kwargs)  # inside another graph it is part of that graph
        trace, program = self._compiled(leaves, structure, is_called=True)
        values = _values(leaves, trace)
        gives_tensors = any(type(v) is Tensor for v in leaves)
        tracked = any(type(v) is Tensor and v.is_tracked for v in values)
        if state.recording and tracked and (gives_tensors or state.transforms):
            return trace.result(replay(trace.graph, values) if trace.graph.outputs else [])
        if self._offer_quick_entry(trace, program, leaves, structure):
            return self(*args, **kwargs)
        results = program.run(_arguments(program, values)) if trace.graph.outputs else []
        if gives_tensors:
            results = [make_tensor(out) for out in results]
        return trace.result(results)

    @boundary
    def prepared(self, *args: Any, **kwargs: Any) -> tuple[Program, list[Any]]:
        """The compiled graph for these arguments, and one value for each of its parameters."""
        leaves, structure = self._leaves(args, kwargs)
        trace, program = self._compiled(leaves, structure)
        return program, [_plain(v) for v in _values(leaves, trace)]

    def _leaves(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
        if self._static:
            names = positional_names(self.function)
            fixed = {names[s] if isinstance(s, int) else s for s in self._static}
            args = [
                Static(a) if i < len(names) and names[i] in fixed else a for i, a in enumerate(args)
            ]
            kwargs = {k: Static(v) if k in fixed else v for k, v in kwargs.items()}
        return flatten((tuple(args), kwargs))

    def _compiled(
        self, leaves: list[Any], structure: Any, is_called: bool = False
    ) -> tuple[Trace, Program]:
        key = signature(leaves, structure)
        found = self._cache.get(key)
        if found is not None:
            broken = [guard.reason for guard in found[0].guards if not guard.holds()]
            if not broken:
                self._cache.move_to_end(key)
                return found
            self._note("; ".join(dict.fromkeys(broken)))
        else:
            self._note(difference(self._last_key, key))
        log = self._print if self._verbose else lambda _: None
        avals = [leaf_aval(leaf) for leaf in leaves]
        trace = trace_function(
            self.function, avals, structure, name=self.name, backend=self.backend, log=log
        )
        donated = donated_parameters(self.function, self._donate, leaves, structure)
        how = self.backend, self.passes, self.without, donated, is_called
        program = Program(trace.graph, *how)
        log(f"5 compiled by {find_backend(self.backend).name}")
        self._cache[key] = trace, program
        self._last_key = key
        if len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)
        return trace, program

    def _offer_quick_entry(
        self, trace: Trace, program: Program, leaves: list[Any], structure: Any
    ) -> bool:
        """Let machine code take the calls it can; each entry hands on to the one before it.

        True if there is a new one, which may take this call already.
        """
        boxes = id(program), *(type(leaf) is Tensor for leaf in leaves)
        if boxes in self._offered or self._entries == _MANY_COMPILES:
            return False
        self._offered.add(boxes)
        slow = type(self).__call__ if self._entries else weakly(CompiledFunction.__call__, self)
        entry = quick_entry(self.name, trace, program, leaves, structure, slow)
        if entry is not None:  # Python looks up __call__ in the type, so it gets one of its own
            self._entries += 1
            self.__class__ = type("CompiledFunction", (CompiledFunction,), {"__call__": entry})
        return entry is not None

    def _note(self, reason: str) -> None:
        self._reasons.append(reason)
        if len(self._reasons) > _MANY_COMPILES and not self._warned:
            self._warned = True
            warn(f"{self.name} was compiled {len(self._reasons)} times, last because {reason}")

    def _print(self, line: str) -> None:
        print(f"{self.name}: {line}")

    @boundary
    def trace(self, *args: Any, **kwargs: Any) -> Trace:
        """What tracing for these arguments found: the graph as built, captures and constants."""
        return self._compiled(*self._leaves(args, kwargs))[0]

    @boundary
    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The compiled graph for these arguments: as built, optimised, and the passes' reports."""
        return self._compiled(*self._leaves(args, kwargs))[1]

    @boundary
    def raw(self, *args: Any, **kwargs: Any) -> Any:
        """The compiled program for arguments like these as a C function, without any checks.

        The object has the function's address, its signature, and calls on arrays that stay in
        place; what its caller must guarantee is told there and in `docs/native.md`.

        Raises:
            ArgumentError: `[no-machine-code]` on the reference backend, and for a result that is
                a fixed number.

        Example:
            >>> import anabranch as ab, numpy as np
            >>> scale = ab.compile(lambda x: x * 2.0)
            >>> raw = scale.raw(np.zeros(3))
            >>> (x,), (y,) = raw.arrays()
            >>> run = raw.bind([x], [y])
            >>> x[:] = 1.0, 2.0, 3.0
            >>> run()
            >>> y
            array([2., 4., 6.])
        """
        trace, program = self._compiled(*self._leaves(args, kwargs))
        return program.raw([_plain(value) for value in trace.captured])

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The optimised graph for these arguments."""
        return self.program(*args, **kwargs).optimised

    @boundary
    def explain(self, *args: Any, time: bool = False, **kwargs: Any) -> explaining.Explanation:
        """What became of the function for these arguments: passes, steps, memory; `print` it.

        Without arguments it speaks of what was compiled last.

        Args:
            args, kwargs: as for a call; what they would compile is compiled, and nothing is run.
            time: also run it, and measure each step against what a core of this machine can do.

        Raises:
            ArgumentError: `[not-compiled]` without arguments, before anything was compiled.
        """
        if time:
            program, values = self._asked(args, kwargs, with_values=True)
            return explaining.explained(self.name, program, values)
        return explaining.explained(self.name, self._asked(args, kwargs)[0])

    @boundary
    def ir(self, *args: Any, **kwargs: Any) -> str:
        """The LLVM IR for these arguments; without any, of what was compiled last.

        Raises:
            ArgumentError: `[no-machine-code]` on the reference backend, `[not-compiled]`.
        """
        return explaining.code_text(self.name, self._asked(args, kwargs)[0], "ir")

    @boundary
    def asm(self, *args: Any, **kwargs: Any) -> str:
        """The assembly for these arguments; without any, of what was compiled last.

        Raises:
            ArgumentError: `[no-machine-code]` on the reference backend, `[not-compiled]`.
        """
        return explaining.code_text(self.name, self._asked(args, kwargs)[0], "asm")

    def _asked(
        self, args: Sequence[Any], kwargs: dict[str, Any], with_values: bool = False
    ) -> tuple[Program, list[Any]]:
        """The program that is asked about, and values for its parameters if these are needed."""
        if args or kwargs or _takes_nothing(self.function):
            leaves, structure = self._leaves(args, kwargs)
            trace, program = self._compiled(leaves, structure)
            return program, [_plain(v) for v in _values(leaves, trace)]
        if not self._cache:
            raise ArgumentError(
                "not-compiled",
                f"{self.name} was compiled for no arguments yet, so there is nothing to tell",
                hint=f"{self.name}.explain(x), or call it first",
            )
        if with_values:
            raise ArgumentError(
                "bad-argument", f"{self.name}.explain(time=True) needs arguments to run with"
            )
        last = self._cache.get(self._last_key or ()) or next(reversed(self._cache.values()))
        return last[1], []

    def explain_compiles(self) -> str:
        """Why each compile happened, and what each compiled graph holds on to."""
        lines = [f"{self.name}: {len(self._reasons)} compiles"]
        lines += [f"  {i}: {reason}" for i, reason in enumerate(self._reasons, 1)]
        for trace, _ in self._cache.values():
            held = [
                str(p.name)
                for p in trace.graph.parameters[len(trace.graph.parameters) - len(trace.captured) :]
            ]
            lines += [f"  reads {name} at each call" for name in held]
            lines += [f"  constant {line}" for line in trace.constants]
            lines += [
                f"  number {k} = {v!r} is part of the program" for k, v in trace.baked.items()
            ]
        return "\n".join(dict.fromkeys(lines))

    def __repr__(self) -> str:
        return f"<compiled {self.name}, {len(self._cache)} signatures>"


def _values(leaves: Sequence[Any], trace: Trace) -> list[Any]:
    """What a compiled graph takes: the leaves that are no part of the program, and captures."""
    return [v for v in leaves if not isinstance(leaf_aval(v), Static)] + trace.captured


def _plain(value: Any) -> Any:
    """An argument as the executable takes it: C order, no tensor; weak numbers stay Python's."""
    if type(value) is Tensor:
        value = value.value
    return value if type(value) in NUMBERS else settled(plain(value))


def _arguments(program: Program, values: Sequence[Any]) -> list[Any]:
    """The arguments as the executable takes them; donated arrays are those of the caller."""
    arguments = [_plain(v) for v in values]
    if not program.donated:
        return arguments
    names = [str(p.name) for p in program.graph.parameters]
    return given_away(program.donated, values, arguments, names)


def _require_arguments(word: str, function: Callable[..., Any], names: Iterable[str | int]) -> None:
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for name in names:
        if name not in (parameters if isinstance(name, str) else range(len(parameters))):
            raise ArgumentError(
                "no-such-argument",
                f"{word} names {name!r}, the function has: {', '.join(parameters)}",
            )


def _has_global_name(function: CompiledFunction) -> bool:
    """Whether its module has it under the name it was written with, as a decorated one."""
    found: Any = sys.modules.get(str(getattr(function, "__module__", "")))
    for name in str(getattr(function, "__qualname__", "")).split("."):
        found = getattr(found, name, None)
    return found is function


def _takes_nothing(function: Callable[..., Any]) -> bool:
    try:
        return not inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a function that is not written in Python
        return False


@boundary
def compile(
    f: Callable[..., Any] | None = None,
    *,
    backend: str | None = None,
    passes: Passes = None,
    without: str | Sequence[str] = (),
    static: str | int | Iterable[str | int] = (),
    donate: str | int | Iterable[str | int] = (),
    verbose: bool = False,
) -> Any:
    """Make a function run as a compiled graph, traced once for each signature.

    A signature is the containers, shapes and dtypes of array and number arguments (numbers by type
    only, never by value) and the values of static ones: strings, callables and what `static`
    names. Arrays and tensors that `f` captures, and views of them, are read anew at each call.
    Numbers, text and functions it captures, and what NumPy computes of arrays meanwhile, are part
    of the program: it is compiled anew when the name, attribute or item that led to one gives
    another. Inside another trace it becomes part of that graph. It can
    be differentiated, and what it compiles can contain derivatives.

    Args:
        f: the function; without it, a decorator is returned.
        backend: `"native"` (machine code, see `docs/native.md`) or `"reference"` (NumPy, node after
            node); else what `ab.config(backend=...)` says at the call, native if nothing.
        passes: names of passes or pass functions in order; `()` runs the graph as built.
        without: names of passes to leave out.
        static: names or positions of arguments that are part of the program.
        donate: names or positions of arguments that the caller gives away: results are written
            into their arrays, where shape and dtype are the same, and returned as these arrays.
            Results have the same bits as without. A call that raises leaves the arrays untouched;
            numbers and tensors stay as they are. See `docs/native.md`.
        verbose: print the five steps of each trace.

    Raises:
        ArgumentError: `[no-such-argument]`; in a call, `[bad-donation]` for an array that results
            cannot be written into.
        TraceError: `[traced-bool]` for an `if` on a value, and others, while tracing.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> @ab.compile
        ... def norm2(x):
        ...     return (x * x).sum()
        >>> float(norm2(np.array([3.0, 4.0])))
        25.0
        >>> print(norm2.explain_compiles())
        norm2: 1 compiles
          1: first call
    """
    fixed, given = (
        (names,) if isinstance(names, str | int) else tuple(names) for names in (static, donate)
    )

    def decorate(function: Callable[..., Any]) -> CompiledFunction:
        if not callable(function):
            raise ArgumentError("bad-argument", "ab.compile needs a function")
        _require_arguments("static", function, fixed)
        _require_arguments("donate", function, given)
        find_backend(backend)
        rest = without, fixed, given, verbose
        return CompiledFunction(function, backend, passes, *rest)

    return decorate if f is None else decorate(f)
