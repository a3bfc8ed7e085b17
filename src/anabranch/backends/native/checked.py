"""Loops that expect no NaN where a zero absorbs: products are plain, and what they gave is checked.

`absorb(ct, p)` differs from the product only where that is NaN. NaN goes through sums, products and
quotients, so a look at what comes last finds it. A vector with one is computed once more, by a
function that leaves nothing out; nothing of it has been stored by then.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from anabranch.backends.native.bodies import BodyWriter
from anabranch.backends.native.chunked import Bases
from anabranch.backends.native.emit import BOOL, Emitter, Val, register_type
from anabranch.backends.native.lowering import is_heavy
from anabranch.backends.native.mathematics import Mathematics
from anabranch.backends.native.ordering import ordered
from anabranch.backends.native.reductions import halves
from anabranch.core.node import Node

ABSORBING = ("absorb", "absorb_either")  # what records name as their code
SAVED, HEAVY = 4, 40  # instructions that one of those saves, and that most functions have
SHARE = 8  # the part of a body that must be saved for a second one to be worth its making
MOST_CHECKS = 8  # vectors that are looked at
TURNS = 16  # of a loop: fewer are over before the code for them is made
_LINE = re.compile(
    r"\s*(%v\d+) = (?:call (<.*?>|\w+) @llvm\.fma\.|(?:fadd|fsub|fmul|fdiv|fneg) (<.*?>|\w+) )(.*)"
)
_ROOM = 512  # bytes of a sum's vector at most
_NAME = re.compile(r"%v\d+")


def last_of(lines: Sequence[str], watched: Iterable[str]) -> dict[str, str]:
    """The values, with their types, of which one is NaN if one of those watched is.

    Only instructions that surely make NaN of NaN are followed. Empty where none can be told.
    """
    last: dict[str, str] = {}  # by value: where what is NaN there is seen last
    kinds: dict[str, str] = {}
    for line in reversed(lines):
        found = _LINE.match(line)
        if not found:
            continue
        name, kind = found[1], found[2] or found[3]
        kinds[name] = kind
        end = last.setdefault(name, name)
        for operand in _NAME.findall(found[4]):
            last.setdefault(operand, end)
    ends = dict.fromkeys(last.get(name, name) for name in watched)
    return {end: kinds[end] for end in ends} if kinds.keys() >= ends.keys() else {}


class CheckedWriter(BodyWriter):
    """Writes such turns of a loop."""

    _careful: list[str]  # the function that leaves nothing out, if there is one
    _room = 0  # bytes in which it gives what sums take

    def _is_checked(self, whole: int | str) -> bool:
        """Whether a second body for rare vectors saves enough in the first one."""
        if isinstance(whole, int) and whole < TURNS:
            return False
        if any(node.avals[0].dtype == BOOL for node, _ in self._stores):
            return False
        rules = [node.op for node in self.loop.nodes if node.id not in self._schedule.moved]
        saved = SAVED * sum(op.scalar in ABSORBING for op in rules)
        return saved * SHARE >= saved + sum(HEAVY if is_heavy(op) else 1 for op in rules) > 1

    def _checked_turn(
        self,
        e: Mathematics,
        bases: Bases,
        index: str,
        spread: dict[int, Val],
        held: Mapping[int, Val],
        sums: Sequence[tuple[Node, int]],
    ) -> dict[int, Val]:
        """One vector; gives what the sums are then."""
        e.watched = []
        values = self._values(e, bases, index, e.lanes, spread)
        ends, e.watched = last_of(e.lines, e.watched), None
        if not ends or len(ends) > MOST_CHECKS or any(line.endswith(":") for line in e.lines):
            e.lines.clear()
            if e.known:
                e.known.clear()
            values = self._body(e, bases, index, e.lanes, spread)
            grown = self._grown(e, held, values, sums)
            e.lines[:] = ordered(e.lines)
            self._take(e)
            return grown
        is_any = _any_nan(e, ends, self._emitter)
        e.lines[:] = ordered(e.lines)
        number = e.new_number()
        plain, careful, after = (f"{word}{number}" for word in ("plain", "careful", "after"))
        e.lines += [f"  br i1 {is_any}, label %{careful}, label %{plain}", f"{plain}:"]
        self._store(e, bases, index, e.lanes, values)
        first = self._grown(e, held, values, sums)
        e.lines += [f"  br label %{after}", f"{careful}:"]
        e.known = {}
        found = self._called_carefully(e, bases, index, sums)
        second = self._grown(e, held, found, sums)
        e.lines += [f"  br label %{after}", f"{after}:"]
        e.known = {}
        grown = {}
        for node, i in sums:
            kind = e.type(register_type(node.avals[0].dtype))
            both = f"[{first[i].text}, %{plain}], [{second[i].text}, %{careful}]"
            grown[i] = Val(e.once(f"phi {kind} {both}"), first[i].dtype)
        self._take(e)
        return grown

    def _grown(
        self,
        e: Emitter,
        held: Mapping[int, Val],
        values: Mapping[int, Val],
        sums: Sequence[tuple[Node, int]],
    ) -> dict[int, Val]:
        return {i: self._reduction(node).joined(e, held[i], values[node.id]) for node, i in sums}

    def _called_carefully(
        self, e: Mathematics, bases: Bases, index: str, sums: Sequence[tuple[Node, int]]
    ) -> dict[int, Val]:
        """What sums take from one vector, computed by a function of its own."""
        name = f"careful_{self.name}"
        if not self._careful:
            self._careful.append(self._careful_text(name, bases, e.lanes, sums))
        given = "".join(f", ptr {base}" for base in bases.values())
        e.lines.append(f"  call void @{name}(i64 {index}, ptr %sums{given})")
        found = {}
        for turn, (node, _) in enumerate(sums):
            kind = e.type(register_type(node.avals[0].dtype))
            place = e.once(f"getelementptr i8, ptr %sums, i64 {turn * _ROOM}")
            found[node.id] = Val(e.once(f"load {kind}, ptr {place}, align 8"), node.avals[0].dtype)
        return found

    def _careful_text(
        self, name: str, bases: Bases, lanes: int, sums: Sequence[tuple[Node, int]]
    ) -> str:
        """`@name(index, sums, bases...)`: a vector of the loop, and what sums take from it."""
        own = {i: f"%b{i}" for i in bases}
        e = Mathematics(lanes, itertools.count(), self.declared)
        values = self._body(e, own, "%index", lanes, self._spread(e, own))
        for turn, (node, _) in enumerate(sums):
            value = values[node.id]
            place = e.once(f"getelementptr i8, ptr %sums, i64 {turn * _ROOM}")
            kind = e.type(register_type(value.dtype))
            e.lines.append(f"  store {kind} {value.text}, ptr {place}, align 8")
        self._room = max(self._room, len(sums) * _ROOM)
        given = "".join(f", ptr {base}" for base in own.values())
        head = f"define internal void @{name}(i64 %index, ptr %sums{given}) cold noinline {{"
        return "\n".join([head, "entry:", *e.lines, "  ret void", "}"])

    def _room_of_sums(self) -> list[str]:
        """The line that makes room for what sums take, if a function gives it."""
        return [f"  %sums = alloca [{max(self._room, 1)} x i8], align 64"] if self._careful else []


def _any_nan(e: Emitter, ends: Mapping[str, str], narrower: Callable[[int], Emitter]) -> str:
    """Whether a lane of one of these is NaN: one comparison looks at two."""
    if len(ends) == 1 and e.lanes > 1:
        ((name, kind),) = ends.items()
        narrow = narrower(e.lanes // 2)
        element = kind.strip("<>").split()[-1]
        low, high = halves(e, element, name)
        mask = Val(narrow.new(f"fcmp uno {narrow.type(element)} {low}, {high}"), BOOL)
        is_any = narrow.any_lane(mask)
        e.lines += narrow.lines
        return is_any
    masks: list[Val] = []
    for kind in dict.fromkeys(ends.values()):
        names = [name for name, its in ends.items() if its == kind]
        for x, y in zip(names[::2], [*names[1::2], names[-1]], strict=False):
            masks.append(Val(e.new(f"fcmp uno {kind} {x}, {y}"), BOOL))
    found = masks[0]
    for mask in masks[1:]:
        found = e.either(found, mask)
    return e.any_lane(found)
