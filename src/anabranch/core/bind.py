"""The one door: every application of an op, in whatever front end, goes through `bind`.

A value's type says which front end handles it; a trace that is running in this thread takes
everything. Plain arrays outside a trace are computed at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from anabranch.core.aval import aval_of
from anabranch.core.domain import is_watched, outside, tell, watch
from anabranch.core.dtype import WEAK_DTYPES
from anabranch.core.registry import lookup
from anabranch.core.source import RawSource, capture, resolve
from anabranch.core.values import ARRAYS, held_narrow, plain
from anabranch.errors import AnabranchError, ArgumentError

if TYPE_CHECKING:
    from anabranch.core.graph import Graph
    from anabranch.core.node import Node
    from anabranch.core.op import Op

E = TypeVar("E", bound=AnabranchError)
Apply = Callable[["Op", tuple[Any, ...], dict[str, Any]], Any]

# Plain operands: what NumPy itself can compute with, no front end needed.
NUMBERS = frozenset(WEAK_DTYPES)


class State(threading.local):
    """What this thread is doing.

    trace: the graph that a running trace builds; ops go there.
    door: who takes every op, if not the operands decide: the trace, or one who looks on.
    guard: who refuses values that are not finite, where that is wanted.
    onlooker: who is told of each derivative that is taken.
    recording: whether eager ops are recorded.
    transforms: how many derivatives of functions are being evaluated, one inside the other.
    aliases: ids of the nodes that stand for the variables of these derivatives.
    origin: the node and input slot whose derivative is being built.
    line: the line that new nodes get instead of the running one, while a graph is replayed.
    scope: the path of names that new nodes carry.
    """

    trace: Graph | None = None
    door: Any = None
    guard: Any = None
    onlooker: Any = None
    recording: bool = True
    transforms: int = 0
    aliases: set[int] = set()  # noqa: RUF012  # replaced by each outermost derivative
    origin: tuple[Node, int] | None = None
    line: RawSource | None = None
    scope: str = ""

    def changed(self, **changes: Any) -> _Changed:
        """These fields have other values in the block, and their own again behind it."""
        if "trace" in changes:
            changes["door"] = changes["trace"]
        return _Changed(changes)


state = State()


class _Changed:
    """Each `backward` enters one: a generator would take three times as long."""

    __slots__ = ("_before", "_changes")

    def __init__(self, changes: dict[str, Any]) -> None:
        self._changes = changes

    def __enter__(self) -> None:
        self._before = {name: getattr(state, name) for name in self._changes}
        state.__dict__.update(self._changes)

    def __exit__(self, *_: object) -> None:
        state.__dict__.update(self._before)


_frontends: dict[type, tuple[int, Apply]] = {}
_appliers: dict[tuple[type, ...], Apply] = {}  # what `_applier` found
_MANY_KINDS = 1_000


def register_frontend(operand: type, rank: int, apply: Apply) -> None:
    """Let `apply` handle ops on this type of operand; the highest rank among the operands wins."""
    _frontends[operand] = (rank, apply)
    _appliers.clear()


_holding: list[Callable[[Any], Any]] = []  # how to wrap a plain array, and how to unwrap it


def register_holder(hold: Callable[[Any], Any], release: Callable[[Any], Any]) -> None:
    """Let `on_value` wrap plain arrays so that their operators are ops."""
    _holding[:] = hold, release


def on_value(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a function that is written with operators, so that each of them comes through `bind`.

    A plain array has operators of its own, which know neither our promotion nor our options: the
    first argument, if it is one, is held by a value meanwhile, which takes in what it meets. In a
    trace, and beside other values, all is left as it is.
    """
    is_plain = args and state.trace is None and isinstance(args[0], ARRAYS)
    if not is_plain or any(type(value) in _frontends for value in (*args, *kwargs.values())):
        return function(*args, **kwargs)
    hold, release = _holding
    out = function(hold(args[0]), *args[1:], **kwargs)
    if isinstance(out, tuple | list):
        released = map(release, out)
        return type(out)(*released) if hasattr(out, "_fields") else type(out)(released)
    return release(out)


def is_operand(value: Any) -> bool:
    """Whether `value` can stand as an operand of an op."""
    kind = type(value)
    return kind in NUMBERS or kind in _frontends or isinstance(value, ARRAYS)


def bind(op: Op | str, *args: Any, **attrs: Any) -> Any:
    """Apply an op to operands: compute at once, record, or append a node, as the operands ask.

    Raises:
        ArgumentError: `[bad-operand]` for what is neither an array, a number nor one of the
            library's values; `[unknown-op]` for a name that no record has.
        ShapeError, DTypeError: what the op's own rules say.
    """
    record = lookup(op) if isinstance(op, str) else op
    door = state.door
    if door is not None:
        return door.apply(record, args, attrs)
    # Most ops take two operands, and spelt out their types are found twice as fast.
    kinds = (type(args[0]), type(args[1])) if len(args) == 2 else (*map(type, args),)
    try:  # in nearly every call it is there
        apply = _appliers[kinds]
    except KeyError:
        apply = _applier(kinds)
    return apply(record, args, attrs)


def _applier(kinds: tuple[type, ...]) -> Apply:
    """Who applies ops on operands of these types: the front end of the highest rank among them."""
    found = [_frontends[kind] for kind in kinds if kind in _frontends]
    apply = max(found, key=lambda one: one[0])[1] if found else compute
    if len(_appliers) < _MANY_KINDS:
        _appliers[kinds] = apply
    return apply


def compute(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """The op on plain arrays and numbers, by its NumPy reference."""
    values = [operand(op, arg) for arg in args]
    if not any(isinstance(value, ARRAYS) for value in values):
        values = [np.asarray(value)[()] for value in values]
    values = held_narrow(values)
    try:
        if op.outside is not None and watch.blocks:
            return watched(op, values, attrs, args)
        return op.ref(*values, **attrs)
    except Exception as error:
        raise explain_failure(op, args, attrs, error) from None


def watched(op: Op, values: Sequence[Any], attrs: dict[str, Any], args: Sequence[Any]) -> Any:
    """The reference's result, and a word of operands outside of the domain if it is asked for."""
    error = outside(op, values, attrs, state.origin) if is_watched() else None
    if error is None:
        return op.ref(*values, **attrs)
    tell(located(error, args))
    with np.errstate(divide="ignore", invalid="ignore"):  # it has been told
        return op.ref(*values, **attrs)


def operand(op: Op, arg: Any) -> Any:
    """A plain operand as a value: an array in C order, a NumPy scalar or a Python number."""
    if type(arg) in NUMBERS:
        return arg
    if isinstance(arg, ARRAYS):
        return plain(arg)
    raise bad_operand(op, arg)


def explain_failure(
    op: Op, args: Sequence[Any], attrs: dict[str, Any], error: Exception
) -> Exception:
    """What to raise when a reference failed: the op's own rule speaks first, then NumPy."""
    if isinstance(error, AnabranchError):
        return located(error, args)
    try:
        op.aval(*map(aval_of, args), **attrs)
    except AnabranchError as better:
        return located(better, args, op)
    return error


def bad_operand(op: Op, arg: Any) -> ArgumentError:
    """The error for an operand of a foreign type."""
    kind = type(arg).__name__
    hint = "ab.tensor(...) makes a tensor of it" if kind in ("list", "tuple") else None
    message = f"{op.name} cannot take a {kind} as operand"
    return located(ArgumentError("bad-operand", message, hint=hint))


def located(error: E, args: Sequence[Any] = (), op: Op | None = None) -> E:
    """The error with the user's running line and its operands, where it does not name them yet."""
    if error.source is None:
        error.source = resolve(current_source())
        error.facts = error.facts or tuple(describe(i, arg) for i, arg in enumerate(args))
        error.details.setdefault("avals", tuple(map(aval_of, args)))
        if op is not None and not error.sentence.startswith(op.name):
            error.sentence = f"{op.name}: {error.sentence}"
        error.sentence = _with_names(error.sentence, args)
        error.hint = error.hint and _with_names(error.hint, args)
    return error


def _with_names(text: str, args: Sequence[Any]) -> str:
    """Rules speak of `{x}` and `{y}`; users read the names of their own values."""
    for place, arg in zip(("x", "y"), args, strict=False):
        name = getattr(arg, "described", (None,))[0]
        text = text.replace(f"{{{place}}}", name if name and name.isidentifier() else place)
    return text


def describe(position: int, value: Any) -> str:
    """`images: f32[32,784]   parameter`: one operand as a fact of an error."""
    name, role = getattr(value, "described", (None, "array"))
    if type(value) in NUMBERS:
        role = f"the number {value!r}"
    return f"{name or f'operand {position}'}: {aval_of(value)}   {role}"


def current_source(skip: int = 1) -> RawSource | None:
    """The line a new node belongs to: of the node that is differentiated or replayed, if any."""
    origin = state.origin
    return (state.line or capture(skip)) if origin is None else origin[0].raw_source


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Nodes made in the block carry this name in their scope path, below the enclosing ones.

    Example:
        >>> import anabranch as ab
        >>> g = ab.Graph("demo")
        >>> x = g.parameter("x", (2,), ab.float64)
        >>> with ab.scope("encoder"):
        ...     y = x + 1.0
        >>> y.scope
        'encoder'
    """
    with state.changed(scope=f"{state.scope}/{name}" if state.scope else name):
        yield
