"""Combining updates with what stands in a place: the largest, the smallest, the product."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.bind import bind
from anabranch.core.config import options
from anabranch.core.op import Kernel, Op
from anabranch.core.sample import Sample, sample
from anabranch.ops.gather import gather, zeros
from anabranch.ops.rules import shape_of
from anabranch.ops.scatter import Places, scatter_add, scatter_op
from anabranch.ops.select import absorb, equal, isnan, where

nan = math.nan


def _winners(y: Any, x: Any, updates: Any, places: Places) -> tuple[Any, Any, Any]:
    """Which elements of x and of the updates are the result, and how many share a place.

    NaN wins, as in the value. The count is an integer: halves could not hold a large one.
    """
    top = places.read(y)
    of_x = where(isnan(y), isnan(x), equal(x, y))
    of_updates = where(isnan(top), isnan(updates), equal(updates, top))
    ones, more = (bind("astype", one, dtype=np.dtype(np.int64)) for one in (of_x, of_updates))
    return of_x, of_updates, places.write(scatter_add, ones, more)


def _extreme_vjp_x(ct: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any) -> Any:
    of_x, _, count = _winners(y, x, updates, Places(indices, **attrs))
    return where(of_x, ct / count, 0.0)


def _extreme_vjp_updates(ct: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any) -> Any:
    places = Places(indices, **attrs)
    _, of_updates, count = _winners(y, x, updates, places)
    return where(of_updates, places.read(ct / count), 0.0)


def _extreme_jvp_x(t: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any) -> Any:
    of_x, _, count = _winners(y, x, updates, Places(indices, **attrs))
    return where(of_x, t, 0.0) / count


def _extreme_jvp_updates(t: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any) -> Any:
    places = Places(indices, **attrs)
    _, of_updates, count = _winners(y, x, updates, places)
    return places.write(scatter_add, zeros(shape_of(x), y), where(of_updates, t, 0.0)) / count


def _extreme(name: str, ufunc: Any, word: str, samples: tuple[Sample, ...]) -> Op:
    def write(target: Any, places: tuple[Any, ...], source: Any) -> None:
        with np.errstate(invalid="ignore"):  # a NaN among the values is no news
            ufunc.at(target, places, source)

    return scatter_op(
        name,
        write,
        f"where they are {word}; NaN wins, and equal ones share the cotangent,",
        lower=Kernel("scatter", ufunc.__name__),
        vjp=(_extreme_vjp_x, _extreme_vjp_updates),
        jvp=(_extreme_jvp_x, _extreme_jvp_updates),
        samples=samples,
    )


scatter_max: Op = _extreme(
    "scatter_max",
    np.maximum,
    "larger",
    (
        sample(
            [1.0, 5.0, 3.0],
            [4.0, 9.0, 2.0],
            [2, 0, 1],
            value=[9.0, 5.0, 4.0],
            grads=([0, 1, 0], [1, 1, 0], None),
            axes=(0,),
        ),
        sample(
            [2.0, 1.0],
            [2.0, 2.0, 0.0],
            [0, 0, 1],
            value=[2.0, 1.0],
            grads=([1 / 3, 1], [1 / 3, 1 / 3, 0], None),
            kink=True,
            axes=(0,),
        ),
        sample(
            [2.0, nan],
            [nan, 7.0, nan],
            [0, 1, 1],
            value=[nan, nan],
            grads=([0, 0.5], [1, 0, 0.5], None),
            kink=True,
            axes=(0,),
        ),
    ),
)

scatter_min: Op = _extreme(
    "scatter_min",
    np.minimum,
    "smaller",
    (
        sample(
            [1.0, 5.0, 3.0],
            [4.0, 9.0, 2.0],
            [2, 0, 1],
            value=[1.0, 2.0, 3.0],
            grads=([1, 0, 1], [0, 0, 1], None),
            axes=(0,),
        ),
        sample(
            [2.0, 1.0],
            [2.0, 3.0],
            [0, 0],
            value=[2.0, 1.0],
            grads=([0.5, 1], [0.5, 0], None),
            kink=True,
            axes=(0,),
        ),
    ),
)


def _meet(ct: Any, partial: Any) -> Any:
    return absorb(ct, partial) if options().absorb_zero else ct * partial


def _factor(y: Any, x: Any, updates: Any, places: Places) -> Any:
    """What each element of x is multiplied by."""
    return places.write(scatter_multiply, zeros(shape_of(x), y) + 1, updates)


def _along(factors: Any, near: Any) -> Any:
    """For each factor the product of all that follow from it by `near`, itself left out.

    By doubling: with the product over the next 2ⁿ and the 2ⁿth after it in hand, one step gives
    both for 2ⁿ⁺¹. Multiplications only, so that zeros are right at every order.
    """
    count = shape_of(factors)[0]
    product, jump, reach = _following(factors, near, 1), near, 1
    while reach < count - 1:
        product = product * _following(product, jump, 1)
        jump = _following(jump, jump, count)
        reach *= 2
    return product


def _following(values: Any, near: Any, end: int) -> Any:
    return bind(gather, values, near, axes=(0,), mode="fill", fill=end)


def _others(x: Any, updates: Any, places: Places) -> Any:
    """What each update is multiplied by: x and the other updates of its place."""
    flat = places.by_place(updates)
    if shape_of(flat)[0] < 2:
        return places.read(x)
    before, after = places.repeats(shape_of(x))
    return places.read(x) * places.as_updates(_along(flat, before) * _along(flat, after))


def _multiply_vjp_x(ct: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any) -> Any:
    return _meet(ct, _factor(y, x, updates, Places(indices, **attrs)))


def _multiply_vjp_updates(
    ct: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any
) -> Any:
    places = Places(indices, **attrs)
    return _meet(places.read(ct), _others(x, updates, places))


def _multiply_jvp_updates(t: Any, y: Any, x: Any, updates: Any, *indices: Any, **attrs: Any) -> Any:
    places = Places(indices, **attrs)
    part = _meet(t, _others(x, updates, places))
    return places.write(scatter_add, zeros(shape_of(x), y), part)


scatter_multiply: Op = scatter_op(
    "scatter_multiply",
    np.multiply.at,
    "multiplied in; a repeated index multiplies each time,",
    lower=Kernel("scatter", "multiply"),
    vjp=(_multiply_vjp_x, _multiply_vjp_updates),
    jvp=(_multiply_vjp_x, _multiply_jvp_updates),
    samples=(
        sample(
            [2.0, 3.0, 5.0],
            [7.0, 11.0, 13.0],
            [2, 0, 2],
            value=[22.0, 3.0, 455.0],
            grads=([11, 1, 91], [65, 2, 35], None),
            axes=(0,),
        ),
        sample(
            [2.0, 5.0],
            [0.0, 3.0, 0.0, 4.0],
            [0, 0, 1, 1],
            value=[0.0, 0.0],
            grads=([0, 0], [6, 0, 20, 0], None),
            axes=(0,),
        ),
        sample(
            [2.0],
            [0.0, 0.0, 3.0],
            [0, 0, 0],
            value=[0.0],
            grads=([0], [0, 0, 0], None),
            kink=True,  # smooth, but too flat for a difference
            axes=(0,),
        ),
    ),
)
