"""Comparing and choosing: the elementwise ops that decide what reaches a result.

What happens at ties, at NaN and where a branch is not taken is written in `docs/conventions.md`.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from anabranch.core.aval import Aval, aval, aval_of
from anabranch.core.bind import bind
from anabranch.core.dtype import promote
from anabranch.core.op import NO_GRADIENT, Op, broadcast_shapes, elementwise
from anabranch.core.sample import at, sample
from anabranch.core.values import settled
from anabranch.errors import DTypeError
from anabranch.ops.rules import dynamic_shape

inf, nan = math.inf, math.nan


def _is_clean(product: Any) -> bool:
    # Only 0 times inf or NaN can differ from the plain product, and that is a NaN.
    if isinstance(product, float):  # a Python number, or NumPy's float64
        return not math.isnan(product)
    return not np.isnan(product).any()


def _unpoisoned(product: Any, is_zero: Any) -> Any:
    """The product, with the NaN that a zero made of infinity or NaN put back to 0."""
    product = np.asarray(product)
    return settled(np.where(np.isnan(product) & is_zero, product.dtype.type(0), product))


def _absorb(ct: Any, p: Any) -> Any:
    product = ct * p
    return product if _is_clean(product) else _unpoisoned(product, np.equal(ct, 0))


def _absorb_either(x: Any, y: Any) -> Any:
    product = x * y
    if _is_clean(product):
        return product
    return _unpoisoned(product, np.equal(x, 0) | np.equal(y, 0))


absorb: Op = elementwise(
    "absorb",
    _absorb,
    # Bilinear. The second slot's own derivative is the first operand, in which a zero wins; but
    # what comes from above may be a masked zero too.
    vjp=(lambda ct, y, a, p: absorb(ct, p), lambda ct, y, a, p: absorb_either(ct, a)),
    jvp=(lambda t, y, a, p: absorb(t, p), lambda t, y, a, p: absorb_either(t, a)),
    samples=(
        at(2.0, 3.0, value=6.0, grads=(3.0, 2.0)),
        at(0.0, inf, value=0.0, kink=True),
        at(0.0, nan, value=0.0, kink=True),
        at(2.0, inf, value=inf, kink=True),
        at(inf, 0.0, value=nan, kink=True),
    ),
    scalar="absorb",
    doc="The product `x * y`, but 0 where x is exactly 0, even if y is infinite or NaN.",
)

absorb_either: Op = elementwise(
    "absorb_either",
    _absorb_either,
    vjp=(
        lambda ct, y, a, b: absorb_either(ct, b),
        lambda ct, y, a, b: absorb_either(ct, a),
    ),
    jvp=(
        lambda t, y, a, b: absorb_either(t, b),
        lambda t, y, a, b: absorb_either(t, a),
    ),
    samples=(
        at(2.0, 3.0, value=6.0, grads=(3.0, 2.0)),
        at(0.0, inf, value=0.0, kink=True),
        at(nan, 0.0, value=0.0, kink=True),
        at(2.0, inf, value=inf, kink=True),
    ),
    scalar="absorb_either",
    doc="The product `x * y`, but 0 where x or y is exactly 0, whatever the other is.",
)


def _comparison(name: str, ref: Any, doc: str, *points: Any) -> Any:
    return elementwise(
        name,
        ref,
        partials=NO_GRADIENT,
        arity=2,
        result="bool",
        samples=(*points, at(nan, 1.0, value=name == "not_equal")),
        scalar=lambda e, x, y: e.compare(name, x, y),
        doc=doc,
    )


_LESS, _TIE = (1.0, 2.0), (2.0, 2.0)
equal: Op = _comparison(
    "equal", operator.eq, "Whether x equals y.", at(*_LESS, value=False), at(*_TIE, value=True)
)
greater: Op = _comparison(
    "greater", operator.gt, "Whether x > y.", at(*_LESS, value=False), at(*_TIE, value=False)
)
greater_equal: Op = _comparison(
    "greater_equal", operator.ge, "Whether x >= y.", at(*_LESS, value=False), at(*_TIE, value=True)
)
less: Op = _comparison(
    "less", operator.lt, "Whether x < y.", at(*_LESS, value=True), at(*_TIE, value=False)
)
less_equal: Op = _comparison(
    "less_equal", operator.le, "Whether x <= y.", at(*_LESS, value=True), at(*_TIE, value=True)
)
not_equal: Op = _comparison(
    "not_equal",
    operator.ne,
    "Whether x differs from y.",
    at(*_LESS, value=True),
    at(*_TIE, value=False),
)

isnan: Op = elementwise(
    "isnan",
    np.isnan,
    partials=NO_GRADIENT,
    arity=1,
    result="bool",
    samples=(at(nan, value=True), at(inf, value=False), at(0.0, value=False)),
    scalar="isnan",
    doc="Whether each element is NaN.",
)


def _share(x: Any, other: Any, wins: Any) -> Any:
    # NaN wins against a number, as it does in the value; ties share equally.
    x_nan, other_nan = isnan(x), isnan(other)
    tie = where(x_nan, other_nan, equal(x, other))
    return where(tie, 0.5, where(where(x_nan, True, wins(x, other)), 1.0, 0.0))


maximum: Op = elementwise(
    "maximum",
    np.maximum,
    partials=(lambda y, a, b: _share(a, b, greater), lambda y, a, b: _share(b, a, greater)),
    selects=True,
    samples=(
        at(2.0, 3.0, value=3.0, grads=(0.0, 1.0)),
        at(2.0, 2.0, value=2.0, grads=(0.5, 0.5), kink=True),
        at(nan, 2.0, value=nan, grads=(1.0, 0.0), kink=True),
        at(-inf, 2.0, value=2.0, grads=(0.0, 1.0), kink=True),
    ),
    scalar="maximum",
    doc="The larger of two values; NaN wins, and a tie shares the cotangent equally.",
)

minimum: Op = elementwise(
    "minimum",
    np.minimum,
    partials=(lambda y, a, b: _share(a, b, less), lambda y, a, b: _share(b, a, less)),
    selects=True,
    samples=(
        at(2.0, 3.0, value=2.0, grads=(1.0, 0.0)),
        at(2.0, 2.0, value=2.0, grads=(0.5, 0.5), kink=True),
        at(2.0, nan, value=nan, grads=(0.0, 1.0), kink=True),
    ),
    scalar="minimum",
    doc="The smaller of two values; NaN wins, and a tie shares the cotangent equally.",
)


def _require_mask(condition: Any) -> None:
    if condition.dtype.kind != "b":
        raise DTypeError(
            "mask-dtype",
            f"where needs a bool condition, got {condition.dtype.name}",
            hint="compare: mask != 0",
        )


def _where_aval(condition: Aval, x: Aval, y: Aval) -> Aval:
    _require_mask(condition)
    dtype, _ = promote([(x.dtype, x.weak), (y.dtype, y.weak)])
    return aval(broadcast_shapes(condition, x, y), dtype)


def _where(condition: Any, x: Any, y: Any) -> Any:
    condition = np.asarray(condition)
    _require_mask(condition)
    if "V" in (np.asarray(x).dtype.kind, np.asarray(y).dtype.kind):
        # NumPy's where knows nothing of bfloat16 among other dtypes; its addition does.
        dtype, _ = promote((kind.dtype, kind.weak) for kind in (aval_of(x), aval_of(y)))
        x, y = np.asarray(x).astype(dtype), np.asarray(y).astype(dtype)
    return settled(np.where(condition, x, y))


def _where_call(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        raise dynamic_shape(
            "where with one argument lists the places of what holds, whose number is not known"
            " while the graph is built",
            hint="ab.where(condition, x, y) keeps the shape; np.nonzero takes arrays",
        )
    return bind(where, condition, x, y)


where: Op = elementwise(
    "where",
    _where,
    call=_where_call,
    partials=(
        NO_GRADIENT,
        lambda y, c, a, b: c,
        lambda y, c, a, b: where(c, False, True),
    ),
    aval=_where_aval,
    selects=True,
    kinds=("bool", "float", "float"),
    samples=(
        sample(True, 2.0, 3.0, value=2.0, grads=(None, 1.0, 0.0)),
        sample(False, 2.0, nan, value=nan, grads=(None, 0.0, 1.0), kink=True),
    ),
    scalar=lambda e, condition, x, y: e.where(condition, x, y),
    doc="x where the condition holds, y elsewhere; the branch not taken gets exactly 0.",
)
