"""Reading listings: text becomes a graph again, and nothing in it is ever executed.

Each line is read from left to right by small patterns. Ops are looked up by name and infer shapes
and dtypes anew, and what they infer must be what the line says.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar

import ml_dtypes
import numpy as np

from anabranch.core.bind import state
from anabranch.core.dtype import is_supported, short_name
from anabranch.core.graph import Graph
from anabranch.core.registry import lookup
from anabranch.core.source import Place, RawSource
from anabranch.core.text import digest_text, read_element
from anabranch.core.values import as_dtype
from anabranch.errors import AnabranchError, GraphError

G = TypeVar("G", bound=Graph)
_DEPTH = 50  # of values inside values, and of graphs inside graphs

_HEADER = re.compile(r'(?:@(\d+) )?graph ("(?:[^"\\]|\\.)*"): (\d+) nodes?, (\d+) parameters?$')
_EXAMPLE = 'graph "demo": 4 nodes, 1 parameter'
_TYPE = re.compile(r"(\w+)\[((?:\d+(?:,\d+)*)?)\]( weak)?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_COMPLEX = re.compile(r"\([-+.\w]*j\)|-?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf|nan)j(?![\w.])")
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf|nan)(?![\w.])")
_ELEMENT = re.compile(r"\([-+.\w]*j\)|[-+.\w]+")
_DIGEST = re.compile(r"<\d+ values [0-9a-f]+>")
_KEY = re.compile(r"([^\W\d]\w*)=")
_WORD = re.compile(r"[^\W\d][\w.\-/]*")
_EDGE = re.compile(r"#(\d+)(?:\.(\d+))?")
_BLOCK = re.compile(r"@(\d+)")
_KINDS = map(np.dtype, (*np.sctypeDict.values(), ml_dtypes.bfloat16))
DTYPES = {short_name(d): np.dtype(d.name) for d in _KINDS if is_supported(d)}
_NAMES = {"None": None, "True": True, "False": False}


def read(text: str, constants: Iterable[Any], kind: type[G]) -> G:
    """See `anabranch.parse`; `kind` is the class of graph to build."""
    if not isinstance(text, str):
        raise GraphError("bad-listing", f"a listing is a string, not a {type(text).__name__}")
    found = _Listing(text, constants, kind)
    graph: G = found.graph(0)
    found.require_all_read()
    return graph


class _Listing:
    """The blocks of a text, made into graphs when they are asked for."""

    def __init__(self, text: str, constants: Iterable[Any], kind: type[Any]) -> None:
        self.kind = kind
        self.lines = text.split("\n")
        self.arrays = {digest_text(a): a for a in map(np.asarray, constants)}
        self.made: dict[int, Any] = {}
        self.open: list[int] = []
        self.starts: dict[int, int] = {}
        self.unread = {place for place, line in enumerate(self.lines) if line.strip()}
        for place, line in enumerate(self.lines):
            found = _HEADER.match(line)
            if found:
                self.starts.setdefault(int(found[1] or 0), place)

    def graph(self, number: int) -> Any:
        """The graph of block `number`, 0 for the first."""
        if number not in self.made:
            if number not in self.starts:
                what = f"block @{number}" if number else f"header like {_EXAMPLE}"
                raise _wrong(0, self.lines[0], f"there is no {what}")
            place = self.starts[number]
            if number in self.open or len(self.open) > _DEPTH:
                raise _wrong(place, self.lines[place], "graphs inside graphs without end")
            self.open.append(number)
            self.made[number] = self.block(place)
            self.open.pop()
        return self.made[number]

    def require_all_read(self) -> None:
        for place in sorted(self.unread):
            raise _wrong(place, self.lines[place], "this line belongs to no graph")

    def block(self, start: int) -> Any:
        self.unread.discard(start)
        header = _HEADER.match(self.lines[start])
        assert header is not None
        graph = self.kind(json.loads(header[2], strict=False))
        place = start
        try:
            for place in range(start + 1, len(self.lines)):
                line = self.lines[place]
                if not line.strip() or graph.outputs:
                    break
                self.unread.discard(place)
                source = RawSource(Place("<listing>", place + 1), 0)
                with state.changed(line=source, trace=None, origin=None):
                    _Line(self, graph, line, place).read()
        except GraphError as error:
            if error.code == "bad-listing":
                raise
            raise _wrong(place, self.lines[place], error.sentence) from None
        except AnabranchError as error:
            raise _wrong(place, self.lines[place], error.sentence) from None
        except Exception as error:  # an op's rule that was not made for such attrs
            raise _wrong(place, self.lines[place], f"this cannot be applied: {error}") from None
        if (len(graph.nodes), len(graph.parameters)) != (int(header[3]), int(header[4])):
            found = f"{len(graph.nodes)} nodes and {len(graph.parameters)} parameters"
            raise _wrong(start, self.lines[start], f"{found} follow, not what the header says")
        return graph


class _Line:
    """One line of a block, read from left to right."""

    def __init__(self, listing: _Listing, graph: Any, text: str, number: int) -> None:
        self.listing = listing
        self.graph = graph
        self.text = text
        self.number = number
        self.at = 0

    def read(self) -> None:
        if self.take("outputs "):
            outputs = [self.edge()]
            while self.take(", "):
                outputs.append(self.edge())
            self.end()
            self.graph.set_outputs(outputs)
            return
        reference = self.match(_EDGE) or self.fail("#0, #1, ... or outputs")
        if reference[0] != f"#{len(self.graph)}":
            raise self.wrong(f"{reference[0]} stands where #{len(self.graph)} should be")
        self.need(" ")
        self.node()

    def node(self) -> None:
        if self.take("parameter "):
            name = self.string()
            ((dtype, shape, weak),) = self.types()
            self.graph.parameter(name, shape, dtype, weak=weak)
            return
        label: str | None = None
        if self.text.startswith('"', self.at):
            label = self.string()
            self.need(" = ")
        op = (self.match(_WORD) or self.fail("the name of an op"))[0]
        self.need("(")
        if op == "constant":
            self.constant(label)
            return
        inputs, attrs = self.arguments()
        written = self.types()
        self.graph.apply(lookup(op), inputs, attrs)
        made = self.graph.nodes[-1]
        made.name = label
        if [(a.dtype, a.shape) for a in made.avals] != [(d, s) for d, s, _ in written]:
            inferred = ", ".join(map(str, made.avals))
            raise self.wrong(f"{op} of these operands is {inferred}")

    def constant(self, name: str | None) -> None:
        self.need("value=")
        start = self.at
        found = self.match(_DIGEST)
        # The type, which says how to read the elements, follows them.
        at = self.text.rfind(") : ")
        if at < start:
            self.fail(") and a type")
        self.at = at + 1
        ((dtype, shape, _),) = self.types()
        self.at = start
        array = self.array(dtype, shape)
        if self.at != at:
            self.fail(") and a type") if found else self.fail(f"{math.prod(shape)} elements")
        self.graph.constant(array, name)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        inputs: list[Any] = []
        attrs: dict[str, Any] = {}
        while not self.take(")"):
            if inputs or attrs:
                self.need(", ")
            key = self.match(_KEY)
            if key is not None:
                attrs[key[1]] = self.value()
            elif attrs:
                self.fail("name=value")
            else:
                inputs.append(self.edge() if self.text.startswith("#", self.at) else self.value())
        return tuple(inputs), attrs

    def edge(self) -> Any:
        found = self.match(_EDGE) or self.fail("#0, #1, ...")
        number, index = int(found[1]), int(found[2] or 0)
        if number >= len(self.graph):
            raise self.wrong(f"#{number} does not stand above this line")
        outputs = self.graph.nodes[number].outputs
        if (found[2] is None) != (len(outputs) == 1) or index >= len(outputs):
            raise self.wrong(f"{found[0]} is no output of that node, which has {len(outputs)}")
        return outputs[index]

    def types(self) -> list[tuple[np.dtype[Any], tuple[int, ...], bool]]:
        self.need(" : ")
        found = [self.type()]
        while self.take(", "):
            found.append(self.type())
        self.end()
        return found

    def type(self) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
        found = self.match(_TYPE) or self.fail("a type like f64[2,3]")
        dtype = DTYPES.get(found[1])
        if dtype is None:
            raise self.wrong(f"no dtype is written {found[1]}")
        return dtype, tuple(map(int, filter(None, found[2].split(",")))), bool(found[3])

    # Values

    def value(self, depth: int = 0) -> Any:
        """One attr or literal."""
        if depth > _DEPTH:
            raise self.wrong("values inside values without end")
        for pattern, make in _PLAIN:
            found = self.match(pattern)
            if found is not None:
                return make(found[0])
        if self.take("("):
            return tuple(self.items(")", depth))
        if self.take("["):
            return self.items("]", depth)
        block = self.match(_BLOCK)
        if block is not None:
            return self.listing.graph(int(block[1]))
        word = (self.match(_WORD) or self.fail("a value"))[0]
        if word in _NAMES:
            return _NAMES[word]
        if word == "slice" and self.take("("):
            return slice(*self.items(")", depth))
        return self.typed(as_dtype(word))

    def typed(self, dtype: np.dtype[Any]) -> Any:
        """A dtype; `float32(2.0)`, a scalar of it; or `float64[2] [1.0, 2.0]`, an array."""
        if self.take("("):
            scalar = self.element(dtype)
            self.need(")")
            return scalar
        if not self.take("["):
            return dtype
        shape = tuple(self.items("]", 0))
        self.need(" ")
        array = self.array(dtype, shape)
        array.flags.writeable = False
        return array

    def items(self, closing: str, depth: int) -> list[Any]:
        found: list[Any] = []
        while not self.take(closing):
            if found:
                self.need(",")
                if self.take(closing):
                    break
            self.take(" ")
            found.append(self.value(depth + 1))
        return found

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        digest = self.match(_DIGEST)
        if digest is None:
            flat: list[bytes] = []
            self.elements(dtype, shape, flat)
            return np.ndarray(shape, dtype, b"".join(flat))
        array = self.listing.arrays.get(digest[0])
        if array is None:
            raise _wrong(
                self.number, self.text, f"the array {digest[0]} is not among the constants",
                'ab.parse(text, [array]), or ab.listing(graph, constants="full")',
            )  # fmt: skip
        if (array.dtype, array.shape) != (dtype, shape):
            raise self.wrong(f"the array {digest[0]} has another type")
        return array.copy()

    def elements(self, dtype: np.dtype[Any], shape: tuple[int, ...], flat: list[bytes]) -> None:
        if not shape:
            flat.append(self.element(dtype).tobytes())
            return
        self.need("[")
        for position in range(shape[0]):
            if position:
                self.need(", ")
            self.elements(dtype, shape[1:], flat)
        self.need("]")

    def element(self, dtype: np.dtype[Any]) -> Any:
        text = (self.match(_ELEMENT) or self.fail(f"a number of {dtype.name}"))[0]
        try:
            return read_element(text, dtype)
        except (ValueError, OverflowError):
            raise self.wrong(f"{text} is no number of {dtype.name}") from None

    def string(self) -> str:
        found = self.match(_STRING) or self.fail('a name in "quotes"')
        return _unquoted(found[0])

    # Moving on

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def take(self, mark: str) -> bool:
        there = self.text.startswith(mark, self.at)
        self.at += len(mark) * there
        return there

    def need(self, mark: str) -> None:
        if not self.take(mark):
            self.fail(repr(mark.strip() or mark))

    def end(self) -> None:
        if self.at != len(self.text):
            self.fail("the end of the line")

    def fail(self, expected: str) -> NoReturn:
        raise self.wrong(f"expected {expected} at column {self.at + 1}")

    def wrong(self, sentence: str) -> GraphError:
        return _wrong(self.number, self.text, sentence)


def _wrong(number: int, line: str, sentence: str, hint: str | None = None) -> GraphError:
    return GraphError(
        "bad-listing",
        f"line {number + 1} of the listing: {sentence}",
        facts=(line[:100],),
        hint=hint,
        line=number + 1,
    )


def _unquoted(text: str) -> str:
    found: str = json.loads(text, strict=False)
    return found


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdigit() else float(text)


_PLAIN: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (_STRING, _unquoted),
    (_COMPLEX, complex),
    (_NUMBER, _number),
)
