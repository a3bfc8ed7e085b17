"""What decides the code of an entry, as text, and the Python objects that the code speaks of.

The text names each object by its number, in the order in which a call mentions them, so that it is
the same in every process; the code reads their addresses from its table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anabranch.backends.base import Box, Boxed, Call, Pattern, Same
from anabranch.backends.native import layout
from anabranch.core.aval import Aval
from anabranch.core.record import record

# What entries speak of besides what a call mentions.
_ALWAYS = (np.ndarray, float, int, str, True, False, None, np.bool_(True), np.bool_(False))
COMPARED = (float, int, str)  # of which any equal one will do where a look finds it


class Objects:
    """Objects by number; what is the same object has the same number.

    Attributes:
        held: the objects in the order of their numbers.
    """

    def __init__(self, held: Sequence[Any] = ()) -> None:
        self.held: list[Any] = []
        self._numbers: dict[int, int] = {}
        for one in held:
            self.number(one)

    def number(self, one: Any) -> int:
        """The number of an object, which gets the next one if it has none."""
        found = self._numbers.get(id(one))
        if found is None:
            found = self._numbers[id(one)] = len(self.held)
            self.held.append(one)
        return found

    def known(self, one: Any) -> int:
        """The number of an object that has one."""
        return self._numbers[id(one)]


@record
class Way:
    """How a call gets into a program, and out.

    Attributes:
        call: how users call it.
        parameters: what the program takes.
        constants: how many arrays it is handed besides.
        outputs: what it gives.
        donated: for each parameter whose memory a result takes, that result.
        workspace: bytes of memory that it needs.
        pooled: whether results come from the pool.
        is_long: whether other threads of Python may run meanwhile.
    """

    call: Call
    parameters: Sequence[Aval]
    constants: int
    outputs: Sequence[Aval]
    donated: Mapping[int, int]
    workspace: int
    pooled: bool
    is_long: bool

    def described(self) -> tuple[str, Objects]:
        """All that the code of the entry depends on, and what it speaks of."""
        avals = *self.parameters, *self.outputs
        objects = Objects(_ALWAYS)
        for aval in avals:
            objects.number(aval.dtype)
            objects.number(aval.dtype.type)
        kinds = [(str(a), a.weak, objects.number(a.dtype)) for a in avals]
        call = self.call
        lines = [
            repr((len(self.parameters), kinds, self.constants, sorted(self.donated.items()))),
            repr((self.workspace, self.pooled, self.is_long, call.converts)),
            *(f"binding {_binding(one, objects)}" for one in call.bindings),
            *(f"argument {_shown(one, objects)}" for one in call.arguments),
            *(f"named {_word(n, objects)} {_shown(p, objects)}" for n, p in call.named.items()),
            *(f"captured {_captured(one, objects)}" for one in call.captured),
            f"result {_shown(call.result, objects)}",
        ]
        return "\n".join(lines), objects


def _binding(binding: Any, objects: Objects) -> str:
    look, holder, key, value = binding
    head = f"{look} {objects.number(holder)}"
    if look == "keys":
        return f"{head} {[objects.number(one) for one in value]}"
    if look == "length":
        return f"{head} {value}"
    way = _word(key, objects) if look == "name" else objects.number(key)
    kind = type(value).__name__ if type(value) in COMPARED else "the same"
    return f"{head} {way} {objects.number(value)} {kind}"


def _word(name: str, objects: Objects) -> str:
    return f"[{objects.number(interned(name))}]"


def interned(key: Any) -> Any:
    """A key of a dict as entries mention it: names are what Python makes of equal ones."""
    return sys.intern(key) if type(key) is str else key


def _captured(one: Any, objects: Objects) -> str:
    if isinstance(one, Boxed):
        return f"{objects.number(one.owner)} {_box(one.box, objects)}"
    return str(objects.number(one))


def _box(box: Box, objects: Objects) -> str:
    fixed = [(layout.slot(box.kind, name), objects.number(value)) for name, value in box.fixed]
    return f"box {objects.number(box.kind)} {layout.slot(box.kind, box.slot)} {fixed}"


def _shown(pattern: Pattern, objects: Objects) -> str:
    if isinstance(pattern, int):
        return str(pattern)
    if isinstance(pattern, Same):
        return f"same {objects.number(pattern.value)}"
    kind, parts = pattern
    if isinstance(kind, Box):
        return f"({_box(kind, objects)} {_shown(parts[0], objects)})"
    word = kind.__name__ if kind in (dict, list, tuple) else "fields"
    inside = [
        f"{_word(part[0], objects)} {_shown(part[1], objects)}"
        if kind is dict
        else _shown(part, objects)
        for part in parts
    ]
    return f"({word} {objects.number(kind)} {' '.join(inside)})"


# Whether there can be an entry


def is_taken(aval: Aval) -> bool:
    """Whether machine code takes a value of this kind."""
    return not aval.weak or aval.dtype.kind != "c"


def are_found(call: Call) -> bool:
    """Whether machine code sees where the boxes of a call have their slots."""
    patterns = *call.arguments, *call.named.values(), call.result
    boxes = [one.box for one in call.captured if isinstance(one, Boxed)]
    boxes += [box for pattern in patterns for box in _boxes(pattern)]
    slots = {(one.kind, name) for one in boxes for name in (one.slot, *dict(one.fixed))}
    return all(layout.slot(*one) for one in slots)


def _boxes(pattern: Pattern) -> Iterator[Box]:
    if isinstance(pattern, tuple):
        kind, parts = pattern
        if isinstance(kind, Box):
            yield kind
        for part in parts:
            yield from _boxes(part[1] if kind is dict else part)
