"""The short way into a compiled function: machine code that checks arrays and runs the program."""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.backends.base import Box, Boxed, Call, Pattern, Same
from anabranch.core.config import Options, options
from anabranch.core.record import record
from anabranch.core.values import ARRAYS
from anabranch.frontends.captures import Binding
from anabranch.frontends.containers import unflatten
from anabranch.frontends.execution import Program
from anabranch.frontends.static import Static
from anabranch.frontends.tensor import Tensor
from anabranch.frontends.trace import Trace

_NUMBERS = (float, int, bool)
_MANY = 256  # looks at what a function captured, in one call
# Tensors that no derivative asks for. What was computed from such arguments is such a tensor.
_TENSOR = Box(Tensor, "value", (("_tracked", False), ("_requires_grad", False)))
# Static arguments of these types never change, so that the same object means the same program.
_UNCHANGING = (str, bytes, float, int, bool, types.FunctionType, types.BuiltinFunctionType)


def quick_entry(
    name: str,
    trace: Trace,
    program: Program,
    leaves: Sequence[Any],
    structure: Any,
    slow: Callable[..., Any],
) -> Callable[..., Any] | None:
    """A function in machine code that does what `slow` does, for arguments like these.

    None where there is none: the backend has none, an argument is no array, number or tensor
    without history and no part of the program that cannot change, containers are others than
    tuples, named tuples, lists and dicts, or what was captured takes many looks, or others than
    looks. It hands on to
    `slow` what it does not expect, and everything while `attention` is asked for.
    """
    if options() != Options():
        return None
    with_tensors = any(type(leaf) is Tensor for leaf in leaves)
    if with_tensors and program.donated:  # tensors are not given away
        return None
    outputs = [
        Same(one.value) if isinstance(one, Static) else _Tensor(one) if with_tensors else one
        for one in trace.outputs
    ]
    try:
        args, named = unflatten(structure, list(_numbered(leaves)))
        arguments = [_pattern(one) for one in args]
        by_name = {name: _pattern(one) for name, one in named.items()}
        result = _pattern(unflatten(trace.structure, outputs))
        captured = [_captured(one, with_tensors) for one in trace.captured]
    except _UnknownError:
        return None
    watched = [guard.bindings for guard in trace.guards]
    found = [binding for bindings in watched if bindings is not None for binding in bindings]
    distinct = {(b.look, id(b.holder), b.key): b for one in found for b in shorter(one)}
    if len(distinct) > _MANY or None in watched:
        return None
    wanted = slow, captured, list(distinct.values())
    return program.executable.function(Call(name, arguments, by_name, result, *wanted))


def shorter(binding: Binding) -> Iterator[Binding]:
    """The same look as a shorter one, or as two.

    What stands in a module is the module's attribute, unless its type has one of that name.
    """
    module, name = binding.holder, binding.key
    is_plain = binding.look == "attribute" and type(module) is types.ModuleType
    if is_plain and name in vars(module) and not hasattr(types.ModuleType, name):
        yield Binding("type", module, None, types.ModuleType)
        yield Binding("name", vars(module), name, binding.value)
    else:
        yield binding


class _UnknownError(Exception):
    """There is something of which machine code knows nothing."""


def _numbered(leaves: Sequence[Any]) -> Iterator[int | Same | _Tensor]:
    """The number of each parameter; what is part of the program must be the very same."""
    numbers = itertools.count()
    for leaf in leaves:
        if type(leaf) in _NUMBERS or isinstance(leaf, ARRAYS):
            yield next(numbers)
        elif type(leaf) is Tensor:
            yield _Tensor(next(numbers))
        elif type(value := leaf.value if isinstance(leaf, Static) else leaf) in _UNCHANGING:
            yield Same(value)
        else:
            raise _UnknownError


def _captured(value: Any, with_tensors: bool) -> Any:
    if type(value) is np.ndarray:
        return value
    if type(value) is not Tensor:
        raise _UnknownError
    # It reads its array at each call, for it may be given another one. Among tensors a call on
    # what a derivative asks for is recorded; among arrays it is not.
    return Boxed(value, _TENSOR if with_tensors else Box(Tensor, _TENSOR.slot))


@record
class _Tensor:
    """In a container: the tensor around the value of this number."""

    number: int


def _pattern(held: Any) -> Pattern:
    """How numbers lie in containers."""
    kind = type(held)
    if held is None:
        return Same(None)
    if kind in (int, Same):
        return held  # type: ignore[no-any-return]
    if kind is _Tensor:
        return _TENSOR, [held.number]
    if kind is dict and all(type(key) in (str, int) for key in held):
        return dict, [(key, _pattern(part)) for key, part in held.items()]
    if kind in (tuple, list) or _has_named_fields(kind):
        return kind, [_pattern(part) for part in held]
    raise _UnknownError


def _has_named_fields(kind: type) -> bool:
    """Whether this is a named tuple itself; a class derived of one may make its objects its way."""
    return kind.__bases__ == (tuple,) and "_field_defaults" in vars(kind)
