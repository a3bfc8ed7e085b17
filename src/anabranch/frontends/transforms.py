"""Transforms: functions to functions. Each runs the user's function, then walks what it recorded.

Outside `ab.compile` nothing is cached, so Python branches on values work. None of them touches
`.grad`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from anabranch.core.bind import state
from anabranch.core.entry import boundary
from anabranch.core.node import Edge
from anabranch.core.values import ARRAYS
from anabranch.diff.region import ancestors, dependents, key_of, node_steps
from anabranch.diff.reverse import reverse, zeros_like
from anabranch.errors import ArgumentError
from anabranch.frontends import engine
from anabranch.frontends.arguments import (
    Argnums,
    Function,
    bare,
    filled_in,
    lifted,
    matching,
    one_like,
    require_built,
    require_function,
    require_policy,
    require_scalar,
    require_tuples,
    split_aux,
    wanted_arguments,
)
from anabranch.frontends.containers import argument_names, flatten, unflatten
from anabranch.frontends.evaluation import Evaluation, refusal
from anabranch.frontends.tensor import Tensor


@boundary
def grad(
    f: Function, argnums: Argnums = 0, *, has_aux: bool = False, unused: str = "zero"
) -> Function:
    """The gradient of a function with a scalar result.

    Args:
        f: takes arrays, numbers or containers of them; returns a scalar of floating dtype, or
            with `has_aux` a pair of it and anything else. Inside, arrays are tensors, those that
            are not differentiated too; NumPy's own functions take `x.data` of these.
        argnums: which argument, by position or name; a tuple of them gives a tuple of gradients.
        has_aux: whether f returns a pair; then the result is (gradient, aux).
        unused: what an argument that the result does not depend on gets: `"zero"`, `"none"`, or
            `"raise"` for an error that names it.

    Returns:
        A function of f's arguments. Gradients have the containers, shapes and dtypes of the
        arguments; numbers count as float64. NumPy in, NumPy out; tensors in, tensors out, and also
        where f captures a recorded tensor: its history goes on.

    Raises:
        DTypeError: `[integer-gradient]` for integer or bool arrays, by name.
        ShapeError: `[not-a-scalar]` when f's result is not one.
        NoGradientError: `[unused-argument]` with `unused="raise"`.

    Example:
        >>> import anabranch as ab
        >>> float(ab.grad(lambda x: x**3)(2.0))
        12.0
    """
    both = value_and_grad(f, argnums, has_aux=has_aux, unused=unused)

    @boundary
    @functools.wraps(f)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


@boundary
def value_and_grad(
    f: Function, argnums: Argnums = 0, *, has_aux: bool = False, unused: str = "zero"
) -> Function:
    """Like `grad`, but returns (value, gradient), or ((value, aux), gradient) with `has_aux`.

    Example:
        >>> import anabranch as ab
        >>> value, slope = ab.value_and_grad(lambda x, y: x * y, argnums="y")(2.0, 5.0)
        >>> float(value), float(slope)
        (10.0, 2.0)
    """
    require_function("grad", f)
    require_policy(unused)

    @boundary
    @functools.wraps(f)
    def evaluate(*args: Any, **kwargs: Any) -> Any:
        keys = wanted_arguments(f, argnums, args, kwargs)
        names = argument_names(f, len(args))
        wanted = {key: key if isinstance(key, str) else names[key] for key in keys}
        run = Evaluation(f, args, kwargs, wanted, refusal("grad", f, args))
        out, aux = split_aux(run.out) if has_aux else (run.out, None)
        require_scalar("grad", out)
        grads = run.pull([out], [one_like(out)])
        filled = [
            filled_in(ct, alias, name, unused)
            for ct, alias, name in zip(grads, run.aliases, run.names, strict=True)
        ]
        groups = run.grouped(filled)
        chosen = tuple(run.given_back(groups[key]) for key in keys)
        value = run.given_back((out, aux) if has_aux else out)
        return value, chosen[0] if isinstance(argnums, int | str) else chosen

    return evaluate


@boundary
def vjp(f: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The value of f and its pullback, which maps cotangents of the value to those of the primals.

    Returns:
        (out, pullback), and aux with `has_aux`. `pullback(ct)` takes ct in out's container and
        shapes, and returns a tuple with one entry for each primal; it can be called again.

    Raises:
        DTypeError: `[integer-gradient]`, by name of the argument.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> out, pullback = ab.vjp(lambda x: x * x, np.array([1.0, 2.0]))
        >>> pullback(np.array([1.0, 10.0]))
        (array([ 2., 40.]),)
    """
    require_function("vjp", f)
    names = argument_names(f, len(primals))
    run = Evaluation(
        f, primals, {}, dict(enumerate(names)), refusal("vjp", f, primals), copies=True
    )
    out, aux = split_aux(run.out) if has_aux else (run.out, None)
    edges, structure = flatten(out)

    @boundary
    def pullback(ct: Any) -> tuple[Any, ...]:
        cts = matching("cotangent", ct, edges, structure)
        filled = [
            zeros_like(bare(a)) if g is None else g
            for g, a in zip(run.pull(edges, cts), run.aliases, strict=True)
        ]
        return tuple(run.given_back(group) for group in run.grouped(filled).values())

    value = run.given_back(out)
    return (value, pullback, run.given_back(aux)) if has_aux else (value, pullback)


@boundary
def jvp(
    f: Function, primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> Any:
    """The value of f and its directional derivative: the tangent of the value.

    Args:
        f: any function of arrays or containers of them.
        primals: f's arguments, as a tuple.
        tangents: one direction for each, in the same containers and shapes.
        has_aux: whether f returns a pair of a value and anything else.

    Returns:
        (out, tangent), and aux with `has_aux`.

    Raises:
        DTypeError: `[integer-gradient]`, by name of the argument.
        ShapeError: `[shape-mismatch]` for a tangent that does not match its primal.

    Example:
        >>> import anabranch as ab
        >>> out, t = ab.jvp(lambda x, y: x * y, (2.0, 5.0), (1.0, 0.0))
        >>> float(out), float(t)
        (10.0, 5.0)
    """
    require_function("jvp", f)
    require_tuples("jvp", "ab.jvp(f, (x,), (t,))", primals, tangents)
    names = argument_names(f, len(primals))
    run = Evaluation(
        f, tuple(primals), {}, dict(enumerate(names)), refusal("jvp", f, tuple(primals))
    )
    out, aux = split_aux(run.out) if has_aux else (run.out, None)
    edges, structure = flatten(out)
    given = flatten(tuple(primals))[1]
    ts = matching("tangent", tuple(tangents), run.aliases, given)
    pushed = run.push(edges, ts)
    filled = [zeros_like(bare(e)) if t is None else t for t, e in zip(pushed, edges, strict=True)]
    result = run.given_back(out), run.given_back(unflatten(structure, filled))
    return (*result, run.given_back(aux)) if has_aux else result


@boundary
def gradients(
    z: Any, xs: Sequence[Any], ct: Any = None, *, unused: str = "zero", record: bool = False
) -> list[Any]:
    """The derivatives of a value that was built already: of a tensor, or of a node by new nodes.

    Args:
        z: an eager tensor or a graph node.
        xs: the tensors or nodes to differentiate by, intermediate ones too.
        ct: the cotangent of z; 1 by default, for shape () only.
        unused: as for `grad`.
        record: for tensors, whether the gradients are recorded, so that they have derivatives.

    Returns:
        One tensor or node for each of `xs`. `.grad` stays untouched.

    Example:
        >>> import anabranch as ab
        >>> g = ab.Graph("demo")
        >>> x = g.parameter("x", (), ab.float64)
        >>> (slope,) = ab.gradients(x * x * x, [x])
        >>> float(g.compile(slope)(2.0))
        12.0
    """
    require_policy(unused)
    if not isinstance(xs, list | tuple):
        raise ArgumentError("bad-argument", "gradients takes a list of what to differentiate by")
    require_built((z, *xs))
    region = ancestors([z])
    within = dependents(region.values(), xs)
    if isinstance(z, Edge):
        steps = node_steps(region.values(), within)
        if ct is None:
            require_scalar("gradients", z)
            ct = z.dtype.type(1)
        found = reverse(steps, {key_of(z): ct}, within)
    else:
        start = {key_of(z): ct if record and isinstance(ct, Tensor) else engine.seed(z, ct)}
        if state.onlooker is not None and not record:
            state.onlooker.pulled([z], dict(start), xs)
        found = engine.pulled(region.values(), start, within, record)
    results = []
    for position, x in enumerate(xs):
        name = getattr(x, "name", None) or f"xs[{position}]"
        value = filled_in(found.get(key_of(x)), x, name, unused)
        # An array is a gradient that was computed at once, or one that is constant.
        results.append(lifted(value, z) if isinstance(value, ARRAYS) else value)
    return results
