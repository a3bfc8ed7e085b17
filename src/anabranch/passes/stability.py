"""`stabilise`: naive spellings become the stable ones, before they are differentiated.

The value stays within rounding wherever the spelling could hold it. Its derivatives gain most, as
what overflowed on the way is not formed any more.
"""
# ruff: noqa: PLW0108  # the parameters of a row's functions are its variables

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.bind import bind
from anabranch.core.graph import Graph
from anabranch.ops.elementwise import (
    absolute,
    add,
    exp,
    integer_power,
    log,
    multiply,
    sigmoid,
    softplus,
    sqrt,
    square,
    stop_gradient,
    subtract,
)
from anabranch.ops.index import slice_
from anabranch.ops.layout import broadcast_to, permute, reshape, reshaped
from anabranch.ops.norms import vector_norm
from anabranch.ops.powers import power
from anabranch.ops.reduce import max_, sum_
from anabranch.ops.rules import reduced, shape_of
from anabranch.ops.select import equal, less, where
from anabranch.passes.pattern import known
from anabranch.passes.rewrite import Rewrite
from anabranch.passes.rules import Rule, rewritten

_DEPTH = 6  # how many ops a condition looks through
_POSITIVE = (square, absolute, exp, sigmoid, softplus)
_MOVES = (reshape, broadcast_to, permute, slice_, stop_gradient)


def stabilise(graph: Graph) -> Rewrite:
    """Apply the rows of `RULES`: sigmoid, softplus, softmax, logsumexp, norms and half powers."""
    return rewritten(graph, RULES)


# Conditions


def _is(value: Any, *ops: Any) -> bool:
    return hasattr(value, "node") and value.node.op in ops


def _is_floating(x: Any) -> bool:
    return hasattr(x, "node") and bool(x.aval.is_floating)


def _is_shifted(x: Any) -> bool:
    """Whether x is something minus a maximum, seen through the ops that stand between."""
    if not _is(x, subtract):
        return False
    edge = x.node.inputs[1]
    for _ in range(_DEPTH):
        if _is(edge, *_MOVES):
            edge = edge.node.inputs[0]
        elif _is(edge, where):
            edge = edge.node.inputs[1]
    return _is(edge, max_)


def _needs_shift(x: Any) -> bool:
    return _can_shift(x) and not _is_shifted(x)


def _can_shift(x: Any) -> bool:
    return _is_floating(x) and x.aval.size > 0


def _is_no_less_than_zero(s: Any) -> bool:
    return _is_floating(s) and _has_no_sign(s, _DEPTH)


def _has_no_sign(value: Any, depth: int) -> bool:
    """Whether a value is at least 0 (or NaN) by its structure."""
    fixed = known(value)
    if fixed is not None:
        return bool(np.all(np.asarray(fixed) >= 0))
    inputs = value.node.inputs
    if _is(value, *_POSITIVE) or (_is(value, multiply) and inputs[0] is inputs[1]):
        return True
    if _is(value, integer_power):
        return bool(value.node.attrs["n"] % 2 == 0)
    combines = _is(value, add, multiply, sum_, max_, *_MOVES)
    return combines and depth > 0 and all(_has_no_sign(edge, depth - 1) for edge in inputs)


def _is_positive_power(x: Any, n: int) -> bool:
    return _is_floating(x) and n > 0


# Stable spellings


def _shift(x: Any, axes: tuple[int, ...]) -> Any:
    """The largest element along the axes as a constant, 0 where it is not finite."""
    top = stop_gradient(max_(x, axis=axes, keepdims=True))
    return where(less(absolute(top), float("inf")), top, 0.0)


def _softmax(x: Any, axes: tuple[int, ...]) -> Any:
    weights = exp(x - _shift(x, axes))
    return weights / sum_(weights, axis=axes, keepdims=True)


def _log_softmax(x: Any, axes: tuple[int, ...]) -> Any:
    scores = x if _is_shifted(x) else x - _shift(x, axes)
    return scores - log(sum_(exp(scores), axis=axes, keepdims=True))


def _logsumexp(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    top = _shift(x, axes)
    total = sum_(exp(x - top), axis=axes, keepdims=True)
    # At the ends log stays in a branch that is not taken: its slope there cannot reach elements.
    ended = where(equal(total, float("inf")), float("inf"), log(total))
    result = where(equal(total, 0), -float("inf"), ended) + top
    return reshaped(result, reduced(shape_of(x), axes, keepdims))


def _total(x: Any, axes: Any, keepdims: Any = True) -> Any:
    return bind(sum_, x, axes=axes, keepdims=keepdims)


def _norm(x: Any, axes: Any, keepdims: Any) -> Any:
    return bind(vector_norm, x, p=2.0, axes=axes, keepdims=keepdims)


_ROUNDING = "rounding; no overflow on the way"
SIGMOIDS = (
    Rule(
        "1 / (1 + exp(-x)) = sigmoid(x)",
        lambda x: 1 / (1 + exp(-x)),
        lambda x: sigmoid(x),
        when=_is_floating,
        changes=_ROUNDING,
    ),
    Rule(
        "1 / (1 + exp(x)) = sigmoid(-x)",
        lambda x: 1 / (1 + exp(x)),
        lambda x: sigmoid(-x),
        when=_is_floating,
        changes=_ROUNDING,
    ),
    Rule(
        "(1 + exp(-x))**-1 = sigmoid(x)",
        lambda x: bind(integer_power, 1 + exp(-x), n=-1),
        lambda x: sigmoid(x),
        when=_is_floating,
        changes=_ROUNDING,
    ),
    Rule(
        "exp(x) / (1 + exp(x)) = sigmoid(x)",
        lambda x: exp(x) / (1 + exp(x)),
        lambda x: sigmoid(x),
        when=_is_floating,
        changes=_ROUNDING,
        may_change_nan=True,
    ),
    Rule(
        "a / (1 + exp(-x)) = a * sigmoid(x)",
        lambda a, x: a / (1 + exp(-x)),
        lambda a, x: a * sigmoid(x),
        when=_is_floating,
        changes=_ROUNDING,
        may_change_nan=True,
    ),
    Rule(
        "log(1 + exp(x)) = softplus(x)",
        lambda x: log(1 + exp(x)),
        lambda x: softplus(x),
        when=_is_floating,
        changes=_ROUNDING,
    ),
    Rule(
        "log(sigmoid(x)) = -softplus(-x)",
        lambda x: log(sigmoid(x)),
        lambda x: -softplus(-x),
        when=_is_floating,
        changes=_ROUNDING,
    ),
)
SOFTMAXES = (
    Rule(
        "exp(x) / sum(exp(x)) = softmax(x)",
        lambda x, axes: exp(x) / _total(exp(x), axes),
        _softmax,
        when=_needs_shift,
        changes=_ROUNDING,
        may_change_nan=True,
    ),
    Rule(
        "log(softmax(x)) = log_softmax(x)",
        lambda x, axes: log(exp(x) / _total(exp(x), axes)),
        _log_softmax,
        when=_can_shift,
        changes="rounding; finite where softmax(x) is 0",
        may_change_nan=True,
    ),
    Rule(
        "log(sum(exp(x))) = logsumexp(x)",
        lambda x, axes, keepdims: log(_total(exp(x), axes, keepdims)),
        _logsumexp,
        when=_needs_shift,
        changes=_ROUNDING,
    ),
)
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
        lambda x, axes, keepdims: _total(square(x), axes, keepdims),
        when=_is_floating,
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
        when=_is_floating,
        changes="rounding; derivative at 0 in forward mode",
    ),
    Rule(
        "x * x * sqrt(x) = x**2.5",
        lambda x: (x * x) * sqrt(x),
        lambda x: bind(power, x, 2.5),
        when=_is_floating,
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
RULES = (*SIGMOIDS, *SOFTMAXES, *NORMS, *LENGTHS, *POWERS)
