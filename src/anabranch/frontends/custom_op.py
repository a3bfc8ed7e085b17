"""The op that stands for a function with a derivative rule of its own: two closed graphs."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from anabranch.core.aval import Aval
from anabranch.core.bind import state
from anabranch.core.graph import Graph
from anabranch.core.identity import structure_hash
from anabranch.core.late import LateModule
from anabranch.core.node import Edge
from anabranch.core.op import NO_GRADIENT, NoGradient, Op, Unsupported
from anabranch.core.record import record
from anabranch.core.replay import replay
from anabranch.diff.needs import read_values
from anabranch.errors import NoGradientError, ShapeError
from anabranch.frontends.execution import Program

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = LateModule("hashlib")

Slots = Sequence[int | NoGradient | Unsupported]


@record(eq=False)
class CustomOp(Op):
    """The record of one traced signature of a function; it is in no table.

    Fields:
        body: what computes the outputs; its parameters are the op's first inputs.
        laws: the rule; its parameters are the outputs' cotangents, the outputs and all inputs.
        slots: for each input the output of `laws` that is its cotangent, or why there is none.
        digest: what tells records apart that carry one name; equal in every process.
    """

    body: Graph | None = None
    laws: Graph | None = None
    slots: tuple[Any, ...] = ()
    digest: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_flat", isinstance(self.vjp, NoGradient))
        object.__setattr__(self, "_rules", self.vjp)
        object.__setattr__(self, "__name__", self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.name, self.body, self.laws, self.slots)


_made: weakref.WeakValueDictionary[str, CustomOp] = weakref.WeakValueDictionary()
_recent: deque[CustomOp] = deque(maxlen=64)  # an eager loop finds its ops here


def custom_op(name: str, body: Graph, laws: Graph, slots: Slots) -> tuple[CustomOp, dict[str, Any]]:
    """The op for these graphs, the same one for equal graphs, and the attrs that go with it.

    The attr `rule` tells two functions of one name apart in listings and hashes.
    """
    kinds = [slot if isinstance(slot, int) else type(slot).__name__ for slot in slots]
    text = "\n".join([name, structure_hash(body), structure_hash(laws), repr(kinds)])
    digest = hashlib.sha256(text.encode()).hexdigest()
    found = _made.get(digest)
    if found is None:
        found = _made[digest] = _new(name, body, laws, tuple(slots), digest)
        _recent.append(found)
    return found, {"rule": digest[:8]}


def _rebuilt(name: str, body: Graph, laws: Graph, slots: Slots) -> CustomOp:
    return custom_op(name, body, laws, slots)[0]


def _new(name: str, body: Graph, laws: Graph, slots: tuple[Any, ...], digest: str) -> CustomOp:
    program = Program(body, "reference", ())
    needed = len(body.parameters)
    outputs = tuple(edge.aval for edge in body.outputs)
    several = len(outputs) > 1
    expected = [p.avals[0] for p in laws.parameters[2 * len(outputs) :]]

    def aval(*avals: Aval, **_: Any) -> Any:
        for given, wanted in zip(avals, expected, strict=True):
            if given.shape != wanted.shape:
                raise ShapeError(
                    "shape-mismatch", f"{name} was traced for {wanted}, this is {given}"
                )
        return outputs if several else outputs[0]

    def ref(*arrays: Any, **_: Any) -> Any:
        with state.changed(trace=None, line=None):
            out = program.run(arrays[:needed])
        return tuple(out) if several else out[0]

    def common(ct: Any, y: Any, *xs: Any, **_: Any) -> list[Any]:
        ends = (*ct, *y) if several else (ct, y)
        return replay(laws, [*ends, *xs])

    has_rule = any(isinstance(slot, int) for slot in slots)
    is_linear = not has_rule or _is_linear(laws, len(outputs))
    return CustomOp(
        name,
        aval=aval,
        ref=ref,
        doc=f"{name}, with a derivative rule of its own.",
        vjp=tuple(map(_vjp, slots)) if has_rule or _refuses(slots) else NO_GRADIENT,
        common=common if has_rule else None,
        jvp=None if is_linear else (_refusing(name),) * len(slots),
        arity=len(slots),
        body=body,
        laws=laws,
        slots=slots,
        digest=digest,
    )


def _refuses(slots: Slots) -> bool:
    return any(isinstance(slot, Unsupported) for slot in slots)


def _vjp(slot: int | NoGradient | Unsupported) -> Any:
    if not isinstance(slot, int):
        return slot
    return lambda ct, y, *xs, common, **_: common[slot]


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NoGradientError(
            "no-gradient-rule",
            f"{name} has no forward mode: its rule is not linear in the cotangent, so no tangent"
            " rule follows from it",
            hint="ab.grad and ab.vjp use the rule as it is",
        )

    return refuse


def _is_linear(laws: Graph, cts: int) -> bool:
    """Whether no derivative in the rule by a cotangent, taken step by step, reads a cotangent."""
    found = {p.id for p in laws.parameters[:cts]}
    for node in laws.order(laws.outputs):
        slots = [i for i, e in enumerate(node.inputs) if isinstance(e, Edge) and e.node.id in found]
        if not slots:
            continue
        found.add(node.id)
        y: Any = node if len(node.avals) == 1 else node.outputs
        xs = tuple(e if isinstance(e, Edge) else e.value for e in node.inputs)
        for slot in slots:
            rule = node.op.gradient(slot)
            if isinstance(rule, NoGradient | Unsupported) or rule is False:
                return False
            inputs, output = read_values(node, slot, y, xs)
            if output or inputs.intersection(slots):
                return False
    return True
