"""What `schema.json` demands, checked: as much of JSON Schema as that file uses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

DEEPEST = 64  # levels of nesting
LONGEST = 100_000  # letters of one word

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
}
Problem = str | None


@cache
def schema() -> dict[str, Any]:
    """The schema of traces, as data."""
    text = files("anabranch.inspection").joinpath("schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def problem(data: Any) -> Problem:
    """The first thing in this data that the schema forbids, with its place; None if nothing."""
    return _wrong(data, schema(), "", 0)


def _wrong(value: Any, rule: dict[str, Any], path: str, depth: int) -> Problem:
    if depth > DEEPEST:
        return f"{path[:80]} is nested too deeply"
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{path or 'it'} has {len(value)} letters"
    if "$ref" in rule:
        return _wrong(value, schema()["$defs"][rule["$ref"].rsplit("/", 1)[1]], path, depth)
    if "anyOf" in rule and "type" not in rule:
        problems = [_wrong(value, one, path, depth) for one in rule["anyOf"]]
        return problems[0] if all(problems) else None
    return (
        _wrong_itself(value, rule, path)
        or _wrong_members(value, rule, path, depth)
        or _wrong_items(value, rule, path, depth)
    )


def _wrong_itself(value: Any, rule: dict[str, Any], path: str) -> Problem:
    here = path or "it"
    kind = rule.get("type")
    if kind is not None and not _TYPES[kind](value):
        return f"{here} is no {kind}"
    if "const" in rule and (value != rule["const"] or isinstance(value, bool)):
        return f"{here} is not {rule['const']!r}"
    if "enum" in rule and value not in rule["enum"]:
        return f"{here} is none of {', '.join(map(str, rule['enum']))}"
    if isinstance(value, int | float) and not (
        rule.get("minimum", value) <= value <= rule.get("maximum", value)
    ):
        return f"{here} is out of range"
    if isinstance(value, str) and not re.search(rule.get("pattern", ""), value):
        return f"{here} is {value[:40]!r}"
    return None


def _wrong_members(value: Any, rule: dict[str, Any], path: str, depth: int) -> Problem:
    if not isinstance(value, dict):
        return None
    for name in rule.get("required", ()):
        if name not in value:
            return f"{path or 'it'} has no {name!r}"
    if "anyOf" in rule and not any(
        all(name in value for name in one["required"]) for one in rule["anyOf"]
    ):
        return f"{path or 'it'} lacks what it is about"
    known, others = rule.get("properties", {}), rule.get("additionalProperties")
    for name, one in value.items():
        inner = known.get(name, others)
        if inner:
            found = _wrong(one, inner, f"{path}.{name}" if path else name, depth + 1)
            if found:
                return found
    return None


def _wrong_items(value: Any, rule: dict[str, Any], path: str, depth: int) -> Problem:
    if not isinstance(value, list):
        return None
    if not rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)):
        return f"{path} has {len(value)} items"
    inner = rule.get("items", {})
    for place, one in enumerate(value):
        found = _wrong(one, inner, f"{path}[{place}]", depth + 1)
        if found:
            return found
    return None
