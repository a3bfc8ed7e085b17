"""`algebra`: drop and join ops where every bit of the value stays the same.

Floats are no field: x + 0.0 is not x for -0.0, x - x and 0 * x are not 0 for infinity and NaN, and
none of these is done. "Every bit" leaves out one thing, which NaN it is (sign and payload).
"""
# ruff: noqa: PLW0108  # the parameters of a row's functions are its variables

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval_of
from anabranch.core.bind import NUMBERS, bind
from anabranch.core.dtype import is_floating
from anabranch.core.graph import Graph
from anabranch.core.op import Op
from anabranch.ops.elementwise import (
    add,
    astype,
    divide,
    identity,
    integer_power,
    multiply,
    negative,
    subtract,
)
from anabranch.ops.index import slice_, unslice
from anabranch.ops.layout import broadcast_to, pad, permute, reshape
from anabranch.ops.reduce import max_, sum_
from anabranch.ops.rules import shape_of
from anabranch.ops.select import absorb, absorb_either, where
from anabranch.passes.pattern import known
from anabranch.passes.rewrite import Rewrite
from anabranch.passes.rules import Rule, rewritten


def algebra(graph: Graph) -> Rewrite:
    """Apply the rows of `RULES`: ops that change nothing go, chains of moves become one."""
    return rewritten(graph, RULES)


def _all(test: Any) -> Any:
    """A condition on a variable `c`: it is known before the run, and each element passes."""

    def holds(c: Any) -> bool:
        value = known(c)
        return value is not None and bool(np.all(test(np.asarray(value))))

    holds.known = ("c",)  # type: ignore[attr-defined]  # a look at the operand rules most out
    return holds


def _finite(c: Any) -> Any:
    return np.isfinite(c)


def _finite_nonzero(c: Any) -> Any:
    return np.isfinite(c) & (c != 0)


def _nonzero(c: Any) -> Any:
    return c != 0


def _selected(value: Any, out: Aval) -> Any:
    """One branch of a `where`, in its dtype and shape."""
    if type(value) in NUMBERS or isinstance(value, np.generic):
        value = out.dtype.type(value)
    elif value.dtype != out.dtype:
        value = astype(value, out.dtype)
    return value if shape_of(value) == out.shape else broadcast_to(value, out.shape)


def _is_whole(x: Any, index: tuple[Any, ...]) -> bool:
    """Whether an index selects all elements of x in their order."""
    return all(
        isinstance(entry, tuple) and range(n)[slice(*entry)] == range(n)
        for entry, n in zip(index, shape_of(x), strict=True)
    )


def _keeps_every_value(narrow: Any, wide: Any) -> bool:
    """Whether a float dtype holds each value of another, so that the way back is exact."""
    if not (is_floating(narrow) and is_floating(wide)):
        return False
    sizes = narrow.itemsize, wide.itemsize
    return bool(narrow == wide or (sizes[0] < sizes[1] and sizes[1] >= 4))


def _is_integer(x: Any) -> bool:
    return aval_of(x).dtype.kind in "iu"


def _is_real(x: Any) -> bool:
    """Not complex, where NumPy multiplies 1 + 0j in and loses signed zeros and infinities."""
    return bool(aval_of(x).dtype.kind != "c")


def _composed(inner: tuple[int, ...], outer: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(inner[axis] for axis in outer)


def _is_sorted(axes: tuple[int, ...]) -> bool:
    return axes == tuple(range(len(axes)))


ARITHMETIC = (
    Rule("x * 1 = x", lambda x: x * 1, lambda x: x, when=_is_real),
    Rule("x / 1 = x", lambda x: x / 1, lambda x: x, when=_is_real),
    Rule("x + -0.0 = x", lambda x: x + -0.0, lambda x: x, when=_is_real),
    Rule("x - 0 = x", lambda x: x - 0, lambda x: x, when=_is_real),
    Rule("n + 0 = n, integers", lambda x: x + 0, lambda x: x, when=_is_integer),
    Rule("x**1 = x", lambda x: bind(integer_power, x, n=1), lambda x: x, when=_is_real),
    Rule("-(-x) = x", lambda x: negative(negative(x)), lambda x: x),
    Rule("identity(x) = x", lambda x: bind(identity, x), lambda x: x),
)
MASKS = (
    Rule(
        "absorb(c, p) = c * p, c not 0",
        lambda c, p: absorb(c, p),
        lambda c, p: multiply(c, p),
        when=_all(_nonzero),
    ),
    Rule(
        "absorb(ct, c) = ct * c, c finite",
        lambda ct, c: absorb(ct, c),
        lambda ct, c: multiply(ct, c),
        when=_all(_finite),
    ),
    Rule(
        "absorb_either(c, x) = c * x, c finite, not 0",
        lambda c, x: absorb_either(c, x),
        lambda c, x: multiply(c, x),
        when=_all(_finite_nonzero),
    ),
    Rule(
        "absorb_either(x, c) = x * c, c finite, not 0",
        lambda x, c: absorb_either(x, c),
        lambda x, c: multiply(x, c),
        when=_all(_finite_nonzero),
    ),
    Rule(
        "where(True, x, y) = x",
        lambda c, x, y: where(c, x, y),
        lambda x, out: _selected(x, out),
        when=_all(lambda c: c),
    ),
    Rule(
        "where(False, x, y) = y",
        lambda c, x, y: where(c, x, y),
        lambda y, out: _selected(y, out),
        when=_all(np.logical_not),
    ),
    Rule("where(c, x, x) = x", lambda c, x: where(c, x, x), lambda x, out: _selected(x, out)),
    Rule("where(c, True, False) = c", lambda c: where(c, True, False), lambda c: c),
    Rule(
        "where(not c, x, y) = where(c, y, x)",
        lambda c, x, y: where(where(c, False, True), x, y),
        lambda c, x, y: where(c, y, x),
    ),
)
MOVES = (
    Rule(
        "astype(x, its own) = x",
        lambda x, dtype: bind(astype, x, dtype=dtype),
        lambda x: x,
    ),
    Rule(
        "astype(astype(x, wider), its own) = x",
        lambda x, wide, dtype: bind(astype, bind(astype, x, dtype=wide), dtype=dtype),
        lambda x: x,
        when=lambda x, wide, dtype: _keeps_every_value(dtype, wide),
    ),
    Rule(
        "reshape(x, its own) = x",
        lambda x, shape: bind(reshape, x, shape=shape),
        lambda x: x,
    ),
    Rule(
        "reshape(reshape(x)) = reshape(x)",
        lambda x, inner, shape: bind(reshape, bind(reshape, x, shape=inner), shape=shape),
        lambda x, shape: reshape(x, shape),
    ),
    Rule(
        "broadcast_to(x, its own) = x",
        lambda x, shape: bind(broadcast_to, x, shape=shape),
        lambda x: x,
    ),
    Rule(
        "broadcast_to(broadcast_to(x)) = broadcast_to(x)",
        lambda x, inner, shape: bind(broadcast_to, bind(broadcast_to, x, shape=inner), shape=shape),
        lambda x, shape: broadcast_to(x, shape),
    ),
    Rule(
        "broadcast_to(reshape(x)) = broadcast_to(x), x scalar",
        lambda x, inner, shape: bind(broadcast_to, bind(reshape, x, shape=inner), shape=shape),
        lambda x, shape: broadcast_to(x, shape),
        when=lambda x: shape_of(x) == (),
    ),
    Rule(
        "broadcast_to(c) = broadcast_to(number), c of one element",
        lambda c, shape: bind(broadcast_to, c, shape=shape),
        lambda c, shape: broadcast_to(known(c).reshape(())[()], shape),
        when=lambda c: isinstance(known(c), np.ndarray) and known(c).size == 1,
    ),
    Rule(
        "permute(x, 0, 1, ...) = x",
        lambda x, axes: bind(permute, x, axes=axes),
        lambda x: x,
        when=_is_sorted,
    ),
    Rule(
        "permute(permute(x)) = permute(x)",
        lambda x, inner, axes: bind(permute, bind(permute, x, axes=inner), axes=axes),
        lambda x, inner, axes: permute(x, _composed(inner, axes)),
    ),
    Rule(
        "x[:] = x",
        lambda x, index: bind(slice_, x, index=index),
        lambda x: x,
        when=_is_whole,
    ),
    Rule(
        "unslice(x)[:] = x",
        lambda x, shape, index: bind(unslice, x, shape=shape, index=index),
        lambda x: x,
        when=lambda x, shape, index: shape_of(x) == shape and _is_whole(x, index),
    ),
    Rule(
        "unslice(x, index)[index] = x",
        lambda x, shape, index: bind(
            slice_, bind(unslice, x, shape=shape, index=index), index=index
        ),
        lambda x: x,
    ),
    Rule(
        "unslice(x) + unslice(y) = unslice(x + y), of one index",
        lambda x, y, shape, index: bind(
            add,
            bind(unslice, x, shape=shape, index=index),
            bind(unslice, y, shape=shape, index=index),
        ),
        lambda x, y, shape, index: bind(unslice, bind(add, x, y), shape=shape, index=index),
    ),
    Rule(
        "pad(x, 0) = x",
        lambda x, widths, fill: bind(pad, x, widths=widths, fill=fill),
        lambda x: x,
    ),
    Rule(
        "sum(n) over no axes = n, integers",
        lambda x, keepdims: bind(sum_, x, axes=(), keepdims=keepdims),
        lambda x: x,
        when=_is_integer,
    ),
    Rule(
        "max(x) over no axes = x",
        lambda x, keepdims: bind(max_, x, axes=(), keepdims=keepdims),
        lambda x: x,
    ),
)


def _spread(op: Op, slot: int) -> Rule:
    """The row that spares an operand the repetition that the op does by itself.

    Only for ops that NumPy computes with the same bits whatever the layout of their operands.
    """
    names = ["x", "y", "z"][: op.inputs]
    moved = f"broadcast_to({names[slot]})"
    written = ", ".join(moved if i == slot else name for i, name in enumerate(names))

    def pattern(x: Any, y: Any, z: Any, shape: Any) -> Any:
        operands = [x, y, z][: op.inputs]
        operands[slot] = bind(broadcast_to, operands[slot], shape=shape)
        return bind(op, *operands)

    def fits(out: Aval, *operands: Any) -> bool:
        return out.dtype.kind != "c" and bool(op.aval(*map(aval_of, operands)) == out)

    if len(names) == 2:
        return Rule(
            f"{op.name}({written}) = {op.name}({', '.join(names)})",
            lambda x, y, shape: pattern(x, y, None, shape),
            lambda x, y: bind(op, x, y),
            when=lambda out, x, y: fits(out, x, y),
            in_order=True,
        )
    return Rule(
        f"{op.name}({written}) = {op.name}({', '.join(names)})",
        pattern,
        lambda x, y, z: bind(op, x, y, z),
        when=lambda out, x, y, z: fits(out, x, y, z),
    )


# Not maximum and minimum: which of 0.0 and -0.0 they return hangs on the loop that NumPy picks.
_BY_THEMSELVES = (add, subtract, multiply, divide, absorb, where)
SPREADS = tuple(_spread(op, slot) for op in _BY_THEMSELVES for slot in range(op.inputs))
RULES = (*ARITHMETIC, *MASKS, *MOVES, *SPREADS)
