"""What users call the values of their programs, read from their source and their variables.

A value is named after the left-hand side of an assignment whose whole right-hand side is the
expression that computed it, so a name never lies: where it is not certain there is none.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any, NamedTuple

from anabranch.core.node import Literal, Node
from anabranch.core.registry import functions
from anabranch.core.source import Place, RawSource
from anabranch.frontends.containers import flatten, leaf_names
from anabranch.frontends.tensor import Tensor

_LONGEST_FILE = 2_000_000  # letters of a file that is read for names
_LONGEST_NAME = 80
_MANY_FILES = 64  # that are remembered
_MANY = 1_000  # leaves of a container that is searched for tensors
_BUILTIN_CONTAINERS = (dict, list, tuple)
Span = tuple[int, int, int, int]  # first line, first column, last line, last column, in bytes


class Expression(NamedTuple):
    """What the source says of an expression: the function it calls, and its operands' names."""

    calls: str | None = None
    operands: tuple[str | None, ...] = ()


class _File(NamedTuple):
    """What one source file assigns, and its expressions that apply something."""

    targets: dict[Span, list[str]]
    expressions: dict[Span, Expression]


_UNKNOWN = Expression()


class Sources:
    """What the source files say; each is read once, as long as it does not change."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[list[str], _File]] = {}

    def targets(self, raw: RawSource | None) -> list[str]:
        """The names that the expression at this position is assigned to; mostly none or one."""
        span = span_of(raw)
        return [] if raw is None or span is None else self._file(raw).targets.get(span, [])

    def expression(self, raw: RawSource | None) -> Expression:
        """The call or operator at this position."""
        span = span_of(raw)
        known = {} if raw is None or span is None else self._file(raw).expressions
        return known.get(span, _UNKNOWN) if span is not None else _UNKNOWN

    def _file(self, raw: RawSource) -> _File:
        code = raw.code
        name = code.co_filename if isinstance(code, CodeType) else code.file
        lines = linecache.getlines(name)
        found = self._files.get(name)
        if found is None or found[0] is not lines:  # a list of its own for each reading of the file
            if len(self._files) >= _MANY_FILES:
                self._files.clear()
            found = self._files[name] = lines, _read("".join(lines))
        return found[1]


SOURCES = Sources()


@lru_cache(maxsize=4096)
def span_of(raw: RawSource | None) -> Span | None:
    """Where the expression of an instruction begins and ends; None where it is not known."""
    if raw is None:
        return None
    code, offset = raw
    if not isinstance(code, CodeType):
        return _span_of_place(code)
    line, last, start, end = next(islice(code.co_positions(), offset // 2, None), (None,) * 4)
    if line is None or last is None or start is None or end is None:
        return None
    return line, start, last, end


def _span_of_place(place: Place) -> Span | None:
    if place.end <= place.start:
        return None
    text = linecache.getline(place.file, place.line)
    start, end = (len(text[:column].encode()) for column in (place.start, place.end))
    return place.line, start, place.line, end


def _read(text: str) -> _File:
    found = _File({}, {})
    if len(text) > _LONGEST_FILE:
        return found
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    for node in ast.walk(tree):
        for target, value in _assignments(node):
            name = _name(target)
            if name is not None:
                found.targets.setdefault(_span(value), []).append(name)
        expression = _expression(node)
        if expression is not None:
            found.expressions[_span(node)] = expression
    return found


def _span(node: Any) -> Span:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.AST]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.AugAssign):
        yield node.target, node


def _name(node: ast.AST) -> str | None:
    """A variable, an attribute path or an item with a constant key, as it is written."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            parts.append(f".{node.attr}")
        elif isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str | int):
            parts.append(f"[{node.slice.value!r}]")
        else:
            return None
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    name = node.id + "".join(reversed(parts))
    return name if len(name) <= _LONGEST_NAME else None


def _expression(node: ast.AST) -> Expression | None:
    if isinstance(node, ast.BinOp):
        return Expression(None, (_name(node.left), _name(node.right)))
    if isinstance(node, ast.UnaryOp):
        return Expression(None, (_name(node.operand),))
    if isinstance(node, ast.Call) and not any(isinstance(a, ast.Starred) for a in node.args):
        called = node.func
        label = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return Expression(str(label), tuple(map(_name, node.args)))
    return None


def assigned_name(node: Node, readers: Iterable[Node]) -> str | None:
    """What the source calls the value of this node, if it says so beyond doubt.

    A call may apply several ops on one line; then the value is the one that no other op of the
    same line reads.
    """
    if len(node.avals) > 1 or node.origin is not None:
        return None  # a node of a derivative has the line of what it derives
    targets = SOURCES.targets(node.raw_source)
    if not targets:
        return None
    calls = SOURCES.expression(node.raw_source).calls
    if not node.inputs and (calls is None or calls in functions()):
        return None  # a leaf that was first used here, not made
    same_line = any(reader.raw_source == node.raw_source for reader in readers)
    if same_line and calls is not None and calls != node.op.name:
        return None
    return targets[0]


def operand_name(reader: Node, slot: int) -> str | None:
    """What the expression that reads a leaf calls it: `w` in `x @ w`."""
    operands = SOURCES.expression(reader.raw_source).operands
    if reader.origin is not None or len(operands) != len(reader.inputs):
        return None
    first = reader.inputs[slot]
    if sum(e is first for e in reader.inputs if not isinstance(e, Literal)) > 1:
        return None
    return operands[slot]


def variables(frame: FrameType | None) -> dict[int, str]:
    """The names of the tensors that variables of a frame hold, by the id of the tensor.

    Asking a frame for its variables makes some versions of Python hold on to them until the frame
    ends, so this is for values that nothing else names.
    """
    found: dict[int, str] = {}
    if frame is None:
        return found
    for scope in (frame.f_locals, frame.f_globals):
        for name, value in list(scope.items()):
            if name.startswith("_"):
                continue
            if isinstance(value, Tensor):
                found.setdefault(id(value), name)
            elif type(value) in _BUILTIN_CONTAINERS and 0 < len(value) <= _MANY:
                _items(value, name, found)
        if frame.f_locals is frame.f_globals:
            break
    return found


def _items(value: Any, name: str, found: dict[int, str]) -> None:
    """Tensors in plain containers, under the name that leads to them."""
    try:
        leaves, structure = flatten(value)
    except (ValueError, TypeError, RecursionError):
        return
    tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    if tensors and len(leaves) <= _MANY:
        names = leaf_names(structure, name)
        for i in tensors:
            found.setdefault(id(leaves[i]), names[i])
