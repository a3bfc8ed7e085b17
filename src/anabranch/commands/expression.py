"""Expressions from the shell: `(x*y + x)**2` with `x=2 y=3`.

Python's own parser reads the text; what it finds is computed node by node with the library's
operations, and everything that is not arithmetic is refused at its place. Nothing is ever run as
code: no attribute is looked up, and no name means anything but a value, a constant or a function of
the library.
"""

from __future__ import annotations

import ast
import linecache
import math
import operator
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from anabranch.commands.failure import USAGE, CommandError, did_you_mean
from anabranch.core.bind import state
from anabranch.core.registry import functions
from anabranch.core.source import Place, RawSource
from anabranch.frontends.eager import tensor
from anabranch.frontends.tensor import Tensor

FILE = "expression"  # what sources call it
LONGEST, DEEPEST, LARGEST = (
    10_000,
    200,
    10_000,
)  # characters, operations inside one another, lengths
_NAMED = 24  # characters of an intermediate value that serve as its name
_EXACT = 2**53
_RANK = 8  # of lists inside lists

_CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan}
_ALIASES = {"abs": "absolute"}
_BINARY: dict[type[ast.AST], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("subtract", operator.sub),
    ast.Mult: ("multiply", operator.mul),
    ast.Div: ("divide", operator.truediv),
    ast.Pow: ("power", operator.pow),
    ast.MatMult: ("matmul", operator.matmul),
    ast.Lt: ("less", operator.lt),
    ast.LtE: ("less_equal", operator.le),
    ast.Gt: ("greater", operator.gt),
    ast.GtE: ("greater_equal", operator.ge),
    ast.Eq: ("equal", operator.eq),
    ast.NotEq: ("not_equal", operator.ne),
}
_REFUSED = {
    ast.Attribute: "a dot looks into an object, and there are none here",
    ast.BoolOp: "`and` and `or` need one truth value; `*` multiplies conditions",
    ast.IfExp: "a choice is written where(condition, a, b)",
    ast.BitXor: "a power is written **",
    ast.FloorDiv: "// has no derivative; / divides",
    ast.Mod: "% is not among the operations",
    ast.Subscript: "an index is a number or a range of numbers, like x[0] or x[1:3]",
    ast.Not: "`not` needs one truth value",
}


def evaluate(text: str, bindings: Sequence[str]) -> Tensor:
    """The value of an expression as a recorded tensor; what is given requires a gradient.

    Args:
        text: arithmetic on names, numbers, lists and calls of the library's functions.
        bindings: `x=2`, `w=[[1, 2], [3, 4]]`: a value for each name.

    Raises:
        CommandError: with the place underlined, for what is no such expression.
        AnabranchError: for shapes and types that do not fit.
    """
    given: dict[str, Tensor] = {}
    for binding in bindings:
        name, _, value = binding.partition("=")
        if name in given:
            raise CommandError(f"{name} is given twice", USAGE)
        given[name] = tensor(_given(name, value), requires_grad=True, name=name)
    reader = _Reader(text, given)
    root = reader.evaluate()
    unused = sorted(given.keys() - reader.used)
    if unused:
        hint = did_you_mean(unused[0], reader.used)
        raise CommandError(
            f"{unused[0]} is given, but does not occur in {reader.text}.{hint}", USAGE
        )
    if not isinstance(root, Tensor) or not root.is_tracked:
        raise CommandError(f"{reader.text} is a constant: nothing in it has a gradient", USAGE)
    return root


def is_binding(word: str) -> bool:
    """Whether a word of the command line gives a name a value."""
    return re.match(r"[^\W\d]\w*=(?!=)", word) is not None


def _given(name: str, text: str) -> Any:
    """What stands right of `=`: a number or nested lists of numbers."""
    try:
        value = _Reader(text, {}).evaluate()
    except CommandError as failure:
        raise CommandError(f"{name}: {failure}", failure.status) from None
    return value.value if isinstance(value, Tensor) else float(value)


class _Reader:
    """One text on its way to a value."""

    def __init__(self, text: str, given: dict[str, Tensor]) -> None:
        self.text = " ".join(text.split())
        self.given = given
        self.used: set[str] = set()
        self._depth = 0

    def evaluate(self) -> Any:
        tree = self._parsed()
        linecache.cache[FILE] = (len(self.text), None, [self.text + "\n"], FILE)
        with np.errstate(all="ignore"):  # infinities and NaN are what reports are about
            return self._value(tree)

    def _parsed(self) -> ast.expr:
        if len(self.text) > LONGEST:
            raise CommandError(f"an expression has at most {LONGEST:,} characters", USAGE)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            start = max((error.offset or 1) - 1, 0)
            end = (error.end_offset or 0) - 1
            self._refuse(error.msg, start, end)
        except (MemoryError, RecursionError):
            raise CommandError("the expression is nested too deeply", USAGE) from None
        except ValueError as error:  # a character that no program may hold
            raise CommandError(f"the expression cannot be read: {error}", USAGE) from None

    def _refuse(self, why: str, start: int, end: int) -> NoReturn:
        shown, around = self.text, 60
        if len(shown) > 2 * around:  # the place, and what stands around it
            first = max(start - around, 0)
            shown, start, end = shown[first : first + 2 * around], start - first, end - first
        carets = "^" * max(min(end, len(shown)) - start, 1)
        raise CommandError(f"{why}\n  {shown}\n  {' ' * start}{carets}", USAGE)

    def _refuse_at(self, node: ast.AST, why: str) -> NoReturn:
        self._refuse(why, *self._span(node))

    def _span(self, node: Any) -> tuple[int, int]:
        """Columns count UTF-8 bytes; what is underlined is counted in characters."""
        data = self.text.encode()
        return len(data[: node.col_offset].decode()), len(data[: node.end_col_offset].decode())

    def _value(self, node: ast.AST) -> Any:
        read = _READERS.get(type(node))
        if read is None:
            self._refuse_at(node, _REFUSED.get(type(node), "this is no arithmetic"))
        self._depth += 1
        if self._depth > DEEPEST:
            self._refuse_at(node, f"at most {DEEPEST} operations stand inside one another")
        value = read(self, node)
        self._depth -= 1
        return value

    def _applied(self, node: ast.AST, function: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """A function's result; the nodes that it makes belong to this place in the text."""
        start, end = self._span(node)
        place = Place(FILE, 1, "<module>", start, end)
        with state.changed(line=RawSource(place, 0)):
            result = function(*args, **kw)
        text = self.text[start:end]
        if isinstance(result, Tensor) and result.name is None and len(text) <= _NAMED:
            result.name = text
        return result

    def constant(self, node: ast.Constant) -> Any:
        value = node.value
        if type(value) is float or (type(value) is int and abs(value) <= _EXACT):
            return value
        why = "integers go up to 2**53; 1e30 is a float" if type(value) is int else "no number"
        self._refuse_at(node, why)

    def name(self, node: ast.Name) -> Any:
        if node.id in self.given:
            self.used.add(node.id)
            return self.given[node.id]
        if node.id in _CONSTANTS:
            return _CONSTANTS[node.id]
        hint = did_you_mean(node.id, self.given) or f" Give it one: {node.id}=2"
        self._refuse_at(node, f"{node.id} has no value.{hint}")

    def unary(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not | ast.Invert):
            self._refuse_at(node, _REFUSED[ast.Not])
        value = self._value(node.operand)
        if isinstance(node.op, ast.UAdd):
            return value
        return self._applied(node, operator.neg, value)

    def binary(self, node: ast.BinOp) -> Any:
        return self._joined(node, node.op, node.left, node.right)

    def compare(self, node: ast.Compare) -> Any:
        if len(node.ops) > 1:
            self._refuse_at(node, "one comparison at a time: (a < b) * (b < c)")
        return self._joined(node, node.ops[0], node.left, node.comparators[0])

    def _joined(self, node: ast.AST, op: ast.AST, left: ast.AST, right: ast.AST) -> Any:
        if type(op) not in _BINARY:
            self._refuse_at(
                node, _REFUSED.get(type(op), "this operator is not among the operations")
            )
        x, y = self._value(left), self._value(right)
        name, exact = _BINARY[type(op)]
        if isinstance(x, Tensor) or isinstance(y, Tensor):
            return self._applied(node, functions()[name], x, y)
        return self._plain(node, exact, x, y)

    def _plain(self, node: ast.AST, exact: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        """Numbers alone: exact while they are small integers, floats beyond."""
        is_small = type(x) is int and type(y) is int and exact is not operator.pow
        try:
            value = exact(x, y) if is_small else exact(float(x), float(y))
        except OverflowError:
            self._refuse_at(node, "this is larger than any float")
        except (ArithmeticError, TypeError) as error:
            self._refuse_at(node, str(error))
        if type(value) is bool or isinstance(value, complex):
            self._refuse_at(node, "this is no real number")
        if type(value) is float and value.is_integer() and type(x) is type(y) is int:
            value = int(value) if abs(value) <= _EXACT else value
        return value if abs(value) <= _EXACT or type(value) is float else float(value)

    def call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name):
            self._refuse_at(node.func, "only the library's functions are called, by their names")
        name = _ALIASES.get(node.func.id, node.func.id)
        if name not in functions():
            known = [*functions(), *_ALIASES]
            self._refuse_at(node.func, f"no function {name!r}.{did_you_mean(name, known)}")
        args = [self._argument(arg) for arg in node.args]
        if any(keyword.arg is None for keyword in node.keywords):
            self._refuse_at(node, "arguments are written one by one")
        options = {str(word.arg): self._argument(word.value) for word in node.keywords}
        try:
            return self._applied(node, functions()[name], *args, **options)
        except TypeError as error:
            if isinstance(error, CommandError) or hasattr(error, "code"):
                raise  # the library's own errors say it better
            self._refuse_at(node, str(error))

    def _argument(self, node: ast.AST) -> Any:
        """What a function takes beside values: None, whole numbers, and tuples of them."""
        if isinstance(node, ast.Constant) and (node.value is None or type(node.value) is bool):
            return node.value
        if isinstance(node, ast.Tuple):
            value: Any = tuple(self._argument(one) for one in node.elts)
            sizes = [abs(one) for one in value if type(one) is int]
            if math.prod(sizes) > LARGEST * 100:
                self._refuse_at(node, "this is too large")
            return value
        value = self._value(node)
        if type(value) is int and abs(value) > LARGEST:
            self._refuse_at(node, f"whole numbers here go up to {LARGEST:,}")
        return value

    def index(self, node: ast.Subscript) -> Any:
        value = self._value(node.value)
        if not isinstance(value, Tensor):
            self._refuse_at(node, "only a value has elements")
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        places = tuple(self._place(node, part) for part in parts)
        return self._applied(node, operator.getitem, value, places)

    def _place(self, whole: ast.AST, node: ast.AST) -> Any:
        if isinstance(node, ast.Slice):
            ends = (node.lower, node.upper, node.step)
            return slice(*(end and self._whole(whole, end) for end in ends))
        return self._whole(whole, node)

    def _whole(self, whole: ast.AST, node: ast.AST) -> int:
        sign, one = 1, node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, one = -1, node.operand
        if not isinstance(one, ast.Constant) or type(one.value) is not int:
            self._refuse_at(whole, _REFUSED[ast.Subscript])
        return sign * one.value

    def array(self, node: ast.List) -> Any:
        rows = self._rows(node, 1)
        return self._applied(node, tensor, rows)

    def _rows(self, node: ast.AST, depth: int) -> Any:
        if isinstance(node, ast.List):
            if depth > _RANK:
                self._refuse_at(node, f"lists go {_RANK} deep")
            return [self._rows(one, depth + 1) for one in node.elts]
        value = self._value(node)
        if isinstance(value, Tensor):
            self._refuse_at(node, "a list holds numbers only")
        return value


_READERS: dict[type[ast.AST], Callable[[_Reader, Any], Any]] = {
    ast.Constant: _Reader.constant,
    ast.Name: _Reader.name,
    ast.UnaryOp: _Reader.unary,
    ast.BinOp: _Reader.binary,
    ast.Compare: _Reader.compare,
    ast.Call: _Reader.call,
    ast.Subscript: _Reader.index,
    ast.List: _Reader.array,
}
