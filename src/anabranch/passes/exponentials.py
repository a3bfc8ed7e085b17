"""Rows of `stabilise` about exp: sigmoid, softplus, softmax, logsumexp."""
# ruff: noqa: PLW0108  # the parameters of a row's functions are its variables

from __future__ import annotations

from typing import Any

from anabranch.core.bind import bind
from anabranch.ops.elementwise import (
    absolute,
    exp,
    integer_power,
    log,
    sigmoid,
    softplus,
    stop_gradient,
    subtract,
)
from anabranch.ops.layout import reshaped
from anabranch.ops.reduce import max_, sum_
from anabranch.ops.rules import reduced, shape_of
from anabranch.ops.select import equal, less, where
from anabranch.passes.conditions import DEPTH, MOVES, is_floating, is_made_by, total
from anabranch.passes.rules import Rule

# Conditions


def _is_shifted(x: Any) -> bool:
    """Whether x is something minus a maximum, seen through the ops that stand between."""
    if not is_made_by(x, subtract):
        return False
    edge = x.node.inputs[1]
    for _ in range(DEPTH):
        if is_made_by(edge, *MOVES):
            edge = edge.node.inputs[0]
        elif is_made_by(edge, where):
            edge = edge.node.inputs[1]
    return is_made_by(edge, max_)


def _needs_shift(x: Any) -> bool:
    return _can_shift(x) and not _is_shifted(x)


def _can_shift(x: Any) -> bool:
    return is_floating(x) and x.aval.size > 0


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


_ROUNDING = "rounding; no overflow on the way"
SIGMOIDS = (
    Rule(
        "1 / (1 + exp(-x)) = sigmoid(x)",
        lambda x: 1 / (1 + exp(-x)),
        lambda x: sigmoid(x),
        when=is_floating,
        changes=_ROUNDING,
    ),
    Rule(
        "1 / (1 + exp(x)) = sigmoid(-x)",
        lambda x: 1 / (1 + exp(x)),
        lambda x: sigmoid(-x),
        when=is_floating,
        changes=_ROUNDING,
    ),
    Rule(
        "(1 + exp(-x))**-1 = sigmoid(x)",
        lambda x: bind(integer_power, 1 + exp(-x), n=-1),
        lambda x: sigmoid(x),
        when=is_floating,
        changes=_ROUNDING,
    ),
    Rule(
        "exp(x) / (1 + exp(x)) = sigmoid(x)",
        lambda x: exp(x) / (1 + exp(x)),
        lambda x: sigmoid(x),
        when=is_floating,
        changes=_ROUNDING,
        may_change_nan=True,
    ),
    Rule(
        "a / (1 + exp(-x)) = a * sigmoid(x)",
        lambda a, x: a / (1 + exp(-x)),
        lambda a, x: a * sigmoid(x),
        when=is_floating,
        changes=_ROUNDING,
        may_change_nan=True,
    ),
    Rule(
        "log(1 + exp(x)) = softplus(x)",
        lambda x: log(1 + exp(x)),
        lambda x: softplus(x),
        when=is_floating,
        changes=_ROUNDING,
    ),
    Rule(
        "log(sigmoid(x)) = -softplus(-x)",
        lambda x: log(sigmoid(x)),
        lambda x: -softplus(-x),
        when=is_floating,
        changes=_ROUNDING,
    ),
)
SOFTMAXES = (
    Rule(
        "exp(x) / sum(exp(x)) = softmax(x)",
        lambda x, axes: exp(x) / total(exp(x), axes),
        _softmax,
        when=_needs_shift,
        changes=_ROUNDING,
        may_change_nan=True,
    ),
    Rule(
        "log(softmax(x)) = log_softmax(x)",
        lambda x, axes: log(exp(x) / total(exp(x), axes)),
        _log_softmax,
        when=_can_shift,
        changes="rounding; finite where softmax(x) is 0",
        may_change_nan=True,
    ),
    Rule(
        "log(sum(exp(x))) = logsumexp(x)",
        lambda x, axes, keepdims: log(total(exp(x), axes, keepdims)),
        _logsumexp,
        when=_needs_shift,
        changes=_ROUNDING,
    ),
)
RULES = (*SIGMOIDS, *SOFTMAXES)
