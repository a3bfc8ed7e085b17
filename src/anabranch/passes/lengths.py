"""Rows of `stabilise` about sqrt: norms and half powers."""
# the parameters of a row's functions are its variables

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.bind import bind
from anabranch.ops.elementwise import (
    absolute,
    add,
    exp,
    integer_power,
    multiply,
    sigmoid,
    softplus,
    sqrt,
    square,
)
from anabranch.ops.norms import vector_norm
from anabranch.ops.powers import power
from anabranch.ops.reduce import max_, sum_
from anabranch.passes.conditions import DEPTH, MOVES, is_floating, is_made_by, total
from anabranch.passes.pattern import known
from anabranch.passes.rules import Rule

_POSITIVE = (square, absolute, exp, sigmoid, softplus)

# Conditions


def _is_no_less_than_zero(s: Any) -> bool:
    return is_floating(s) and _has_no_sign(s, DEPTH)


def _has_no_sign(value: Any, depth: int) -> bool:
    """Whether a value is at least 0 (or NaN) by its structure."""
    fixed = known(value)
    if fixed is not None:
        return bool(np.all(np.asarray(fixed) >= 0))
    inputs = value.node.inputs
    if is_made_by(value, *_POSITIVE) or (is_made_by(value, multiply) and inputs[0] is inputs[1]):
        return True
    if is_made_by(value, integer_power):
        return bool(value.node.attrs["n"] % 2 == 0)
    combines = is_made_by(value, add, multiply, sum_, max_, *MOVES)
    return combines and depth > 0 and all(_has_no_sign(edge, depth - 1) for edge in inputs)


def _is_positive_power(x: Any, n: int) -> bool:
    return is_floating(x) and n > 0


def _norm(x: Any, axes: Any, keepdims: Any) -> Any:
    return bind(vector_norm, x, p=2.0, axes=axes, keepdims=keepdims)


NORMS = tuple(
    Rule(
        f"{spelling} = s, s >= 0",
        pattern,
        lambda s: s,
        when=_is_no_less_than_zero,
        changes="rounding; derivative at 0",
    )
    for spelling, pattern in {
        "sqrt(s) * sqrt(s)": lambda s: sqrt(s) * sqrt(s),
        "square(sqrt(s))": lambda s: square(sqrt(s)),
        "integer_power(sqrt(s), 2)": lambda s: bind(integer_power, sqrt(s), n=2),
        "power(sqrt(s), 2)": lambda s: bind(power, sqrt(s), 2),
    }.items()
)
LENGTHS = tuple(
    Rule(
        f"{spelling} = sum(square(x))",
        pattern,
        lambda x, axes, keepdims: total(square(x), axes, keepdims),
        when=is_floating,
        changes="rounding; derivatives at 0",
    )
    for spelling, pattern in {
        "norm(x) * norm(x)": lambda x, axes, keepdims: (
            _norm(x, axes, keepdims) * _norm(x, axes, keepdims)
        ),
        "square(norm(x))": lambda x, axes, keepdims: square(_norm(x, axes, keepdims)),
        "integer_power(norm(x), 2)": lambda x, axes, keepdims: bind(
            integer_power, _norm(x, axes, keepdims), n=2
        ),
        "power(norm(x), 2)": lambda x, axes, keepdims: bind(power, _norm(x, axes, keepdims), 2),
    }.items()
)
POWERS = (
    Rule(
        "x * sqrt(x) = x**1.5",
        lambda x: x * sqrt(x),
        lambda x: bind(power, x, 1.5),
        when=is_floating,
        changes="rounding; derivative at 0 in forward mode",
    ),
    Rule(
        "x * x * sqrt(x) = x**2.5",
        lambda x: (x * x) * sqrt(x),
        lambda x: bind(power, x, 2.5),
        when=is_floating,
        changes="rounding; derivative at 0 in forward mode",
    ),
    Rule(
        "x**n * sqrt(x) = x**(n + 1/2), n > 0",
        lambda x, n: bind(integer_power, x, n=n) * sqrt(x),
        lambda x, n: bind(power, x, n + 0.5),
        when=_is_positive_power,
        changes="rounding; derivative at 0 in forward mode",
    ),
)
RULES = (*NORMS, *LENGTHS, *POWERS)
