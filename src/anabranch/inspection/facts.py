"""What a picture needs to know of a value, an edge or a node; page/story.js has the same rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite, isinf, isnan, sqrt
from typing import Any

from anabranch.inspection.frames import Index
from anabranch.inspection.numerals import clean, columns, elements, number, text

BINS = 16
GRID = 24
LEAVES = ("input", "parameter", "constant")
_SHORT_TYPES = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf"}


@dataclass
class Facts:
    """A summary counted: how many elements of each kind, their norm, and what a strip shows.

    Attributes:
        bins, low, high: a histogram of the finite elements, in at most 16 bins.
        grid, cols: block means or the elements themselves, row by row, for a heat map.
    """

    n: int = 0
    nan: int = 0
    inf: int = 0
    zero: int = 0
    negative: int = 0
    norm: float = 0.0
    bins: list[int] = field(default_factory=list)
    low: float = 0.0
    high: float = 0.0
    grid: list[float] = field(default_factory=list)
    cols: int = 0

    @property
    def broken(self) -> int:
        return self.nan + self.inf


def facts(summary: Mapping[str, Any], shape: list[int]) -> Facts:
    """The facts of a summary.

    Example:
        >>> from anabranch.inspection.facts import facts
        >>> found = facts({"v": [3, -4, 0, "nan"]}, [4])
        >>> found.n, found.nan, found.zero, found.negative, found.norm, found.cols
        (4, 1, 1, 1, 5.0, 4)
    """
    if "v" not in summary:
        return _told(summary)
    found = Facts()
    values = [number(e) for e in elements(summary["v"])]
    for v in values:
        found.n += 1
        found.nan += isnan(v)
        found.inf += isinf(v)
        found.zero += v == 0
        found.negative += -inf < v < 0
    finite = [v for v in values if isfinite(v)]
    top = max(map(abs, finite), default=0.0)
    if top:
        found.norm = top * sqrt(sum((v / top) * (v / top) for v in finite))
    found.cols = shape[-1] if shape else 1
    if found.cols <= 2 * GRID and len(values) <= GRID * GRID:
        found.grid = values
    return found


def _told(summary: Mapping[str, Any]) -> Facts:
    found = Facts(
        n=summary.get("n", 0),
        nan=summary.get("nan", 0),
        inf=summary.get("inf", 0),
        zero=summary.get("zero", 0),
        norm=number(summary.get("norm", 0)),
    )
    found.negative = summary.get("negative", 0)
    if grid := summary.get("grid"):
        found.grid, found.cols = [number(v) for v in grid["mean"]], grid["cols"]
    if hist := summary.get("hist"):
        bins = hist["bins"]
        size = -(-len(bins) // BINS)
        found.bins = [sum(bins[i : i + size]) for i in range(0, len(bins), size)]
        found.low, found.high = number(hist["lo"]), number(hist["hi"])
    return found


def size(summary: Mapping[str, Any]) -> float:
    """The norm of a contribution, for the width of its band; infinite where it is not finite."""
    if "v" not in summary:
        return inf if summary.get("nan") or summary.get("inf") else number(summary.get("norm", 0))
    found = facts(summary, [])
    return inf if found.broken else found.norm


def short_name(index: Index, node: int) -> str:
    """What a card calls a node: its name, or `#3`."""
    name = index.nodes[node].get("name")
    return clean(name) if name else f"#{node}"


def label(index: Index, node: int) -> str:
    """The name of a node, with its number where several have it; `#3` without a name."""
    shared = index.named[index.nodes[node].get("name")] > 1 and index.nodes[node].get("name")
    return f"{short_name(index, node)} #{node}" if shared else short_name(index, node)


def kind(node: Mapping[str, Any]) -> str:
    """`f64[2,3]`, as messages write types.

    Example:
        >>> from anabranch.inspection.facts import kind
        >>> kind({"dtype": "float64", "shape": [2, 3]}), kind({"dtype": "bool", "shape": []})
        ('f64[2,3]', 'bool')
    """
    parts = re.fullmatch(r"(bfloat|float|uint|int|complex)(\d+)", node["dtype"])
    word = _SHORT_TYPES[parts[1]] + parts[2] if parts else clean(str(node["dtype"]))
    return f"{word}[{','.join(map(str, node['shape']))}]" if node["shape"] else word


def formula(index: Index, node: int, show: Callable[[int], str]) -> str:
    """The formula of an op with something for each input; its name with them where it has none."""
    ends = {index.edges[i]["slot"]: index.edges[i]["from"] for i in index.ins[node]}
    said = index.nodes[node].get("formula")
    if not said:
        return f"{index.nodes[node]['op']}({', '.join(show(ends[slot]) for slot in sorted(ends))})"
    return re.sub(
        r"\{(\d+)\}", lambda m: show(ends[int(m[1])]) if int(m[1]) in ends else "·", clean(said)
    )


def is_leaf(node: Mapping[str, Any]) -> bool:
    return node["op"] in LEAVES


def rule(edge: Mapping[str, Any], room: int, digits: int = 4) -> str | None:
    """What a chip says of a local derivative: its number, or its rule; Σ where axes are summed.

    A rule that is longer than the room is ∂: half of one would say something else.
    """
    local = edge.get("local")
    if local is None:
        return None
    if "v" in local:
        return text(local["v"], digits)
    sign = "Σ " if local.get("summed") else ""
    said = clean(str(local.get("text") or "∂"))
    return sign + (said if columns(said) + len(sign) <= room else "∂")


def sent(edge: Mapping[str, Any], digits: int = 4) -> str:
    """What a chip says of a contribution: a number, or how much the upstream was stretched."""
    contribution = edge["contribution"]
    if "v" in contribution and not isinstance(contribution["v"], list):
        return text(contribution["v"], digits)
    gain = edge.get("local", {}).get("gain")
    return f"×{text(gain, 3)}" if gain is not None else f"‖{text(size(contribution), 3)}‖"
