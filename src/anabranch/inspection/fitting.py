"""Whether what a file says of a value can be said of it: its shape, its counts, its pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

_Said = Mapping[str, Any]


def misfit(data: _Said) -> str | None:
    """The first summary in a trace that fits no value of its shape; None if all do.

    Args:
        data: what `schema.json` allows, and whose numbers of nodes are those of nodes.

    Example:
        >>> from anabranch.inspection.fitting import misfit
        >>> node = {"shape": [2], "value": {"v": [1, 2, 3]}}
        >>> misfit({"nodes": [node], "edges": [], "root": 0})
        'nodes[0].value is no value of shape [2]'
    """
    for path, said, shape in _shaped(data):
        if not _is_of(said, shape):
            return f"{path} is no value of shape {list(shape)}"
    for path, said in _others(data):
        if not _is_some(said):
            return f"{path} is no value"
    return None


def _shaped(data: _Said) -> Iterator[tuple[str, _Said, list[int]]]:
    """Summaries whose shape is known."""
    nodes = data["nodes"]
    for i, node in enumerate(nodes):
        ports = enumerate(node.get("outputs", ()))
        for path, one in [("", node), *((f".outputs[{k}]", port) for k, port in ports)]:
            for key in ("value", "grad", "held"):
                if key in one:
                    yield f"nodes[{i}]{path}.{key}", one[key], one["shape"]
    for i, edge in enumerate(data["edges"]):
        if "contribution" in edge:
            source = nodes[edge["from"]]
            port = source.get("outputs", [source])[edge.get("out", 0)]
            yield f"edges[{i}].contribution", edge["contribution"], port["shape"]
    if "seed" in data:
        yield "seed", data["seed"], nodes[data["root"]]["shape"]


def _others(data: _Said) -> Iterator[tuple[str, _Said]]:
    for i, edge in enumerate(data["edges"]):
        if "value" in edge.get("local", {}):
            yield f"edges[{i}].local.value", edge["local"]["value"]
    for i, finding in enumerate(data.get("findings", ())):
        for part in ("proof", "shares"):
            for k, one in enumerate(finding.get(part, ())):
                for key in ("summary", "upstream", "amount"):
                    if key in one:
                        yield f"findings[{i}].{part}[{k}].{key}", one[key]


def _is_of(said: _Said, shape: list[int]) -> bool:
    if "v" in said:
        return _fits(said["v"], shape)
    return bool(shape) and said.get("n") == math.prod(shape) and _is_counted(said)


def _is_some(said: _Said) -> bool:
    if "v" not in said:
        return "n" in said and _is_counted(said)
    shape, inner = [], said["v"]
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    return _fits(said["v"], shape)


def _fits(v: Any, shape: list[int]) -> bool:
    """Whether nested lists have this shape; the schema has bounded how deep they are."""
    if not shape:
        return not isinstance(v, list)
    return isinstance(v, list) and len(v) == shape[0] and all(_fits(one, shape[1:]) for one in v)


def _is_counted(said: _Said) -> bool:
    """Whether counts and pictures agree with the number of elements and with themselves."""
    counts = sum(said.get(key, 0) for key in ("nan", "inf", "zero", "negative"))
    grid, hist = said.get("grid"), said.get("hist")
    return (
        counts <= said["n"]
        and (grid is None or 0 < grid["rows"] * grid["cols"] == len(grid["mean"]))
        and (hist is None or len(hist["bins"]) > 0)
    )
