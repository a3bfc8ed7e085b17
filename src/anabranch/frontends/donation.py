"""Donated arguments: arrays that the caller of a compiled function gives away for its results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anabranch.errors import ArgumentError
from anabranch.frontends.containers import argument_names, positional_names
from anabranch.frontends.static import Static, leaf_aval
from anabranch.frontends.tensor import Tensor


def donated_parameters(
    function: Callable[..., Any], names: Iterable[str | int], leaves: Sequence[Any], structure: Any
) -> list[int]:
    """The places, among a graph's parameters, of the leaves of these arguments of one call.

    They come in the order in which the function lists its arguments, however it is called.
    """
    known = positional_names(function)
    wanted = {*names, *(known[i] for i in names if isinstance(i, int) and i < len(known))}
    args, named = structure.children()
    labels: list[tuple[Any, ...]] = [
        *enumerate(argument_names(function, args.num_children)),
        *((None, name) for name in named.entries()),
    ]
    owners = [
        label
        for label, child in zip(labels, (*args.children(), *named.children()), strict=True)
        for _ in range(child.num_leaves)
    ]
    is_static = [isinstance(leaf_aval(leaf), Static) for leaf in leaves]
    of_parameters = [one for one, static in zip(owners, is_static, strict=True) if not static]
    listed = list(inspect.signature(function).parameters) if wanted else []
    found = [i for i, label in enumerate(of_parameters) if wanted.intersection(label)]
    place = {name: i for i, name in enumerate(listed)}
    return sorted(found, key=lambda i: place.get(of_parameters[i][1], len(place)))


def given_away(
    pairs: Mapping[int, int],
    values: Sequence[Any],
    arguments: Sequence[Any],
    names: Sequence[str],
) -> list[Any]:
    """The arguments with the arrays that results may be written to; copies of what is no array.

    Args:
        pairs: parameters that results are written into, with the outputs.
        values: what the call was given.
        arguments: the same as the executable takes them.
        names: of the parameters.

    Raises:
        ArgumentError: `[bad-donation]` for an array that cannot be written to in place: read-only,
            not in C order, of a subclass, or with memory of another argument.
    """
    taken = list(arguments)
    for parameter in pairs:
        value = values[parameter]
        if not isinstance(value, np.ndarray):  # a tensor keeps its value, and a scalar has no place
            taken[parameter] = arguments[parameter].copy()
            continue
        reason = _reason_against(value)
        if reason is not None:
            raise _refused(names[parameter], *reason)
        _keep_apart(parameter, values, names)
        taken[parameter] = value
    return taken


def _reason_against(array: np.ndarray[Any, Any]) -> tuple[str, str | None] | None:
    if type(array) is not np.ndarray:
        kind = type(array).__name__
        return f"is a {kind}: only plain arrays can be given away", "np.asarray"
    if not array.flags.writeable:
        return "is read-only, and results would be written into it", "np.array"
    if not array.flags.c_contiguous or not array.flags.aligned:
        return "is not contiguous in C order, as results are", "np.ascontiguousarray"
    return None


def _keep_apart(parameter: int, values: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse what lies, at least in part, where another argument lies."""
    array = values[parameter]
    start = array.ctypes.data
    end = start + array.nbytes
    for i, other in enumerate(values):
        held = other.value if type(other) is Tensor else other
        if i == parameter or not isinstance(held, np.ndarray) or not held.size or not array.size:
            continue
        low, high = np.lib.array_utils.byte_bounds(held)
        if low < end and start < high and np.shares_memory(array, held):
            raise _refused(
                names[parameter], f"shares memory with {names[i]}, which would change with it"
            )


def _refused(name: str, reason: str, way: str | None = None) -> ArgumentError:
    hint = f"{way}({name}) is one that can" if way else "give a copy of one of them"
    return ArgumentError("bad-donation", f"{name} {reason}", hint=hint, parameter=name)
