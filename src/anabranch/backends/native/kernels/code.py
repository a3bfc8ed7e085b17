"""What kernels are written with: operands in memory, walks over them, loops that carry values.

A kernel is an IR function of the addresses of what it touches and of a range of its outermost
loop; its `rows` says how long that is. It returns 0, or 1 where a value is not what the code can
take: then the reference computes the node, or raises what there is to raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anabranch.backends.native.access import Access
from anabranch.backends.native.emit import I64, NotNativeError, Val, memory_type, register_bytes
from anabranch.backends.native.loops import joined
from anabranch.backends.native.mathematics import Mathematics
from anabranch.backends.native.schedule import Key, Schedule
from anabranch.backends.native.view import Strides, View
from anabranch.backends.native.writer import Writer
from anabranch.core.aval import Shape
from anabranch.core.dtype import DType
from anabranch.core.node import Literal, Node


class Array(NamedTuple):
    """Elements in memory: the address of the first one, and steps along the axes of a shape."""

    base: str
    dtype: DType
    shape: Shape
    strides: Strides

    def raw(self) -> Array:
        """The same as bits, for what is only moved."""
        return self._replace(dtype=np.dtype(f"u{self.dtype.itemsize}"))

    def broadcast_to(self, shape: Shape) -> Array:
        view = View(self.shape, self.strides).broadcast_to(shape)
        return self._replace(shape=shape, strides=view.strides)

    def without(self, axes: Sequence[int]) -> Array:
        """Its first elements along these axes."""
        kept = [axis for axis in range(len(self.shape)) if axis not in axes]
        shape, strides = (tuple(one[axis] for axis in kept) for one in (self.shape, self.strides))
        return self._replace(shape=shape, strides=strides)


@dataclass
class Carried:
    """A loop: its counter, what it carries from turn to turn, and what it hands on.

    When the loop has ended, `held` are the last values.
    """

    counter: str
    held: list[str]
    next: Sequence[str]


class Lanes(NamedTuple):
    """Neighbouring elements in a walk: the emitter, and where each array's first of them lies.

    So many of its lanes are `real`.
    """

    e: Mathematics
    places: list[Array]
    steps: list[int]
    real: int

    def load(self, number: int) -> Val:
        array = self.places[number]
        return self._access(array).load(self.e, array.base, "0", self.steps[number], self.real)

    def store(self, number: int, value: Val) -> None:
        array, step = self.places[number], self.steps[number]
        value = self.e.convert(value, array.dtype)
        self._access(array).store(self.e, array.base, "0", step, self.real, value)

    def _access(self, array: Array) -> Access:
        return Access((0, 0), array.dtype, 0, array.strides)


class KernelCode(Writer):
    """The IR function of one node.

    Attributes:
        inputs, outputs: the node's operands and results.
        join: the emitter's method by which it joins elements, "" for none.
        pointers: the values whose memory it takes.
        scratch: bytes of workspace that it takes besides.
        rows: the length of its outermost loop.
        text: the function.
    """

    def __init__(
        self,
        name: str,
        node: Node,
        join: str,
        schedule: Schedule,
        vector_bytes: int,
        declared: set[str],
    ) -> None:
        super().__init__(declared)
        self.name = name
        self.node = node
        self.join = join
        self.vector_bytes = vector_bytes
        self.pointers: list[Key] = []
        self.scratch = 0
        self.rows = 1
        self._schedule = schedule
        self._is_split = False
        self.inputs = [self._input(edge) for edge in node.inputs]
        self.outputs = [
            self._array((node.id, i), View.whole(aval.shape), aval.dtype)
            for i, aval in enumerate(node.avals)
        ]

    def finish(self) -> None:
        """Write the function around what was written."""
        self._line("ret i32 0")
        given = ", ".join(f"ptr %p{i}" for i in range(len(self.pointers)))
        head = f"define i32 @{self.name}({given}, ptr %scratch, i64 %first, i64 %last) {{"
        end = ["refused:", "  ret i32 1", "}"]
        self.text = "\n".join([head, "entry:", *self._lines, *end])

    # Operands

    def _input(self, edge: Any) -> Array:
        if not isinstance(edge, Literal):
            place = self._schedule.places[edge.node.id, edge.index]
            return self._array(place.base, place.view, edge.aval.dtype)
        memory_type(edge.aval.dtype)
        with np.errstate(all="ignore"):
            data = np.asarray(edge.value).astype(edge.aval.dtype).tobytes()
        text = "".join(f"\\{byte:02X}" for byte in data)
        name = f"@number_{data.hex()}"
        self.declared.add(f'{name} = internal constant [{len(data)} x i8] c"{text}", align 16')
        return Array(name, edge.aval.dtype, (), ())

    def _array(self, key: Key, view: View, dtype: DType) -> Array:
        if key not in self.pointers:
            self.pointers.append(key)
        base = self._moved_on(f"%p{self.pointers.index(key)}", dtype, str(view.offset))
        return Array(base, dtype, view.shape, view.strides)

    def is_in_place(self, slot: int, part: View) -> bool:
        """Whether an operand was computed in this part of the result."""
        edge = self.node.inputs[slot]
        if isinstance(edge, Literal):
            return False
        place = self._schedule.places[edge.node.id, edge.index]
        mine = self._schedule.places[self.node.id, 0]
        return place.base == mine.base and place.view.offset == mine.view.offset + part.offset

    def take_over(self, target: Array) -> None:
        """Write the first operand to an array, unless it was computed in the result."""
        whole = View.whole(self.node.avals[0].shape)
        if target != self.outputs[0] or not self.is_in_place(0, whole):
            self.copied(self.inputs[0], target)

    def in_scratch(self, dtype: DType, shape: Shape) -> Array:
        """An array of its own in the workspace."""
        base = self._new(f"getelementptr i8, ptr %scratch, i64 {self.scratch}")
        view = View.whole(shape)
        size = dtype.itemsize * int(np.prod(shape))
        self.scratch += -(-size // 64) * 64
        return Array(base, dtype, shape, view.strides)

    def shown(self, array: Array, view: View) -> Array:
        """What a view of the array's elements shows."""
        base = self._moved_on(array.base, array.dtype, str(view.offset))
        return Array(base, array.dtype, view.shape, view.strides)

    def sliced(self, array: Array, index: Any) -> Array:
        return self.shown(array, View(array.shape, array.strides).slice(index))

    def at(self, array: Array, elements: str) -> Array:
        """The array with its first element so many elements further."""
        return array._replace(base=self._moved_on(array.base, array.dtype, elements))

    def along(self, array: Array, axis: int, counter: str) -> Array:
        """The array with its first element at this place of an axis."""
        return self.at(array, self._times(counter, array.strides[axis]))

    # Scalars

    @contextmanager
    def scalar(self) -> Iterator[Mathematics]:
        """An emitter for single values."""
        e = self._emitter(1)
        yield e
        self._take(e)

    def load(self, array: Array) -> Val:
        """The array's first element."""
        with self.scalar() as e:
            return Access((0, 0), array.dtype, 0, ()).load(e, array.base, "0", 1, 1)

    def store(self, array: Array, value: Val) -> None:
        with self.scalar() as e:
            value = e.convert(value, array.dtype)
            Access((0, 0), array.dtype, 0, ()).store(e, array.base, "0", 1, 1, value)

    def integer(self, word: str, x: str, y: str | int) -> str:
        """Arithmetic of places: `add`, `mul`, ..."""
        return self._new(f"{word} i64 {x}, {y}")

    def test(self, word: str, x: str, y: str | int) -> str:
        """A comparison of places: `slt`, `ult`, `eq`, ..."""
        return self._new(f"icmp {word} i64 {x}, {y}")

    def chosen(self, condition: str, x: str, y: str) -> str:
        return self._new(f"select i1 {condition}, i64 {x}, i64 {y}")

    def place(self, index: Val) -> str:
        """An index as i64; one that is too large for that as the largest."""
        with self.scalar() as e:
            place = e.convert(index, I64).text
        if index.dtype != np.uint64:
            return place
        return self.chosen(self.test("slt", place, 0), str(np.iinfo(np.int64).max), place)

    def joined(self, e: Mathematics, x: Val, y: Val) -> Val:
        """Two elements joined as the record says."""
        if not hasattr(e, self.join):
            raise NotNativeError(f"{self.join} has no machine code yet")
        found: Val = getattr(e, self.join)(x, y)
        return found

    def updated(self, e: Mathematics, old: Val, new: Val) -> Val:
        """The same in the dtype of the first."""
        return self.joined(e, old, e.convert(new, old.dtype))

    # Control

    def require(self, condition: str) -> None:
        """Go on where it holds, else leave the node to the reference."""
        label = f"fine{next(self._names)}"
        self._line(f"br i1 {condition}, label %{label}, label %refused")
        self._label(label)

    @contextmanager
    def when(self, condition: str | None) -> Iterator[None]:
        """What is written in the block runs where the condition holds; always for None."""
        if condition is None:
            yield
            return
        with self._if(condition):
            yield

    @contextmanager
    def carrying(
        self, starts: Sequence[tuple[str, str]], last: int | str, first: int | str = 0
    ) -> Iterator[Carried]:
        """A loop from `first` to `last` that carries values; each start is a type and a value."""
        with self.repeating([("i64", str(first)), *starts]) as loop:
            counter, *held = loop.held
            self.go_on(loop, self.test("slt", counter, last))
            inner = Carried(counter, held, held)
            yield inner
            loop.next = [self.integer("add", counter, 1), *inner.next]

    @contextmanager
    def repeating(self, starts: Sequence[tuple[str, str]]) -> Iterator[Carried]:
        """A loop that carries values and goes on as `go_on` says, which must be in the block."""
        number = next(self._names)
        head, before = f"head{number}", self._block
        held = [self._name() for _ in starts]
        self._line(f"br label %{head}")
        self._label(head)
        place = len(self._lines)
        loop = Carried(f"{number}", held, held)
        yield loop
        phis = [
            f"  {name} = phi {kind} [{start}, %{before}], [{new}, %{self._block}]"
            for name, (kind, start), new in zip(held, starts, loop.next, strict=True)
        ]
        self._line(f"br label %{head}")
        self._lines[place:place] = phis
        self._label(f"done{number}")

    def go_on(self, loop: Carried, condition: str) -> None:
        """Leave a `repeating` loop unless the condition holds."""
        number = loop.counter
        self._line(f"br i1 {condition}, label %body{number}, label %done{number}")
        self._label(f"body{number}")

    # Walks

    def over(
        self,
        space: Shape,
        arrays: Sequence[Array],
        body: Callable[[Lanes], None],
        *,
        most: int | None = None,
        widest: int = 1,
        splits: bool = False,
    ) -> None:
        """Run `body` for all elements of a space, several at a time along the innermost axis.

        Args:
            space: the lengths of the axes.
            arrays: each with a step for every one of them.
            body: writes the code for some neighbouring elements.
            most: how many lanes the body can take.
            widest: bytes of the widest value that the body computes with.
            splits: whether the outermost loop is the one whose range the function is given.
        """
        if 0 in space:
            return
        dims, steps = joined(space, [array.strides for array in arrays])
        sizes = [register_bytes(array.dtype) for array in arrays]
        lanes = 2 * self.vector_bytes // max(*sizes, widest)
        if most is not None:
            lanes = min(lanes, most)
        length = dims[-1] if dims else 1
        while lanes >= 2 * length:
            lanes //= 2
        is_split = splits and (len(dims) > 1 or (lanes == 1 and len(dims) == 1))
        self._nest(dims, steps, 0, list(arrays), body, lanes, is_split)

    def _nest(
        self,
        dims: list[int],
        steps: list[list[int]],
        depth: int,
        arrays: list[Array],
        body: Callable[[Lanes], None],
        lanes: int,
        is_split: bool,
    ) -> None:
        if depth >= len(dims) - 1 and not (is_split and dims):
            self._innermost(dims, steps, depth, arrays, body, lanes)
            return
        with self.rows_of(dims[depth]) if is_split else self._counted(dims[depth]) as counter:
            moved = [
                self.at(array, self._times(counter, step[depth]))
                for array, step in zip(arrays, steps, strict=True)
            ]
            self._nest(dims, steps, depth + 1, moved, body, lanes, False)

    @contextmanager
    def rows_of(self, count: int) -> Iterator[str]:
        """The outermost loop, over the range that the function is given."""
        assert not self._is_split
        self._is_split, self.rows = True, count
        with self._counted_to("%last", first="%first") as counter:
            yield counter

    def _innermost(
        self,
        dims: list[int],
        steps: list[list[int]],
        depth: int,
        arrays: list[Array],
        body: Callable[[Lanes], None],
        lanes: int,
    ) -> None:
        has_axis = depth < len(dims)
        length = dims[-1] if has_axis else 1
        inner = [step[-1] if has_axis else 0 for step in steps]
        whole, rest = divmod(length, lanes)

        def written(counter: str, width: int, count: int) -> None:
            places = [
                self.at(array, self._times(counter, step))
                for array, step in zip(arrays, inner, strict=True)
            ]
            e = self._emitter(width)
            body(Lanes(e, places, inner, count))
            self._take(e)

        if whole == 1:
            written("0", lanes, lanes)
        elif whole:
            with self._counted(whole * lanes, by=lanes) as counter:
                written(counter, lanes, lanes)
        if rest:
            written(str(whole * lanes), 1 << (rest - 1).bit_length(), rest)

    def mapped(
        self,
        space: Shape,
        reads: Sequence[Array],
        write: Array,
        rule: Callable[..., Val] = lambda e, *xs: xs[0],
        **options: Any,
    ) -> None:
        """Write to one array what a rule makes of the elements of others."""

        def body(lanes: Lanes) -> None:
            lanes.store(len(reads), rule(lanes.e, *map(lanes.load, range(len(reads)))))

        self.over(space, [*reads, write], body, **options)

    def copied(self, source: Array, target: Array, **options: Any) -> None:
        """Write an array's elements to another of its shape, converted where dtypes differ."""
        if source.dtype == target.dtype:
            source, target = source.raw(), target.raw()
        self.mapped(target.shape, [source], target, **options)

    def filled(self, target: Array, value: Any, **options: Any) -> None:
        """Write one number everywhere."""
        dtype = target.dtype
        self.mapped(target.shape, [], target, lambda e: e.number(value, dtype), **options)
