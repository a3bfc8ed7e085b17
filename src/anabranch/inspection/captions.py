"""What a frame says in one line below its picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.inspection.facts import formula, is_leaf, label, rule, sent, size
from anabranch.inspection.frames import Index, State, awaited, gradient, summed
from anabranch.inspection.numerals import clean, number, text

_PHASES = {"forward": "Forward", "seed": "Backward", "backward": "Backward", "end": "Result"}


def heading(index: Index, state: State) -> str:
    """The phase with its step, and what the frame is about.

    Example:
        >>> from anabranch.inspection.captions import heading
        >>> from anabranch.inspection.frames import Index, frames_of, state_at
        >>> node = {"id": 0, "op": "input", "name": "x", "shape": [], "dtype": "float64"}
        >>> trace = {"nodes": [node], "edges": [], "root": 0,
        ...          "order": {"forward": [0], "backward": []}}
        >>> heading(Index(trace), state_at(Index(trace), frames_of(trace), 0))
        'Forward 1 of 1: x is an input'
    """
    frame = state.frame
    phase = _PHASES.get(frame.kind, "Note")
    step = f" {frame.part} of {frame.of}" if phase in ("Forward", "Backward") else ""
    return f"{phase}{step}: {frame.title or _title(index, state)}"


def _title(index: Index, state: State) -> str:
    frame, item = state.frame, state.frame.item
    if frame.kind == "end":
        return "all gradients are known"
    if isinstance(item, str):
        name = clean(str(index.trace["scopes"][int(item[1:])]["name"])) or "scope"
        return f"{name} ran" if frame.kind == "forward" else f"{name} passes its gradient on"
    if frame.kind == "seed":
        return f"start at {label(index, item)}"
    if frame.kind == "backward":
        return f"{label(index, item)} passes its gradient on"
    one = index.nodes[item]
    if is_leaf(one):
        return f"{label(index, item)} is {'an' if one['op'] == 'input' else 'a'} {one['op']}"
    return f"{label(index, item)} = {formula(index, item, lambda n: label(index, n))}"


def sums(index: Index, state: State) -> list[str]:
    """The arithmetic of a frame: local derivatives, then contributions and the sums they join."""
    node = state.frame.item
    if isinstance(node, str) or state.frame.kind not in ("forward", "backward"):
        return []
    if state.frame.kind == "forward":
        edges = [index.edges[i] for i in index.ins[node]]
        return [
            f"∂{label(index, node)}/∂{label(index, e['from'])} = {rule(e, 24)}"
            for e in edges
            if e.get("local")
        ]
    return [_sum(index, state, i) for i in index.ins[node] if state.arrived.get(i) == state.at]


def _sum(index: Index, state: State, i: int) -> str:
    edge = index.edges[i]
    name, up = label(index, edge["from"]), gradient(index, state, edge["to"]) or {}
    if index.nodes[edge["to"]].get("outputs"):
        up = {}  # a gradient for each output
    if not (_plain(up) and _plain(edge["contribution"]) and "v" in edge.get("local", {})):
        return f"{name}: {rule(edge, 16) or ''} → ‖{text(size(edge['contribution']), 3)}‖"
    said = f"{name}: {text(up['v'])} × {text(edge['local']['v'])} = {sent(edge)}"
    arms = awaited(index, edge["from"], edge.get("out", 0))
    before = arms[: arms.index(i)]
    if not before:
        return said
    had = summed([index.edges[k]["contribution"] for k in before])
    value = number(edge["contribution"]["v"])
    sign = "−" if value < 0 else "+"
    now = summed([had, edge["contribution"]])
    return f"{said}, {text(had['v'])} {sign} {text(abs(value))} = {text(now['v'])}"


def _plain(summary: Mapping[str, Any]) -> bool:
    return "v" in summary and not isinstance(summary["v"], list)
