"""Eager work: compute now, and record what a derivative may need; and the makers of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from anabranch.core.aval import aval
from anabranch.core.bind import (
    NUMBERS,
    current_source,
    explain_failure,
    operand,
    register_frontend,
    register_holder,
    state,
    watched,
)
from anabranch.core.domain import watch
from anabranch.core.dtype import FLOATS
from anabranch.core.entry import boundary
from anabranch.core.node import Literal, make_node
from anabranch.core.op import Op
from anabranch.core.values import held_narrow, plain, settled
from anabranch.frontends.stale import used_again
from anabranch.frontends.tensor import Tensor, make_tensor, next_id

# How many frames of the library stand at least between a user's line and `capture`: itself,
# current_source, _record, apply, bind. Skipping them unseen saves a good part of recording.
_FRAMES = 5


def apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """The eager side of `bind`: compute now, and record if an operand's history matters."""
    values = []
    tracked = weak = False
    for arg in args:
        if type(arg) is Tensor:
            values.append(arg.value)
            if arg._tracked:
                tracked = True
        elif type(arg) in NUMBERS:
            values.append(arg)
            weak = True
        else:
            values.append(operand(op, arg))
    if weak:
        values = held_narrow(values)
    try:
        if op.outside is not None and watch.blocks:
            out = watched(op, values, attrs, args)
        else:
            out = op.ref(*values, **attrs) if attrs else op.ref(*values)
    except Exception as error:
        raise explain_failure(op, args, attrs, error) from None
    if tracked and state.recording:
        return _record(op, args, attrs, out)
    if type(out) is tuple:
        return tuple(map(make_tensor, out))
    made: Tensor = object.__new__(Tensor)  # as make_tensor does; a call more is felt in each op
    made.value = out
    made._tracked = made._requires_grad = False
    return made


def _record(op: Op, args: tuple[Any, ...], attrs: dict[str, Any], out: Any) -> Any:
    inputs = []
    smooth = handed_out = False
    for arg in args:
        if type(arg) is Tensor:
            smooth = smooth or arg._requires_grad
            if arg.taken is not None:
                used_again(arg)
                handed_out = True
            arg.node  # noqa: B018  # a leaf gets its node, hence its id, before the op gets its own
            inputs.append(arg)
        else:
            inputs.append(_constant(arg))
    smooth = smooth and not op.is_flat
    single = type(out) is not tuple
    avals = (
        (aval(out.shape, out.dtype),) if single else tuple([aval(y.shape, y.dtype) for y in out])
    )
    line = current_source(_FRAMES)
    node = make_node(
        op, tuple(inputs), attrs, avals, next_id(), line, None, None, state.scope, state.origin
    )
    versions = None
    if handed_out:
        versions = tuple([e.version if type(e) is Tensor else 0 for e in inputs])
    if single:
        made = make_tensor(out, node, requires_grad=smooth and out.dtype in FLOATS)
        made.input_versions = versions
        return made
    results = tuple(
        make_tensor(y, node, i, out, smooth and y.dtype in FLOATS) for i, y in enumerate(out)
    )
    for one in results:
        one.input_versions = versions
    return results


def _constant(arg: Any) -> Any:
    """An array or number as an input of a recorded node."""
    if type(arg) in NUMBERS or isinstance(arg, np.generic):
        return Literal(arg)
    constant = make_tensor(np.array(arg))  # a copy: the walk back must meet the value of today
    constant.node  # noqa: B018  # as above
    return constant


register_frontend(Tensor, 1, apply)
register_holder(
    lambda array: make_tensor(settled(plain(array))),
    lambda out: out.value if type(out) is Tensor else out,
)


@boundary
def tensor(
    data: Any, dtype: Any = None, *, requires_grad: bool = False, name: str | None = None
) -> Tensor:
    """A tensor with a copy of `data`.

    Args:
        data: a number, a nested list, an array or a tensor.
        dtype: float64 by default for numbers, lists and integer arrays; a floating, bool or
            complex array keeps its dtype.
        requires_grad: whether `backward` brings a gradient here; floats only.
        name: what listings, stories and errors call it.

    Raises:
        DTypeError: `[integer-gradient]` or `[unsupported-dtype]`.

    Example:
        >>> import anabranch as ab
        >>> ab.tensor([1, 2], name="x")
        tensor([1., 2.], name='x')
    """
    made: Tensor = Tensor.__new__(Tensor)
    made._fill(data, requires_grad, name, dtype)
    return made


@contextmanager
def no_grad() -> Iterator[None]:
    """Record nothing in the block, in this thread.

    Example:
        >>> import anabranch as ab
        >>> x = ab.tensor(2.0, requires_grad=True)
        >>> with ab.no_grad():
        ...     y = x * x
        >>> y.requires_grad
        False
    """
    with state.changed(recording=False):
        yield
