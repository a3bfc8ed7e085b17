"""A graph as a static SVG, in pure Python: the same graph always gives the same bytes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from anabranch.errors import ArgumentError
from anabranch.inspection.cards import Cards
from anabranch.inspection.facts import label
from anabranch.inspection.frames import Index, State, Trace, frames_of, gradient, state_at
from anabranch.inspection.numerals import text
from anabranch.inspection.routes import Picture, place
from anabranch.inspection.rows import layout
from anabranch.inspection.sheet import THEMES, Sheet, extent

DIRECTIONS = ("auto", "right", "down")
MOST_ITEMS = 200  # a picture of more than these stays closed to the depth that fits
WIDEST = 1500  # beyond this a picture runs down, if that is narrower
MARGIN = 24
SPOKEN = 40  # nodes that the description names


def svg(
    trace: Trace,
    frame: int | None = None,
    *,
    direction: str = "auto",
    depth: int = 1,
    theme: str = "auto",
) -> str:
    """The graph after a frame of its story, as SVG.

    Args:
        trace: the plain data of a trace.
        frame: its number from 0; negative ones count from the end; None is the last.
        direction: `"right"`, `"down"`, or `"auto"`: right unless that is too wide.
        depth: how many levels of scopes are open; with more than 200 items, as many as fit.
        theme: `"light"`, `"dark"`, or `"auto"`: light, and dark where a reader prefers it.

    Raises:
        ArgumentError [bad-argument]: an argument that is none of these.
    """
    _choice("direction", direction, DIRECTIONS)
    _choice("theme", theme, THEMES)
    index, rows = Index(trace), layout(trace)
    opened = _opened(index, rows, depth)
    frames = frames_of(trace, opened)
    if frame is not None and not -len(frames) <= frame < len(frames):
        raise ArgumentError("bad-argument", f"there are {len(frames)} frames, and no frame {frame}")
    at = len(frames) - 1 if frame is None else frame % len(frames)
    state = state_at(index, frames, at)
    picture = _placed(trace, rows, opened, direction)
    sheet = Sheet(theme)
    Cards(index, picture, state).draw(sheet, _tags(rows))
    return sheet.written(_view(picture, rows), trace.get("title") or "graph", _said(index, state))


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ArgumentError("bad-argument", f"{name} is {', '.join(allowed)}, not {value!r}")


def _tags(rows: dict[str, Any]) -> dict[str, Any]:
    return {scope: made["tags"] for scope, made in rows.items()}


def _placed(trace: Trace, rows: dict[str, Any], opened: Collection[int], direction: str) -> Picture:
    if direction != "auto":
        return place(trace, rows, opened, down=direction == "down")
    right = place(trace, rows, opened)
    if right.w <= WIDEST:
        return right
    down = place(trace, rows, opened, down=True)
    return down if down.w < right.w else right


def _opened(index: Index, rows: dict[str, Any], depth: int) -> set[int]:
    """The scopes of the first levels, fewer where they would show too much."""
    level = {scope: len(path) - 1 for scope, path in index.around.items() if str(scope) in rows}
    held = {scope: len(rows[str(scope)]["items"]) for scope in level}
    for most in range(depth, 1, -1):
        opened = {scope for scope, deep in level.items() if 0 < deep < most}
        if sum(held[s] for s in opened) + held.get(0, 0) <= MOST_ITEMS:
            return opened
    return set()


def _view(picture: Picture, rows: dict[str, Any]) -> tuple[int, int, int, int]:
    boxes = [(x, y, x + w, y + h) for x, y, w, h in picture.boxes.values()]
    boxes += [extent(line.path) for line in picture.lines]
    low = [min((box[axis] for box in boxes), default=0) - MARGIN for axis in (0, 1)]
    high = [max((box[axis] for box in boxes), default=0) + MARGIN for axis in (2, 3)]
    low[1] -= 20 if any(made["tags"] for made in rows.values()) else 0
    return low[0], low[1], high[0] - low[0], high[1] - low[1]


def _said(index: Index, state: State) -> str:
    """The picture in words."""
    parts = []
    for node in index.trace["order"]["forward"][:SPOKEN]:
        one = index.nodes[node]
        value, grad = one.get("value") or {}, gradient(index, state, node) or {}
        said = label(index, node)
        if node in state.known and "v" in value and not isinstance(value["v"], list):
            said += f" = {text(value['v'])}"
        if "v" in grad and not isinstance(grad["v"], list):
            said += f", gradient {text(grad['v'])}"
        parts.append(said)
    rest = len(index.nodes) - len(parts)
    return "; ".join(parts) + (f"; and {rest:,} more" if rest > 0 else "")
