"""Traces read back from files: `.trace.json`, or a page that carries one.

What comes from a file is hostile until shown otherwise. It is data and nothing in it is run; its
size, its depth and the length of its words are bounded, and every number that points somewhere is
looked up before anything follows it.
"""

from __future__ import annotations

import base64
import json
import math
import re
import types
import zlib
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from anabranch.errors import TraceFileError
from anabranch.inspection import parts
from anabranch.inspection.fitting import misfit
from anabranch.inspection.trace import FORMAT, VERSION, Trace
from anabranch.inspection.validate import problem

LARGEST = 256_000_000  # bytes of a file
DIGITS = 400  # of one number
# How a page carries a trace: as it is, or deflated and in base64.
_SCRIPT = re.compile(
    r'<script type="application/json" id="trace"(?P<packed> data-packed="deflate")?>'
)


def read(path: str | Path) -> Trace:
    """The trace in a file, or in a page that `Report.html` wrote.

    Unknown members are ignored, so that newer files of the same version can be read.

    Raises:
        TraceFileError: `[bad-trace]` for what is no trace, `[newer-trace]` for a version that is
            not known here. Nothing in the file is run.
        OSError: where the file cannot be opened.
    """
    file = Path(path)
    name = file.name
    if file.stat().st_size > LARGEST:
        _fail(name, f"it is larger than {LARGEST // 1_000_000} MB")
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        _fail(name, f"it is no text in UTF-8 ({error.reason} at byte {error.start})")
    return parsed(text, name)


def parsed(text: str, name: str = "the text") -> Trace:
    """The trace in a text, which is JSON or a page; see `read`."""
    if text.lstrip()[:1] == "<":
        text = _of_page(text, name)
    data = _loaded(text, name)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        _fail(name, f'it does not say "format": "{FORMAT}"')
    version = data.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        raise TraceFileError(
            "newer-trace",
            f"{name} is a trace of version {version}, and this library reads up to {VERSION}",
            hint="a newer anabranch reads it",
            version=version,
        )
    wrong = problem(data) or _crossed(data) or misfit(data)
    if wrong is not None:
        _fail(name, wrong)
    members = {key: data[key] for key in data if key not in ("format", "version")}
    made: Trace = _record(Trace, members)
    return made


def _of_page(page: str, name: str) -> str:
    """The trace's text in a page."""
    found = _SCRIPT.search(page)
    if found is None:
        _fail(name, "it is a page that carries none")
    end = page.find("</script", found.end())
    text = page[found.end() : end if end >= 0 else len(page)]
    if not found["packed"]:
        return text
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(text, validate=True), LARGEST)
        if unpacking.unconsumed_tail:
            _fail(name, f"unpacked it is larger than {LARGEST // 1_000_000} MB")
        return data.decode("utf-8")
    except (ValueError, zlib.error) as error:
        _fail(name, f"what it carries cannot be unpacked ({error})")


def _fail(name: str, why: str) -> NoReturn:
    raise TraceFileError("bad-trace", f"{name} is no trace: {why}")


def _loaded(text: str, name: str) -> Any:
    def constant(word: str) -> NoReturn:
        _fail(name, f"{word} is no number in JSON")

    def integer(digits: str) -> int:
        if len(digits) > DIGITS:
            _fail(name, f"it holds a number of {len(digits)} digits")
        return int(digits)

    def real(digits: str) -> float:
        if len(digits) > DIGITS or not math.isfinite(float(digits)):
            _fail(name, f"it holds a number that no float can be: {digits[:40]}")
        return float(digits)

    try:
        return json.loads(text, parse_constant=constant, parse_int=integer, parse_float=real)
    except RecursionError:
        _fail(name, "it is nested too deeply")
    except json.JSONDecodeError as error:
        _fail(name, f"it is no JSON ({error.msg} in line {error.lineno}, column {error.colno})")


# What points somewhere


def _crossed(data: dict[str, Any]) -> str | None:
    """What is wrong with the numbers that name nodes, edges, scopes and lines; None if nothing."""
    nodes, edges = data["nodes"], data["edges"]
    for place, node in enumerate(nodes):
        if node["id"] != place:
            return f"nodes[{place}] has the id {node['id']}; ids count the nodes"
        if not node.get("scope", 0) < len(data.get("scopes", [None])):
            return f"nodes[{place}] is in scope {node['scope']}, which is not there"
        wrong = _misplaced(node.get("at"), data.get("sources", []))
        if wrong:
            return f"nodes[{place}] {wrong}"
    for place, edge in enumerate(edges):
        if not edge["from"] < edge["to"] < len(nodes):
            return f"edges[{place}] goes from {edge['from']} to {edge['to']}; edges go upward"
        if edge.get("out", 0) >= len(nodes[edge["from"]].get("outputs", [None])):
            return f"edges[{place}] reads output {edge['out']}, which is not there"
    for place, scope in enumerate(data.get("scopes", [])):
        parent = scope["parent"]
        if scope["id"] != place or (parent is None) != (place == 0):
            return f"scopes[{place}] is out of place"
        if parent is not None and not parent < place:
            return f"scopes[{place}] stands before its parent {parent}"
    for path, number in _pointers(data):
        if number >= (len(edges) if path.endswith("edge") else len(nodes)):
            return f"{path} points to {number}, which is not there"
    for key in ("forward", "backward"):
        if len(set(data["order"][key])) != len(data["order"][key]):
            return f"order.{key} names a node twice"
    return None


def _misplaced(at: Any, sources: list[Any]) -> str | None:
    if at is None:
        return None
    if at[0] >= len(sources):
        return f"was written in source {at[0]}, which is not there"
    source = sources[at[0]]
    if not source["first"] <= at[1] < source["first"] + len(source["text"]):
        return f"was written on line {at[1]}, which source {at[0]} does not have"
    return None


def _pointers(data: dict[str, Any]) -> Any:
    """(path, number) of everything else that points to a node or an edge."""
    yield "root", data["root"]
    named = {key: data.get(key, []) for key in ("outputs",)}
    named |= {f"order.{key}": data["order"][key] for key in ("forward", "backward")}
    for path, numbers in named.items():
        for number in numbers:
            yield path, number
    for key in ("checks", "frames", "notes", "findings"):
        for place, one in enumerate(data.get(key, [])):
            yield from _inside(f"{key}[{place}]", one)
    for place, node in enumerate(data["nodes"]):
        for number in node.get("kept_for", ()):
            yield f"nodes[{place}].kept_for", number
        if "node" in node.get("origin", {}):
            yield f"nodes[{place}].origin", node["origin"]["node"]


_ONE = ("node", "about", "becomes", "through", "edge")
_SEVERAL = ("reaches", "nodes")


def _inside(path: str, one: dict[str, Any]) -> Any:
    for key, value in one.items():
        if key in _ONE and value is not None:
            yield f"{path}.{key}", value
        elif key in _SEVERAL:
            for number in value:
                yield f"{path}.{key}", number
        elif key in ("proof", "shares", "paths", "steps"):
            for place, part in enumerate(value):
                yield from _inside(f"{path}.{key}[{place}]", part)


# From plain data to records


def _record(kind: type, data: dict[str, Any]) -> Any:
    made = {}
    for name, member, hint in _fields(kind):
        if member in data:
            made[name] = _value(hint, data[member])
    return kind(**made)


@cache
def _fields(kind: type) -> list[tuple[str, str, Any]]:
    hints = get_type_hints(kind, vars(parts) | {"Any": Any})
    return [(one.name, one.name.rstrip("_"), _bare(hints[one.name])) for one in fields(kind)]


def _bare(hint: Any) -> Any:
    """A hint without its None."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = [one for one in get_args(hint) if one is not type(None)]
    return hint


def _value(hint: Any, value: Any) -> Any:
    if value is None or hint in (str, bool, int):
        return value
    if hint is float or hint is Any:
        return _number(value)
    if get_origin(hint) is list:
        inner = get_args(hint)[0]
        return [_value(inner, one) for one in value]
    if is_dataclass(hint):
        return _record(hint, value)  # type: ignore[arg-type]
    return value if get_args(hint)[1:] == (str,) else _number(value)


def _number(value: Any) -> Any:
    """Numbers that travel as text, wherever they stand in lists and objects, as numbers again."""
    if isinstance(value, str):
        return float(value) if value[-1:] in "fn" else int(value)
    if isinstance(value, list):
        return [_number(one) for one in value]
    return value
