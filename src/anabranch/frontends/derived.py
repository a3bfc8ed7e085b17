"""Derivative services made of the two walks: whole matrices, products, values in between.

A matrix takes one recorded evaluation of the function and one sweep for each row (reverse) or each
column (forward).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from anabranch.core.aval import Aval, aval_of
from anabranch.core.dtype import is_floating
from anabranch.core.entry import boundary
from anabranch.diff.region import ancestors
from anabranch.errors import ArgumentError, DTypeError
from anabranch.frontends.arguments import (
    Argnums,
    Function,
    require_function,
    require_tuples,
    split_aux,
    wanted_arguments,
)
from anabranch.frontends.containers import argument_names, flatten, unflatten
from anabranch.frontends.evaluation import Evaluation, is_recorded, refusal
from anabranch.frontends.matrix import JacobianPlan, blocks
from anabranch.frontends.transforms import grad, jvp

MODES = ("auto", "forward", "reverse")
_CHUNK = 64


class Jacobian:
    """A function that gives the Jacobian of another; made by `ab.jacobian` and `ab.hessian`."""

    def __init__(
        self,
        f: Function,
        argnums: Argnums,
        mode: str,
        chunk: int | None,
        has_aux: bool,
        what: str,
    ) -> None:
        functools.update_wrapper(self, f)
        self.function = f
        self._argnums = argnums
        self._mode = mode
        self._chunk = chunk
        self._has_aux = has_aux
        self._what = what

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        run, out, aux = self._evaluated(args, kwargs)
        edges, structure = flatten(out)
        plan = self._planned(run, edges)
        matrix = blocks(run, edges, plan)
        keys = wanted_arguments(self.function, self._argnums, args, kwargs)
        result = unflatten(structure, [self._chosen(run, row, keys) for row in matrix])
        return (result, run.given_back(aux)) if self._has_aux else result

    @boundary
    def plan(self, *args: Any, **kwargs: Any) -> JacobianPlan:
        """The mode, the number of sweeps and the peak for these arguments; f runs, no sweep does.

        Example:
            >>> import anabranch as ab, numpy as np
            >>> plan = ab.jacobian(ab.sin, chunk=10).plan(np.zeros(1000))
            >>> plan.mode, plan.sweeps, plan.row_bytes * plan.chunk
            ('forward', 1000, 80000)
        """
        run, out, _ = self._evaluated(args, kwargs)
        return self._planned(run, flatten(out)[0])

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _evaluated(self, args: Any, kwargs: Any) -> tuple[Evaluation, Any, Any]:
        keys = wanted_arguments(self.function, self._argnums, args, kwargs)
        names = argument_names(self.function, len(args))
        wanted = {key: key if isinstance(key, str) else names[key] for key in keys}
        refuse = refusal(self._what, self.function, args)
        run = Evaluation(self.function, args, kwargs, wanted, refuse)
        out, aux = split_aux(run.out) if self._has_aux else (run.out, None)
        for leaf in flatten(out)[0]:
            self._require_floating(leaf)
        return run, out, aux

    def _require_floating(self, leaf: Any) -> None:
        if type(leaf) in (int, float):
            return
        if not hasattr(leaf, "dtype"):
            kind = type(leaf).__name__
            raise ArgumentError(
                "bad-result", f"{self._what} has no meaning for a result that is a {kind}"
            )
        if not is_floating(leaf.dtype):
            raise DTypeError(
                "integer-gradient",
                f"{self._what} has no meaning for a result of {aval_of(leaf)};"
                " only floats have tangents",
            )

    def _planned(self, run: Evaluation, edges: Sequence[Any]) -> JacobianPlan:
        inputs, outputs = list(map(aval_of, run.aliases)), list(map(aval_of, edges))
        columns, rows = (sum(a.size for a in avals) for avals in (inputs, outputs))
        mode = self._mode
        if mode == "auto":
            mode = "forward" if columns <= rows else "reverse"
        sweeps, row = (columns, outputs) if mode == "forward" else (rows, inputs)
        recorded = ancestors([e for e in edges if is_recorded(e)]).values()
        return JacobianPlan(
            mode,
            sweeps,
            min(self._chunk or _CHUNK, max(sweeps, 1)),
            sum(rows * a.size * a.dtype.itemsize for a in inputs),
            sum(map(_bytes, row)),
            sum(_bytes(edge.aval) for edge in recorded),
        )

    def _chosen(self, run: Evaluation, row: list[Any], keys: Sequence[int | str]) -> Any:
        groups = run.grouped(row)
        found = tuple(groups[key] for key in keys)
        return found[0] if isinstance(self._argnums, int | str) else found


def _bytes(a: Aval) -> int:
    return a.size * a.dtype.itemsize


@boundary
def jacobian(
    f: Function,
    argnums: Argnums = 0,
    *,
    mode: str = "auto",
    chunk: int | None = None,
    has_aux: bool = False,
) -> Jacobian:
    """All derivatives of all outputs of a function by all elements of an argument.

    f is run once and recorded; then each row (reverse) or column (forward) takes one sweep.

    Args:
        f: takes and returns arrays, numbers or containers of them, of floating dtype.
        argnums: which argument, by position or name; a tuple of them gives a tuple inside each
            output's place.
        mode: `"forward"`, `"reverse"`, or `"auto"` for the one that needs fewer sweeps, forward
            where both need as many.
        chunk: how many rows or columns are held at most before they are written into the result;
            64 by default. `jacobian(f).plan(*args)` tells the peak.
        has_aux: whether f returns a pair of a value and anything else; then the result is
            (Jacobian, aux).

    Returns:
        A function of f's arguments. Its result is f's container, with the argument's container in
        the place of each output; each leaf has shape `out.shape + in.shape` and the argument's
        dtype. NumPy in, NumPy out; tensors in, tensors out; inside `ab.compile` too.

    Raises:
        DTypeError: `[integer-gradient]` for an argument or a result of integers or bools.
        ArgumentError: `[bad-argument]` for an unknown mode or a chunk below 1.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> ab.jacobian(lambda x: x * x)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """
    require_function("jacobian", f)
    _require_way(mode, chunk)
    return Jacobian(f, argnums, mode, chunk, has_aux, "jacobian")


@boundary
def hessian(
    f: Function,
    argnums: Argnums = 0,
    *,
    mode: str = "auto",
    chunk: int | None = None,
    has_aux: bool = False,
) -> Jacobian:
    """All second derivatives of a function with a scalar result: the Jacobian of its gradient.

    Args:
        f: returns a scalar of floating dtype.
        argnums, mode, chunk, has_aux: as for `jacobian`. `"auto"` is forward over reverse.

    Returns:
        A function of f's arguments. Its result is the argument's container, with that container
        again in the place of each leaf; each leaf has shape `a.shape + b.shape`. A tuple of
        argnums gives a tuple, with a tuple in the place of each leaf.

    Raises:
        ShapeError: `[not-a-scalar]` when f's result is not one. Others as for `jacobian`.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> ab.hessian(lambda x: (x * x * x).sum())(np.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]])
    """
    require_function("hessian", f)
    _require_way(mode, chunk)
    gradient = grad(f, argnums, has_aux=has_aux)
    return Jacobian(gradient, argnums, mode, chunk, has_aux, "hessian")


@boundary
def hvp(
    f: Function, primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> Any:
    """The gradient of a scalar function and the product of its Hessian with a direction.

    Forward over reverse: the tangent of the gradient, for the price of a few gradients and without
    the Hessian. Like `jvp`, it takes tuples and gives the value (here the gradient) first.

    Args:
        f: returns a scalar of floating dtype.
        primals: f's arguments, as a tuple.
        tangents: one direction for each, in the same containers and shapes.
        has_aux: whether f returns a pair of the scalar and anything else.

    Returns:
        (gradient, product), and aux with `has_aux`: two tuples with one entry for each primal, in
        its container, shape and dtype.

    Raises:
        ShapeError: `[not-a-scalar]`, or `[shape-mismatch]` for a tangent unlike its primal.
        DTypeError: `[integer-gradient]`, by name of the argument.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 10.0])
        >>> (gradient,), (product,) = ab.hvp(lambda x: (x * x * x).sum(), (x,), (v,))
        >>> gradient, product
        (array([ 3., 12.]), array([  6., 120.]))
    """
    require_function("hvp", f)
    require_tuples("hvp", "ab.hvp(f, (x,), (v,))", primals, tangents)
    gradient = grad(f, tuple(range(len(primals))), has_aux=has_aux)
    return jvp(gradient, primals, tangents, has_aux=has_aux)


def _require_way(mode: str, chunk: int | None) -> None:
    if mode not in MODES:
        raise ArgumentError("bad-argument", f"mode is one of {', '.join(MODES)}, not {mode!r}")
    if chunk is not None and (type(chunk) is not int or chunk < 1):
        raise ArgumentError("bad-argument", f"chunk is a number of rows, at least 1, not {chunk!r}")
