"""The record of one operation: everything the system knows about it stands in one place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from anabranch.core.aval import Aval, aval
from anabranch.core.bind import bind
from anabranch.core.dtype import FLOATS, WEAK_DTYPES, DType, promote
from anabranch.core.entry import boundary
from anabranch.core.record import record
from anabranch.core.registry import (
    functions,
    is_op,
    lookup,
    register,
    register_function,
)
from anabranch.core.sample import SIGNED, Domain, Sample, elementwise_samples
from anabranch.errors import DTypeError, ShapeError

Rule = Callable[..., Any]


@record
class NoGradient:
    """The path ends here: the output does not depend smoothly on this input."""

    reason: str


@record
class Unsupported:
    """A rule that does not exist, with the reason; it raises only when it is needed."""

    reason: str


NO_GRADIENT: Final = NoGradient("the output does not depend smoothly on this input")


def UNSUPPORTED(reason: str) -> Unsupported:  # noqa: N802  # reads as a constant in a record
    """State in a record that a rule is missing, and why."""
    return Unsupported(reason)


_NOT_WRITTEN: Final = Unsupported("no such rule is written yet")
Slot = Rule | NoGradient | Unsupported | float  # a number stands for a constant partial


@record
class Kernel:
    """Machine code that is a loop nest of its own.

    Fields:
        name: which of the backend's kernels.
        join: the emitter's method by which it joins elements, for kernels that do.
        operations: how many it has besides for each element of its first operand, for reports.
        selects: whether it looks at those elements of its first operand only that it gives.
    """

    name: str
    join: str = ""
    operations: int = 0
    selects: bool = False


@record
class MadeOf:
    """Machine code that is that of other ops.

    Fields:
        rule: `(*xs, **attrs)` in terms of other ops, whose avals it has; None where it has none.
    """

    rule: Rule


@record(eq=False)
class Op:
    """One kind of operation.

    Fields:
        name: how listings, errors and `bind` call it; NumPy's name where NumPy has one, with its
            namespace before a dot (`linalg.solve`).
        aval: `(*input avals, **attrs) -> Aval | tuple[Aval, ...]`, raising on what cannot be.
        ref: `(*arrays, **attrs) -> array | tuple`, the NumPy reference.
        doc: one sentence and, if needed, more; by default the docstring of `call`.
        samples: inputs that every generic test tries.
        partials: for elementwise ops, one `(y, *xs, **attrs)` per input: the local derivative.
            A Python number stands for a constant partial, 1 passes the cotangent through, and a
            bool (or an array of them) keeps or drops it.
        vjp: for the others, one `(ct, y, *xs, **attrs)` per input giving its cotangent. With
            several outputs `ct` and `y` are tuples.
        common: `(ct, y, *xs, **attrs)`, run once and handed to each vjp rule as `common=`.
        absent: whether the cotangent of an output that nothing depends on is None in `ct`, so
            that its share need not be computed; otherwise it is zeros.
        linear: the inputs in which the op is linear, each with the others held fixed; there the
            tangent rule is the op itself.
        jvp: one `(t, y, *xs, **attrs)` per input giving its part of the output's tangent. Where
            neither this nor `linear` speaks, the vjp rule is transposed.
        call: the public function with NumPy's arguments; by default the inputs in order.
        scalar: machine code of one element: the emitter's method of this name, on operands
            promoted as NumPy would, or a function `(emitter, *operands, **attrs)`.
        lower: machine code of an op that is no elementwise one: the name of a reduction over
            `axes`, `"product"` for a product of matrices, a `Kernel`, a `MadeOf` for what other
            ops compute, or, for one that only moves elements, `(view, **attrs)` giving the view
            that shows them where they lie, None where no view can.
        lowerings: rules of other backends by backend name.
        batch: the rule that maps the op over a new axis.
        outside: what the operands must be, in words, and `(*xs, **attrs)`, which says where they
            are not; told if `ab.config(domain=...)` asks for it.
        arity: the number of inputs, where the rules do not tell it.
        elementwise: whether inputs broadcast; then the walks sum cotangents back to their shapes.
        selects: whether partials are shares of a choice, a bool mask or 0, 1/2 and 1: a share
            that is exactly 0 then drops the cotangent, whatever it is.
        notation: `(*written inputs, **attrs) -> str`, how people write it where there is more to
            say than an operator's symbol or its name; None for the usual call.
        is_flat: (not given) whether no input has a gradient.

    Derivative fields hold a rule per input, `NO_GRADIENT` or `UNSUPPORTED(why)`; one of the
    latter two alone speaks for all inputs. An op with any number of inputs gives a function from
    the input's position to its rule.
    """

    name: str
    aval: Rule
    ref: Rule
    doc: str = ""
    samples: tuple[Sample, ...] = ()
    partials: tuple[Slot, ...] | NoGradient | Unsupported | None = None
    vjp: tuple[Slot, ...] | Callable[[int], Any] | NoGradient | Unsupported | None = None
    common: Rule | None = None
    absent: bool = False
    linear: tuple[int, ...] = ()
    jvp: tuple[Slot | None, ...] | Callable[[int], Any] | None = None
    call: Rule | None = None
    scalar: Slot | str = _NOT_WRITTEN
    lower: Slot | str | Kernel | MadeOf = _NOT_WRITTEN
    lowerings: Mapping[str, Slot] = field(default_factory=dict)
    batch: Slot = _NOT_WRITTEN
    outside: tuple[str, Rule] | None = None
    arity: int | None = None
    elementwise: bool = False

    selects: bool = False
    notation: Callable[..., str | None] | None = None

    is_flat: bool = field(init=False, default=False)
    _rules: Any = field(init=False, default=_NOT_WRITTEN)

    def __post_init__(self) -> None:
        rules = self.vjp if self.partials is None else self.partials
        object.__setattr__(self, "is_flat", isinstance(rules, NoGradient))
        object.__setattr__(self, "_rules", _NOT_WRITTEN if rules is None else rules)
        object.__setattr__(self, "__name__", self.name)
        object.__setattr__(self, *_signature(self))
        if self.call is not None:  # what Python's own complaints about arguments call it
            self.call.__name__ = self.call.__qualname__ = self.name
            object.__setattr__(self, "doc", self.doc or inspect.getdoc(self.call) or "")
        register(self)
        if self.arity != 0:
            register_function(
                self.name, functools.partial(bind, self) if self.call is None else self.call
            )

    def gradient(self, slot: int) -> Any:
        """The rule that sends a cotangent to this input: a partial, a vjp, or why there is none."""
        rules = self._rules
        if type(rules) is not tuple:
            return rules(slot) if callable(rules) else rules
        return rules[slot] if slot < len(rules) else Unsupported("its record has too few rules")

    def tangent(self, slot: int) -> Any:
        """The rule that sends a tangent from this input, if the record gives one."""
        return self.jvp(slot) if callable(self.jvp) else self.jvp and self.jvp[slot]

    @property
    def inputs(self) -> int:
        """How many inputs the op takes (for `arity=None`, as many as it has rules)."""
        if isinstance(self._rules, tuple):
            return len(self._rules)
        return 1 if self.arity is None else self.arity

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        return bind(self, *args, **attrs) if self.call is None else self.call(*args, **attrs)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return lookup, (self.name,)


Op.__init__ = boundary(Op.__init__)  # type: ignore[method-assign]  # users make records too


class PublicFunctions(Mapping[str, Rule]):
    """The functions users call, by name: every op and every composed function of a namespace.

    What is registered as `linalg.solve` is `solve` in the namespace `linalg`. Each is loaded when
    it is asked for, and all are when they are listed.
    """

    def __init__(self, namespace: str = "") -> None:
        self._prefix = f"{namespace}." if namespace else ""

    def __getitem__(self, name: str) -> Rule:
        if "." in name:
            raise KeyError(name)
        full = f"{self._prefix}{name}"
        function = functions()[full]
        return boundary(_documented(lookup(full), function) if is_op(full) else function)

    def __iter__(self) -> Iterator[str]:
        for full in functions():
            room, dot, name = full.rpartition(".")
            if room + dot == self._prefix:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _signature(op: Op) -> tuple[str, Any]:
    """The attribute, and its value, by which `inspect.signature` finds how an op is called."""
    return ("__signature__", _operands(op.inputs)) if op.call is None else ("__wrapped__", op.call)


@functools.lru_cache
def _operands(count: int) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(n, kind) for n in "xyzuvw"[:count]])


def _documented(op: Op, call: Rule) -> Rule:
    """An op's function with its name, doc and signature."""

    def function(*args: Any, **attrs: Any) -> Any:
        return call(*args, **attrs)

    setattr(function, *_signature(op))
    room, _, last = op.name.rpartition(".")
    function.__name__ = function.__qualname__ = last
    function.__doc__ = op.doc
    function.__module__ = f"anabranch.{room}" if room else "anabranch"
    return function


@boundary
def elementwise(
    name: str,
    ref: Rule,
    *,
    partials: tuple[Slot, ...] | NoGradient | Unsupported | None = None,
    vjp: tuple[Slot, ...] | None = None,
    jvp: tuple[Slot | None, ...] | None = None,
    doc: str,
    aval: Rule | None = None,
    arity: int | None = None,
    result: str = "same",
    real: bool = False,
    domain: Domain | tuple[Domain, ...] = SIGNED,
    kinds: tuple[str, ...] | None = None,
    attrs: Mapping[str, Any] | None = None,
    samples: tuple[Sample, ...] = (),
    **fields: Any,
) -> Op:
    """The record of an op that works on each element, inputs broadcast against one another.

    `result` is the output's dtype: `"same"` (the inputs' promoted), `"arithmetic"` (the same, but
    no bools), `"float"` (integers become floats as in NumPy), `"quotient"` (integers become
    float64) or `"bool"`; `real` refuses complex operands. Samples of all shape relations are made
    from `domain` (one, or one per input), `kinds` and `attrs`; `samples` adds the golden and
    special points.
    """
    rules = partials if isinstance(partials, tuple) else vjp
    count = len(rules) if isinstance(rules, tuple) else arity or 1
    domains = domain if isinstance(domain[0], tuple) else (domain,) * count
    drawn = elementwise_samples(count, domains, kinds or ("float",) * count)
    if attrs:
        drawn = tuple(Sample(one.inputs, dict(attrs)) for one in drawn)
    rule = aval or _ELEMENTWISE_AVALS[result]
    return Op(
        name,
        aval=_refusing_complex(rule) if real else rule,
        ref=ref,
        doc=doc,
        samples=(*samples, *drawn),
        partials=partials if vjp is None else None,
        vjp=vjp,
        jvp=jvp,
        arity=count,
        elementwise=True,
        **fields,
    )


def broadcast_shapes(*avals: Aval) -> tuple[int, ...]:
    """The common shape of NumPy broadcasting.

    Raises:
        ShapeError: `[shape-mismatch]` when two lengths differ and neither is 1.
    """
    shapes = [a.shape for a in avals]
    result = [1] * max(map(len, shapes))
    for shape in shapes:
        for axis, length in enumerate(reversed(shape), 1):
            if result[-axis] == 1:
                result[-axis] = length
            elif length not in (1, result[-axis]):
                written = " and ".join(str(s) for s in shapes)
                raise ShapeError(
                    "shape-mismatch",
                    f"shapes {written} do not broadcast: "
                    f"axis {-axis} has lengths {result[-axis]} and {length}",
                )
    return tuple(result)


def _same(*avals: Aval, **_: Any) -> Aval:
    shape = broadcast_shapes(*avals)
    dtype, weak = promote((a.dtype, a.weak) for a in avals)
    return aval(shape, dtype, weak and shape == ())


def _quotient(*avals: Aval, **_: Any) -> Aval:
    same = _same(*avals)
    if same.dtype in FLOATS or same.dtype.kind == "c":
        return same
    return aval(same.shape, WEAK_DTYPES[float], same.weak)


def float_result(*avals: Aval, **_: Any) -> Aval:
    """What a function of floats gives: integers become floats as NumPy makes them."""
    same = _same(*avals)
    if same.dtype in FLOATS or same.dtype.kind == "c":
        return same
    if same.weak:
        return aval(same.shape, WEAK_DTYPES[float], True)
    if any(one.weak for one in avals):
        return aval(same.shape, float_for(same.dtype))
    return aval(same.shape, promote((float_for(one.dtype), False) for one in avals)[0])


def _bool(*avals: Aval, **_: Any) -> Aval:
    return aval(broadcast_shapes(*avals), WEAK_DTYPES[bool])


def _arithmetic(*avals: Aval, **_: Any) -> Aval:
    same = _same(*avals)
    if same.dtype == WEAK_DTYPES[bool]:
        raise DTypeError(
            "bool-arithmetic",
            "bool values have no such arithmetic",
            hint="x.astype(int) counts them, ab.where selects by them",
        )
    return same


def _refusing_complex(rule: Rule) -> Rule:
    def real(*avals: Aval, **attrs: Any) -> Aval:
        if any(one.dtype.kind == "c" for one in avals):
            raise DTypeError("complex-value", "this is a function of real numbers")
        return rule(*avals, **attrs)  # type: ignore[no-any-return]

    return real


def float_for(dtype: DType) -> DType:
    """The dtype NumPy's float functions compute in for integers and bools of this dtype."""
    if dtype.itemsize == 1:
        return _FLOAT16
    if dtype.itemsize == 2 and dtype.kind in "iu":
        return _FLOAT32
    return WEAK_DTYPES[float]


_FLOAT16, _FLOAT32 = (d for d in sorted(FLOATS, key=str) if d.name in ("float16", "float32"))
_ELEMENTWISE_AVALS: dict[str, Rule] = {
    "same": _same,
    "float": float_result,
    "quotient": _quotient,
    "bool": _bool,
    "arithmetic": _arithmetic,
}
