"""A graph as a static SVG, in pure Python: the same graph always gives the same bytes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from anabranch.errors import ArgumentError
from anabranch.inspection.captions import heading, sums
from anabranch.inspection.cards import Cards
from anabranch.inspection.facts import label
from anabranch.inspection.frames import Frame, Index, State, Trace, frames_of, gradient, state_at
from anabranch.inspection.numerals import fit, text
from anabranch.inspection.routes import Picture, place
from anabranch.inspection.rows import layout
from anabranch.inspection.sheet import THEMES, Sheet, extent

DIRECTIONS = ("auto", "right", "down")
MOST_ITEMS = 200  # a picture of more than these stays closed to the depth that fits
MOST_FRAMES = 40  # of a strip; of a longer story, every so many-th
WIDEST = 1500  # beyond this a picture runs down, if that is narrower
MARGIN, CAPTION, GUTTER = 24, 58, 36
CHIP = 45  # half of what a wide chip takes, less the margin
SPOKEN = 40  # nodes that the description names


@dataclass(frozen=True)
class _Graph:
    """A trace made ready to be drawn."""

    index: Index
    rows: dict[str, Any]
    frames: list[Frame]
    picture: Picture
    box: tuple[int, int, int, int]
    strips: bool

    def draw(self, sheet: Sheet, state: State) -> None:
        cards = Cards(self.index, self.picture, state, strips=self.strips)
        cards.draw(sheet, {scope: made["tags"] for scope, made in self.rows.items()})


def svg(
    trace: Trace,
    frame: int | None = None,
    *,
    direction: str = "auto",
    depth: int = 1,
    theme: str = "auto",
    strips: bool = True,
) -> str:
    """The graph after a frame of its story, as SVG.

    Args:
        trace: the plain data of a trace.
        frame: its number from 0; negative ones count from the end; None is the last.
        direction: `"right"`, `"down"`, or `"auto"`: right unless that is too wide.
        depth: how many levels of scopes are open; with more than 200 items, as many as fit.
        theme: `"light"`, `"dark"`, or `"auto"`: light, and dark where a reader prefers it.
        strips: whether tensors show their elements, or only their norms.

    Raises:
        ArgumentError [bad-argument]: an argument that is none of these.

    Example:
        >>> from anabranch.inspection.to_svg import svg
        >>> node = {"id": 0, "op": "input", "name": "x", "shape": [], "dtype": "float64"}
        >>> svg({"nodes": [node], "edges": [], "root": 0,
        ...      "order": {"forward": [0], "backward": []}}).splitlines()[-1]
        '</svg>'
    """
    graph = _ready(trace, direction, depth, theme, strips)
    many = len(graph.frames)
    if frame is not None and not -many <= frame < many:
        raise ArgumentError("bad-argument", f"there are {many} frames, and no frame {frame}")
    state = state_at(graph.index, graph.frames, many - 1 if frame is None else frame % many)
    sheet = Sheet(theme)
    graph.draw(sheet, state)
    return sheet.written(graph.box, _title(trace), _said(graph.index, state))


def strip(
    trace: Trace, *, direction: str = "auto", depth: int = 1, theme: str = "auto", columns: int = 0
) -> str:
    """The whole story as one SVG: every frame with its caption, of a long story every so many-th.

    Args:
        trace: the plain data of a trace.
        direction, depth, theme: as for `svg`.
        columns: how many frames stand beside each other; 0 leaves it to the shape of the graph.

    Raises:
        ArgumentError [bad-argument]: an argument that is none of these.

    Example:
        >>> from anabranch.inspection.to_svg import strip
        >>> node = {"id": 0, "op": "input", "name": "x", "shape": [], "dtype": "float64"}
        >>> "Forward 1 of 1: x is an input" in strip({"nodes": [node], "edges": [], "root": 0,
        ...     "order": {"forward": [0], "backward": []}})
        True
    """
    graph = _ready(trace, direction, depth, theme, True)
    index, frames = graph.index, graph.frames
    every = -(-len(frames) // MOST_FRAMES)
    chosen = [i for i in range(len(frames)) if i % every == 0 or i == len(frames) - 1]
    x, y, w, h = graph.box
    across = columns or max(1, min(4, 2400 // (w + GUTTER)))
    sheet, said = Sheet(theme), []
    for place_, i in enumerate(chosen):
        state = state_at(index, frames, i)
        left, top = place_ % across * (w + GUTTER), place_ // across * (h + CAPTION + GUTTER)
        title, facts = heading(index, state), "; ".join(sums(index, state))
        back = state.frame.kind in ("seed", "backward")
        colour = "v" if state.frame.kind == "forward" else "g" if back else "ok"
        room = (w - 2 * MARGIN) // 9
        sheet.text(left + MARGIN, top + 22, fit(title, room), size=15, fill=colour, bold=True)
        if facts:
            sheet.text(left + MARGIN, top + 46, fit(facts, room), size=14, fill="mute")
        sheet.open(left - x, top + CAPTION - y)
        graph.draw(sheet, state)
        sheet.close()
        said.append(f"{title}. {facts}".rstrip(". ") + ".")
    lines = -(-len(chosen) // across)
    width = min(across, len(chosen)) * (w + GUTTER) - GUTTER
    box = (0, 0, width, lines * (h + CAPTION + GUTTER) - GUTTER)
    return sheet.written(box, _title(trace), " ".join(said))


def _ready(trace: Trace, direction: str, depth: int, theme: str, strips: bool) -> _Graph:
    for name, value, allowed in (("direction", direction, DIRECTIONS), ("theme", theme, THEMES)):
        if value not in allowed:
            raise ArgumentError("bad-argument", f"{name} is {', '.join(allowed)}, not {value!r}")
    index, rows = Index(trace), layout(trace)
    opened = _opened(index, rows, depth)
    picture = _placed(trace, rows, opened, direction)
    return _Graph(index, rows, frames_of(trace, opened), picture, _view(picture, rows), strips)


def _title(trace: Trace) -> str:
    return str(trace.get("title") or "graph")


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
    for most in range(min(depth, max(level.values(), default=0) + 1), 1, -1):
        opened = {scope for scope, deep in level.items() if 0 < deep < most}
        if sum(held[s] for s in opened) + held.get(0, 0) <= MOST_ITEMS:
            return opened
    return set()


def _view(picture: Picture, rows: dict[str, Any]) -> tuple[int, int, int, int]:
    boxes = [(x, y, x + w, y + h) for x, y, w, h in picture.boxes.values()]
    boxes += [extent(line.path) for line in picture.lines]
    chips = [line.chip for line in picture.lines if line.chip]
    boxes += [(x - CHIP, y, x + CHIP, y) for x, y in chips]
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
