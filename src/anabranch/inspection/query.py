"""The search language: `op:matmul shape:64x* grad:0 value:nan line:12 scope:attn #7 word`.

Every part must hold. It is the same on the page, in the terminal and in Python.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable
from fnmatch import fnmatchcase

from anabranch.errors import ArgumentError
from anabranch.inspection.parts import Node, Output, Summary
from anabranch.inspection.trace import Trace

Test = Callable[[Trace, Node], bool]
_PART = re.compile(r'(?:(?P<key>[a-z]+):)?(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+))')
_LIMIT = re.compile(r"(>=|<=|>|<)(.+)")
_COMPARE = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}


def query(text: str) -> Test:
    """The test of a node that a query asks for.

    Raises:
        ArgumentError: `[bad-query]` for a part that has no meaning.

    Example:
        >>> import anabranch as ab
        >>> from anabranch.inspection.query import query
        >>> x = ab.tensor([1.0, 2.0], requires_grad=True)
        >>> trace = ab.inspect((x * x).sum()).trace
        >>> [node.op for node in trace.nodes if query("shape:2 op:mult*")(trace, node)]
        ['multiply']
    """
    tests = [_part(found) for found in _PART.finditer(text)]
    return lambda trace, node: all(test(trace, node) for test in tests)


def _part(found: re.Match[str]) -> Test:
    key, quoted, word = found["key"], found["quoted"], found["plain"]
    text = word if quoted is None else quoted
    if key is None:
        if quoted is None and re.fullmatch(r"#\d+", text):
            return lambda trace, node: node.id == int(text[1:])
        return lambda trace, node: _mentions(trace, node, text.lower())
    if key not in _KEYS:
        close = difflib.get_close_matches(key, list(_KEYS), 1)
        raise ArgumentError(
            "bad-query",
            f"{key}: is not among {', '.join(f'{one}:' for one in _KEYS)}",
            hint=f"did you mean {close[0]}:{text}?"
            if close
            else f'"{found[0]}" looks for the text',
        )
    return _KEYS[key](text)


def scope_path(trace: Trace, node: Node) -> str:
    """`encoder/block0`: the scopes around a node, outermost first."""
    names: list[str] = []
    number = node.scope
    while number is not None and len(names) < 100:  # a circle of scopes ends as well
        scope = trace.scopes[number]
        names += [scope.name] if scope.name else []
        number = scope.parent
    return "/".join(reversed(names))


def shape_text(node: Node | Output) -> str:
    """`64x10`; `scalar` for a single number."""
    return "x".join(map(str, node.shape)) or "scalar"


def _mentions(trace: Trace, node: Node, word: str) -> bool:
    where = trace.line(node)
    texts = (
        node.name or "",
        node.op,
        scope_path(trace, node),
        node.dtype,
        where[0] if where else "",
    )
    return any(word in text.lower() for text in texts)


def _words(read: Callable[[Trace, Node], str]) -> Callable[[str], Test]:
    """A key whose value is a text, or a pattern with `*` and `?`."""
    return lambda pattern: lambda trace, node: fnmatchcase(read(trace, node), pattern)


def _scope(pattern: str) -> Test:
    return lambda trace, node: (
        fnmatchcase(path := scope_path(trace, node), pattern) or pattern in path.split("/")
        or path.startswith(f"{pattern}/")
    )  # fmt: skip


def _line(text: str) -> Test:
    file, _, number = text.rpartition(":")
    if not number.isdecimal():
        raise ArgumentError("bad-query", f"line:{text} needs the number of a line")

    def test(trace: Trace, node: Node) -> bool:
        where = trace.line(node)
        return where is not None and where[1] == int(number) and where[0].endswith(file)

    return test


def _order(text: str) -> Test:
    holds = _limit("order", text)
    return lambda trace, node: holds(float(node.id))


def _summary(name: str) -> Callable[[str], Test]:
    """A key about a value or a gradient: none, nan, inf, bad, a number or a limit of its size.

    Of several outputs it speaks of any one, and `none` of all.
    """

    def made(text: str) -> Test:
        if text == "none":
            return lambda trace, node: all(getattr(port, name) is None for port in node.ports)
        if text in _COUNTED:
            counted = _COUNTED[text]
            return lambda trace, node: any(_some(getattr(p, name), counted) for p in node.ports)
        holds = _limit(name, text)

        def fits(found: Summary | None) -> bool:
            return found is not None and (
                all_equal(found, float(text)) if _is_number(text) else holds(size(found))
            )

        return lambda trace, node: any(fits(getattr(port, name)) for port in node.ports)

    return made


_COUNTED: dict[str, Callable[[float], bool]] = {
    "nan": math.isnan,
    "inf": math.isinf,
    "bad": lambda v: not math.isfinite(v),
}


def _some(found: Summary | None, test: Callable[[float], bool]) -> bool:
    if found is None:
        return False
    flat = found.flat()
    if flat is not None:
        return any(test(float(one)) for one in flat)
    counts = {"nan": found.nan, "inf": found.inf}
    return any(test(float(kind)) and bool(count) for kind, count in counts.items())


def all_equal(found: Summary, number: float) -> bool:
    """Whether every element is this number."""
    flat = found.flat()
    if flat is not None:
        return bool(flat) and all(float(one) == number for one in flat)
    return found.min == found.max == number and not (found.nan or found.inf)


def size(found: Summary) -> float:
    """The norm of the finite elements; NaN where none is."""
    flat = found.flat()
    if flat is None:
        return math.nan if found.norm is None else found.norm
    finite = [float(one) for one in flat if math.isfinite(float(one))]
    return math.hypot(*finite) if finite or not flat else math.nan


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _limit(name: str, text: str) -> Callable[[float], bool]:
    found = _LIMIT.fullmatch(text)
    if found is not None and _is_number(found[2]):
        compare, bound = _COMPARE[found[1]], float(found[2])
        return lambda value: bool(compare(value, bound))
    if _is_number(text):
        return lambda value: value == float(text)
    raise ArgumentError("bad-query", f"{name}:{text} needs a number, or one after > or <")


_KEYS: dict[str, Callable[[str], Test]] = {
    "op": _words(lambda trace, node: node.op),
    "name": _words(lambda trace, node: node.name or ""),
    "shape": _words(lambda trace, node: shape_text(node)),
    "dtype": _words(lambda trace, node: node.dtype),
    "scope": _scope,
    "line": _line,
    "order": _order,
    "value": _summary("value"),
    "grad": _summary("grad"),
}
