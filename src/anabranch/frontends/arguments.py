"""What the derivative services share: which arguments are meant, what must match what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.bind import NUMBERS
from anabranch.core.graph import ended
from anabranch.core.node import Edge
from anabranch.core.values import as_array, settled
from anabranch.diff.reverse import zeros_like
from anabranch.errors import ArgumentError, DTypeError, NoGradientError, ShapeError
from anabranch.frontends.containers import argument_names, flatten, leaf_names, unflatten
from anabranch.frontends.tensor import Tensor, make_tensor

Function = Callable[..., Any]
Argnums = int | str | Sequence[int | str]


def lifted(array: Any, z: Any) -> Any:
    """An array in the kind of `z`: a tensor, or a constant of its graph."""
    if isinstance(z, Tensor):
        return make_tensor(settled(array.copy()))
    graph = z.node.graph
    return array if graph is None else graph.constant(array)


def require_function(what: str, f: Any) -> None:
    """Raise ArgumentError `[bad-argument]` unless f can be called."""
    if not callable(f):
        raise ArgumentError("bad-argument", f"{what} needs a function, not a {type(f).__name__}")


def require_tuples(what: str, call: str, primals: Any, tangents: Any) -> None:
    """Raise ArgumentError `[bad-argument]`, with the right call, unless both are tuples."""
    if not isinstance(primals, list | tuple) or not isinstance(tangents, list | tuple):
        message = f"{what} takes a tuple of primals and a tuple of tangents"
        raise ArgumentError("bad-argument", message, hint=call)


def require_built(values: Iterable[Any]) -> None:
    """Raise ArgumentError `[not-a-tensor]` unless all are tensors, or nodes of living graphs."""
    for value in values:
        if not isinstance(value, Edge | Tensor):
            kind = type(value).__name__
            raise ArgumentError("not-a-tensor", f"a {kind} is neither a tensor nor a node")
        if isinstance(value, Edge) and value.node.graph is None:
            raise ended(value.node)


def require_policy(unused: str) -> None:
    """Raise ArgumentError `[bad-argument]` unless this says what unused arguments get."""
    if unused not in ("zero", "none", "raise"):
        raise ArgumentError("bad-argument", f'unused is "zero", "none" or "raise", not {unused!r}')


def wanted_arguments(f: Function, argnums: Argnums, args: Any, kwargs: Any) -> list[int | str]:
    """Positions or keyword names of the arguments to differentiate, in the order asked for."""
    names = argument_names(f, len(args))
    chosen: Any = [argnums] if isinstance(argnums, int | str) else argnums
    if not isinstance(chosen, Sequence) or not all(type(one) in (int, str) for one in chosen):
        raise ArgumentError(
            "bad-argument", f"argnums is a position or a name, or a tuple of them, not {argnums!r}"
        )
    return [_argument_key(one, names, args, kwargs) for one in chosen]


def _argument_key(one: int | str, names: list[str], args: Any, kwargs: Any) -> int | str:
    if isinstance(one, str) and one in kwargs:
        return one
    position = names.index(one) if one in names else one
    if isinstance(position, int) and -len(args) <= position < len(args):
        return position % len(args)
    known = ", ".join([*names, *kwargs])
    raise ArgumentError("no-such-argument", f"argnums names {one!r}, the call has: {known}")


def split_aux(out: Any) -> tuple[Any, Any]:
    """The pair (value, aux) that a function with `has_aux` returned."""
    if not isinstance(out, tuple) or len(out) != 2:
        raise ArgumentError("no-aux", "with has_aux=True the function must return (value, aux)")
    return out


def require_scalar(what: str, out: Any) -> None:
    """Raise unless a result is one number of floating dtype, or a Python number."""
    if not isinstance(out, Edge | Tensor | np.ndarray | np.generic) and type(out) not in NUMBERS:
        raise ArgumentError(
            "not-a-scalar",
            f"{what} needs a function that returns a scalar, got {type(out).__name__}",
            hint="has_aux=True for (value, aux); ab.vjp for containers",
        )
    kind = aval_of(out)
    if kind.shape:
        raise ShapeError(
            "not-a-scalar",
            f"{what} needs a scalar result, the function returned {kind}",
            hint="sum or mean it, or give a cotangent with ab.vjp",
        )
    if not kind.is_floating and type(out) not in NUMBERS:
        raise DTypeError(
            "integer-gradient",
            f"{what} has no meaning for a result of {kind}; only floats have tangents",
        )


def one_like(out: Any) -> Any:
    """The cotangent of a scalar; None for a Python number, which no path reaches."""
    return None if type(out) in NUMBERS else out.dtype.type(1)


def filled_in(ct: Any, alias: Any, name: str, unused: str) -> Any:
    """A cotangent, or what `unused` says in place of a structural zero."""
    if ct is not None or unused == "none":
        return ct
    if unused == "raise":
        raise NoGradientError("unused-argument", f'the result does not depend on "{name}"')
    return zeros_like(bare(alias))


def bare(value: Any) -> Any:
    """A value whose zeros need no recording."""
    if type(value) in NUMBERS:
        return np.asarray(value)
    return value.value if isinstance(value, Tensor) else value


class _Leaf:
    def __repr__(self) -> str:
        return "*"


def _shown(structure: Any) -> str:
    """A container with a star for each leaf: `{'w': *, 'b': *}`."""
    return repr(unflatten(structure, [_Leaf()] * structure.num_leaves))


def matching(what: str, tree: Any, edges: Sequence[Any], structure: Any) -> list[Any]:
    """The leaves of `tree`, which must match these values one for one."""
    leaves, given = flatten(tree)
    if given != structure:
        raise ArgumentError(
            "container-mismatch", f"the {what} is {_shown(given)}, need {_shown(structure)}"
        )
    result = []
    for name, leaf, edge in zip(leaf_names(given, what), leaves, edges, strict=True):
        kind = aval_of(edge)
        value = leaf if isinstance(leaf, Edge | Tensor) else settled(as_array(leaf, kind.dtype))
        if value.shape != kind.shape:
            raise ShapeError("shape-mismatch", f"{name} has shape {value.shape}, need {kind.shape}")
        result.append(value)
    return result
