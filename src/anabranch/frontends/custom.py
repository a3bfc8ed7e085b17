"""Functions with a derivative of the user's own: a rule that is a graph.

A call traces the function and its rule for the shapes at hand and applies one op, made of the two
graphs, to the arguments. What either of them captures becomes a further input of that op, so the
graphs are closed, saved values stay nodes, and the walks treat the op like any other.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core.aval import Aval, aval_of
from anabranch.core.bind import bind, located
from anabranch.core.entry import boundary
from anabranch.core.node import Edge
from anabranch.core.op import NO_GRADIENT, UNSUPPORTED
from anabranch.core.replay import replay
from anabranch.core.source import RawSource, Source
from anabranch.core.values import ARRAYS
from anabranch.errors import ArgumentError, DTypeError, ShapeError
from anabranch.frontends.closed import ClosedGraph, cut
from anabranch.frontends.containers import argument_names, flatten, leaf_names, unflatten
from anabranch.frontends.custom_op import custom_op
from anabranch.frontends.tensor import Tensor

Function = Callable[..., Any]


class CustomDerivative:
    """A function with a rule for its cotangents; made by `ab.custom_derivative`."""

    def __init__(self, function: Function, saves: bool) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.rule: Function | None = None
        self.signature: inspect.Signature | None
        self._saves = saves
        try:
            self.signature = inspect.signature(function)
        except (TypeError, ValueError):  # some functions written in C
            self.signature = None

    @boundary
    def define_vjp(self, rule: Function) -> Function:
        """Set the rule; as a decorator it leaves the rule's name usable."""
        if not callable(rule):
            raise ArgumentError(
                "bad-argument", f"a rule is a function, not a {type(rule).__name__}"
            )
        self.rule = rule
        return rule

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.rule is None:
            raise ArgumentError(
                "bad-argument",
                f"{_name(self.function)} has no rule yet",
                hint=f"@{_name(self.function)}.define_vjp decorates rule(ct, out, *args)",
            )
        return _Call(self.function, self.rule, self._saves, _positional(self, args, kwargs)).run()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<custom derivative of {_name(self.function)}>"


@boundary
def custom_derivative(
    f: Function | None = None, *, vjp: Function | None = None, saves: bool = False
) -> Any:
    """Give a function a derivative of its own, by a rule that is a graph.

    `rule(ct, out, *args)` gets the cotangent of f's result, the result and the arguments, each in
    its container, and returns the cotangents of the arguments: a tuple with one entry for each, or
    the entry alone where there is one argument. The rule must be linear in ct; then the tangent
    rule of forward mode follows by transposition. Written with ab functions it has derivatives of
    its own, so every higher order is right.

    f and the rule are traced at each call, for shapes and dtypes only: no Python `if` on values.
    Python integers, bools, strings and functions are part of the program. Arrays and tensors that
    either one captures are read; a derivative by what f captures is refused, because the rule does
    not speak of it.

    Args:
        f: any function of arrays or containers of them; without it, a decorator is returned.
        vjp: the rule; `f.define_vjp` sets it later.
        saves: whether f returns (result, saved). Callers see the result alone, and the rule is
            `rule(ct, out, saved, *args)`. Saved values keep their own ordinary derivatives.

    Entries of the rule's result have the argument's container and shapes. An argument, or a leaf
    of one, whose entry is None has no gradient: a structural zero. Integer arguments need None.

    Raises:
        ArgumentError: `[argument-count]` for a wrong number of cotangents, `[container-mismatch]`
            for another container, `[bad-argument]` without a rule. All of these at the first
            call, also without any derivative.
        ShapeError: `[shape-mismatch]` for a cotangent unlike its argument.
        DTypeError: `[integer-gradient]` for a cotangent of, or for, an integer.
        NoGradientError: `[no-gradient-rule]` for a derivative by a captured value, and in forward
            mode for a rule that is not linear in ct.

    Example:
        >>> import anabranch as ab
        >>> @ab.custom_derivative
        ... def clipped(x):
        ...     return ab.clip(x, -1.0, 1.0)
        >>> @clipped.define_vjp
        ... def straight_through(ct, out, x):
        ...     return ct
        >>> float(ab.grad(clipped)(3.0))
        1.0
    """

    def decorate(function: Function) -> CustomDerivative:
        if not callable(function):
            raise ArgumentError("bad-argument", "custom_derivative needs a function")
        made = CustomDerivative(function, saves)
        if vjp is not None:
            made.define_vjp(vjp)
        return made

    return decorate if f is None else decorate(f)


def _name(function: Function) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() else "custom"


def _positional(f: CustomDerivative, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """The arguments in order, defaults filled in, as the rule will get them."""
    if f.signature is not None:
        bound = f.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        args, kwargs = bound.args, bound.kwargs
    if kwargs:
        raise ArgumentError(
            "bad-argument",
            f"{_name(f.function)} takes {', '.join(kwargs)} by keyword only, but a rule gets"
            " arguments by position",
        )
    return tuple(args)


def _is_value(leaf: Any) -> bool:
    """Whether an argument's leaf is a value of the graph; others are part of the program."""
    return isinstance(leaf, (*ARRAYS, Tensor, Edge)) or type(leaf) in (float, complex)


class _Call:
    """One call: the two traces, and the op that is made of them."""

    def __init__(self, function: Function, rule: Function, saves: bool, args: Any) -> None:
        self.function, self.rule, self.saves = function, rule, saves
        self.name = _name(function)
        self.leaves, self.structure = flatten(args)
        names = argument_names(function, len(args))
        self.names = [
            leaf
            for child, name in zip(self.structure.children(), names, strict=True)
            for leaf in leaf_names(child, name)
        ]
        self.values = [leaf for leaf in self.leaves if _is_value(leaf)]

    def run(self) -> Any:
        body = self._traced_body()
        if not self.outputs:
            return unflatten(self.out_structure, self.out_leaves)
        captured = [value for value, _ in body.captured.values()]
        inputs = [*self.values, *captured]
        saved = self._saved_values(body, inputs)
        laws = self._traced_rule(body, saved)
        more = [value for value, _ in list(laws.captured.values())[len(captured) :]]
        slots = [*self.slots, *[_CAPTURED] * len(captured), *[NO_GRADIENT] * len(saved + more)]
        main = cut(body, self.outputs, self.saved)
        op, attrs = custom_op(self.name, main.closed(), laws.closed(), slots)
        out = bind(op, *inputs, *saved, *more, **attrs)
        return self._result(out if isinstance(out, tuple) else (out,), self.out_leaves)

    def _result(self, values: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """f's container, with these values in the place of its arrays."""
        left = iter(values)
        return unflatten(
            self.out_structure,
            [
                next(left) if is_array else leaf
                for leaf, is_array in zip(leaves, self.is_array, strict=True)
            ],
        )

    # The function

    def _traced_body(self) -> ClosedGraph:
        body = ClosedGraph(self.name)
        args = self._arguments(body)
        with body.running():
            out = self.function(*args)
        self.saved_out: Any = None
        if self.saves:
            if not isinstance(out, tuple) or len(out) != 2:
                raise ArgumentError(
                    "no-aux", f"with saves=True {self.name} must return (result, saved)"
                )
            out, self.saved_out = out
        self.out_leaves, self.out_structure = flatten(out)
        edges = [body.edge(leaf) for leaf in self.out_leaves]
        self.is_array = [edge is not None for edge in edges]
        self.outputs = [edge for edge in edges if edge is not None]
        self.saved_leaves, self.saved_structure = flatten(self.saved_out)
        self.saved_edges = [body.edge(leaf) for leaf in self.saved_leaves]
        self.saved = [edge for edge in self.saved_edges if edge is not None]
        return body

    def _arguments(self, graph: ClosedGraph) -> tuple[Any, ...]:
        """The arguments with parameters of the graph in the place of values."""
        placed = [
            graph.given(name, aval_of(leaf)) if _is_value(leaf) else leaf
            for leaf, name in zip(self.leaves, self.names, strict=True)
        ]
        made: tuple[Any, ...] = unflatten(self.structure, placed)
        return made

    def _saved_values(self, body: ClosedGraph, inputs: Sequence[Any]) -> list[Any]:
        """What the rule keeps, as ordinary values with their ordinary derivatives."""
        if not self.saved:
            return []
        body.set_outputs(self.saved)
        return replay(body, inputs)

    # The rule

    def _traced_rule(self, body: ClosedGraph, saved: Sequence[Any]) -> ClosedGraph:
        laws = ClosedGraph(f"vjp of {self.name}")
        cts = [laws.given(f"ct {i}", _strong(e.aval)) for i, e in enumerate(self.outputs)]
        outs = [laws.given(f"out {i}", e.aval) for i, e in enumerate(self.outputs)]
        args = self._arguments(laws)
        for key, (value, node) in body.captured.items():
            laws.captured[key] = value, laws.given(str(node.name), node.avals[0])
        kept = iter([laws.given(f"saved {i}", e.aval) for i, e in enumerate(self.saved)])
        extra: tuple[Any, ...] = ()
        if self.saves:
            leaves = zip(self.saved_leaves, self.saved_edges, strict=True)
            placed = [leaf if edge is None else next(kept) for leaf, edge in leaves]
            extra = (unflatten(self.saved_structure, placed),)
        nothing = [None] * len(self.out_leaves)
        with laws.running():
            found = self.rule(
                self._result(cts, nothing), self._result(outs, self.out_leaves), *extra, *args
            )
            self.slots = self._slots(laws, self._entries(found))
        return laws

    def _entries(self, found: Any) -> list[Any]:
        """The rule's result as one entry for each leaf of the arguments; None for no gradient."""
        children = self.structure.children()
        if len(children) == 1 and not (
            isinstance(found, tuple) and len(found) == 1 and not _fits(found, children[0])
        ):
            found = (found,)
        if not isinstance(found, tuple | list) or len(found) != len(children):
            got = len(found) if isinstance(found, tuple | list) else f"a {type(found).__name__}"
            raise self._complaint(
                ArgumentError,
                "argument-count",
                f"the rule of {self.name} must return {len(children)} cotangents, one for each"
                f" argument, got {got}",
                hint="None stands for an argument without gradient",
            )
        entries: list[Any] = []
        for entry, child in zip(found, children, strict=True):
            picked = [None] * child.num_leaves if entry is None else _picked(entry, child)
            if picked is None:
                place = self.names[len(entries)] if child.num_leaves else "an argument"
                raise self._complaint(
                    ArgumentError,
                    "container-mismatch",
                    f"the rule of {self.name} returns a {type(entry).__name__} for the argument"
                    f' that holds "{place}", need its container',
                )
            entries += picked
        return entries

    def _slots(self, laws: ClosedGraph, entries: Sequence[Any]) -> list[Any]:
        """For each value among the arguments: the output of the rule, or why there is none."""
        outputs: list[Any] = []
        slots: list[Any] = []
        for name, leaf, entry in zip(self.names, self.leaves, entries, strict=True):
            if entry is not None:
                edge = self._checked(laws, name, leaf, entry)
                slots.append(len(outputs))
                outputs.append(edge)
            elif _is_value(leaf):
                slots.append(NO_GRADIENT)
        if outputs:
            laws.set_outputs(outputs)
        return slots

    def _checked(self, laws: ClosedGraph, name: str, leaf: Any, entry: Any) -> Any:
        kind = aval_of(leaf) if _is_value(leaf) else None
        if kind is None or not kind.is_floating:
            raise self._complaint(
                DTypeError,
                "integer-gradient",
                f'the rule of {self.name} returns a cotangent for "{name}", which is'
                f" {kind or repr(leaf)}; only floats have tangents",
                hint="return None in its place",
            )
        if type(entry) in (int, float):
            entry = bind("astype", entry, dtype=kind.dtype)
        edge = laws.edge(entry)
        got: Any = type(entry).__name__ if edge is None else edge.aval
        if edge is None or edge.aval.shape != kind.shape:
            cls, code = (ArgumentError, "bad-result") if edge is None else _SHAPE
            raise self._complaint(
                cls,
                code,
                f'the rule of {self.name} returns {got} for "{name}", need {_strong(kind)}',
                edge,
            )
        if not edge.aval.is_floating:
            raise self._complaint(
                DTypeError,
                "integer-gradient",
                f'the rule of {self.name} returns {got} for "{name}", a cotangent is a float',
                edge,
            )
        return edge

    def _complaint(
        self, cls: Any, code: str, text: str, edge: Any = None, hint: str | None = None
    ) -> Any:
        """An error at the line that made the wrong cotangent, or else where the rule begins."""
        error = cls(code, text, hint=hint)
        error.source = None if edge is None or not edge.node.inputs else edge.node.source
        made = getattr(self.rule, "__code__", None)
        if error.source is None and made is not None:
            error.source = Source(RawSource(made, 0))
        return located(error)


_SHAPE = (ShapeError, "shape-mismatch")
_CAPTURED = UNSUPPORTED(
    "it is captured by a function with a custom derivative, whose rule does not speak of it;"
    " make it an argument"
)


def _strong(kind: Aval) -> Aval:
    return kind.with_dtype(kind.dtype)


def _fits(entry: Any, structure: Any) -> bool:
    return _picked(entry, structure) is not None


def _picked(entry: Any, structure: Any) -> list[Any] | None:
    """The values in an entry at the places of a container's leaves; None if they do not fit."""
    try:
        picked = [accessor(entry) for accessor in structure.accessors()]
    except (TypeError, KeyError, IndexError, AttributeError):
        return None
    count = sum(one is not None for one in picked)
    return picked if len(flatten(entry)[0]) == count else None
