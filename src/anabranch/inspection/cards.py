"""Node cards, scopes, lines and chips on a sheet; page/scene.js draws the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from anabranch.inspection.coords import BOX_H, cell_tops
from anabranch.inspection.facts import Facts, facts, formula, is_leaf, kind, short_name
from anabranch.inspection.frames import Index, State, gradient, ports_of
from anabranch.inspection.lines import Lines
from anabranch.inspection.numerals import columns, fit, short
from anabranch.inspection.routes import Box, Picture
from anabranch.inspection.sheet import Sheet

SPLIT = 84
PIPS = 4  # more readers than this are a count
_GLYPHS = {"multiply": "×", "add": "+", "subtract": "−", "divide": "÷", "matmul": "·"}
_TAGS = {"first-nan": "first NaN", "first-inf": "first ∞"}


class Cards:
    """Everything of one frame that is drawn: `draw` puts it on a sheet."""

    def __init__(
        self, index: Index, picture: Picture, state: State, *, strips: bool = True
    ) -> None:
        self.index, self.picture, self.state, self.strips = index, picture, state, strips
        found = index.trace.get("findings") or []
        self.first = {f.get("node"): _TAGS[f["kind"]] for f in found if f["kind"] in _TAGS}

    def draw(self, sheet: Sheet, tags: Mapping[str, Mapping[str, list[int]]]) -> None:
        lines = Lines(self.index, self.picture, self.state)
        for item, box in self.picture.boxes.items():
            if isinstance(item, str):
                self._scope(sheet, item, box)
        lines.draw(sheet)
        for item, (x, y, w, h) in self.picture.boxes.items():
            if isinstance(item, str) and item[0] != "s":
                middle = {"cx": x + w // 2, "cy": y + h // 2}
                sheet.put("circle", "", r=4, fill="card", stroke="mute", **middle)
        for item, box in self.picture.boxes.items():
            if isinstance(item, int):
                self._card(sheet, item, box)
        for made in tags.values():
            for item, nodes in made.items():
                self._tags(sheet, int(item) if item.isdecimal() else item, nodes)
        lines.chips(sheet)

    def _scope(self, sheet: Sheet, item: str, box: Box) -> None:
        x, y, w, h = box
        if item[0] != "s":
            return
        number_ = int(item[1:])
        scope = self.index.trace["scopes"][number_]
        name = str(scope["name"]) or "scope"
        if h != BOX_H:  # it is open
            sheet.box(x, y, w, h, r=18, fill="soft", fill_opacity="0.6", stroke="line")
            sheet.text(x + 24, y + 26, fit(name, (w - 48) // 9), size=14, bold=True)
            return
        many = sum(number_ in self.index.path(n) for n in range(len(self.index.nodes)))
        sheet.box(x + 5, y + 5, w, h, r=13, fill="soft", stroke="line")
        sheet.box(x, y, w, h, r=13, fill="card", stroke="mute")
        sheet.put("path", d=f"M{x + 16} {y + 16}l8 5l-8 5z", fill="mute")
        sheet.text(x + 32, y + 26, fit(name, 15), size=14, bold=True)
        sheet.text(x + 32, y + 44, f"{many:,} nodes", fill="mute", font="sans")

    def _card(self, sheet: Sheet, node: int, box: Box) -> None:
        x, y, w, h = box
        one, state = self.index.nodes[node], self.state
        known = node in state.known
        border, width = self._border(node)
        sheet.open(x, y)
        dash = None if known else "5 5"
        sheet.box(
            0, 0, w, h, r=13, fill="card", stroke=border, stroke_width=width, stroke_dasharray=dash
        )
        if node in self.first and known:
            sheet.hatch(8, 2, w - 16, h - 4)
            sheet.box(10, -18, 9 * len(self.first[node]) + 16, 22, r=11, fill="card", stroke="bad")
            sheet.text(18, -2, self.first[node], fill="bad", bold=True)
        self._head(sheet, node, active=width == "2.6")
        tops = cell_tops(one)
        rules = "".join(f"M0 {top}h{w}" for top in tops[:-1])
        sheet.put("path", d=f"{rules}M{SPLIT} {tops[0]}v{tops[-1] - tops[0]}", stroke="line")
        for out, top in enumerate(tops[:-1]):
            self._cells(sheet, node, out, top)
        rest = len(ports_of(one)) - len(tops) + 1
        if rest:
            sheet.text(14, h - 6, f"+{rest} more", fill="mute", font="sans")
        sheet.close()

    def _cells(self, sheet: Sheet, node: int, out: int, head: int) -> None:
        """The value and the gradient of one output."""
        one = self.index.nodes[node]
        port = ports_of(one)[out]
        value = port.get("value") if node in self.state.known else None
        told = facts(value, port["shape"]) if value else None
        mark = f" {out}" if "outputs" in one else ""
        sheet.text(14, head + 15, f"value{mark}", fill="mute", font="sans")
        sheet.text(SPLIT + 12, head + 15, "gradient", fill="mute", font="sans")
        self._value(sheet, node, port, told, head)
        self._gradient(sheet, node, out, head)

    def _border(self, node: int) -> tuple[str, str]:
        frame = self.state.frame
        if node in frame.nodes or (frame.kind == "seed" and node == frame.item):
            return ("v" if frame.kind == "forward" else "g"), "2.6"
        got = any(self.state.arrived.get(i) == self.state.at for i in self.index.outs[node])
        return ("g-flow", "2.2") if got and frame.kind == "backward" else ("line", "1.4")

    def _head(self, sheet: Sheet, node: int, *, active: bool) -> None:
        one = self.index.nodes[node]
        colour = "v" if self.state.frame.kind == "forward" else "g"
        tall = bool(one["shape"] or "outputs" in one)
        cy = 22 if tall else 21
        sheet.put("circle", cx=24, cy=cy, r=12, fill=colour if active else "soft")
        self._glyph(sheet, one["op"], 24, cy, "card" if active else "mute")
        room = 168 - 44 - 8 - self._pips(sheet, node)
        name = short_name(self.index, node)
        big = columns(name) * 10 <= room
        shown = fit(name, room // (10 if big else 8))
        y = 20 if tall else 26
        strong = node in self.state.known
        sheet.text(
            44, y, shown, size=16 if big else 13, bold=True, fill="ink" if strong else "mute"
        )
        left = (room - columns(shown) * (10 if big else 8) - 7) // 8
        said = one["op"] if is_leaf(one) else "= " + formula(self.index, node, self._name)
        if columns(said) <= left or (not is_leaf(one) and left >= 5):
            at = 44 + 7 + columns(shown) * (10 if big else 8)
            sheet.text(at, y, fit(said, left), fill="mute")
        if tall:
            many = len(ports_of(one))
            said = kind(one) if many == 1 else f"{many} outputs"
            sheet.text(44, 37, fit(said, 14), fill="mute")

    def _name(self, node: int) -> str:
        return short_name(self.index, node)

    def _glyph(self, sheet: Sheet, op: str, x: int, y: int, fill: str) -> None:
        if op == "input":
            sheet.put("circle", cx=x, cy=y, r=4, fill=fill)
        elif op == "parameter":
            sheet.put("path", d=f"M{x} {y - 6}l6 6l-6 6l-6 -6z", fill=fill)
        elif op == "constant":
            sheet.box(x - 4, y - 4, 8, 8, fill=fill)
        else:
            sheet.text(
                x, y + 5, _GLYPHS.get(op, "ƒ"), size=16, fill=fill, bold=True, anchor="middle"
            )

    def _pips(self, sheet: Sheet, node: int) -> int:
        """One for each contribution, full when it has arrived; the room that they took."""
        awaited = [i for i in self.index.outs[node] if "contribution" in self.index.edges[i]]
        got = sum(i in self.state.arrived for i in awaited)
        if len(awaited) > PIPS:
            said = f"{got}/{len(awaited)}"
            sheet.text(154, 26, said, fill="g", bold=True, anchor="end")
            return len(said) * 8 + 8
        stroke = "g" if node in self.state.known else "line"
        for k in range(len(awaited)):
            cx = 150 - (len(awaited) - 1 - k) * 14
            full = "g" if k < got else "card"
            sheet.put("circle", cx=cx, cy=21, r="4.5", fill=full, stroke=stroke, stroke_width="1.5")
        return len(awaited) * 14

    def _value(
        self, sheet: Sheet, node: int, one: dict[str, Any], told: Facts | None, head: int
    ) -> None:
        if node not in self.state.known:
            self._number(sheet, 14, head, "·", "mute")
        elif told is None:
            said = "released" if self._released(one) else kind(one)
            sheet.text(14, head + 35, fit(said, 8), fill="mute")
        elif one["shape"]:
            self._strip(sheet, 14, head, told, "v")
        else:
            if told.broken and node not in self.first:
                sheet.hatch(2, head + 1, SPLIT - 3, 46)
            shown = short(one["value"]["v"], 8)
            self._number(sheet, 14, head, shown, "bad" if told.broken else "v")

    def _released(self, one: Mapping[str, Any]) -> bool:
        return self.index.trace.get("detail") != "shape" and not one.get("value")

    def _gradient(self, sheet: Sheet, node: int, out: int, head: int) -> None:
        x, asked = SPLIT + 12, self.index.nodes[node].get("requires_grad")
        one = ports_of(self.index.nodes[node])[out]
        grad = gradient(self.index, self.state, node, out)
        if grad is None:
            over = self.state.frame.kind == "end" and self.index.trace.get("detail") != "shape"
            if over or (self.state.seeded and asked is False):
                sheet.text(x, head + 35, "∅ none", fill="mute")
            else:
                self._number(sheet, x, head, "·", "mute")
            return
        if not grad:
            sheet.text(x, head + 35, "so far …", fill="g")
            return
        told = facts(grad, one["shape"])
        if told.n and told.zero == told.n:
            sheet.box(
                SPLIT + 5,
                head + 5,
                74,
                (64 if one["shape"] else 50) - 10,
                r=8,
                stroke="g",
                stroke_dasharray="3 3",
            )
        if one["shape"]:
            self._strip(sheet, x, head, told, "g")
        else:
            if told.broken:
                sheet.hatch(SPLIT + 1, head + 1, 81, 46)
            shown = short(grad["v"], 8)
            self._number(sheet, x, head, shown, "bad" if told.broken else "g")

    def _number(self, sheet: Sheet, x: int, head: int, shown: str, fill: str) -> None:
        big = 21 if len(shown) <= 5 else 17 if len(shown) == 6 else 13
        sheet.text(x, head + (37 if big == 21 else 36), shown, size=big, fill=fill, bold=True)

    def _strip(self, sheet: Sheet, x: int, head: int, told: Facts, fill: str) -> None:
        """A histogram or a heat map, 60 by 24, and the bar of health below it."""
        y = head + 21
        if told.grid and not told.bins and self.strips:
            self._heat(sheet, x, y, told, fill)
        elif told.bins and self.strips:
            top = max(told.bins)
            for k, many in enumerate(told.bins):
                a, b = x + 60 * k // len(told.bins), x + 60 * (k + 1) // len(told.bins)
                tall = max(1, 24 * many // top) if many else 0
                middle = told.low + (told.high - told.low) * (2 * k + 1) / (2 * len(told.bins))
                if tall:
                    sheet.box(
                        a,
                        y + 24 - tall,
                        max(1, b - a - 1),
                        tall,
                        fill=fill if middle >= 0 else "mute",
                    )
            sheet.put("path", d=f"M{x} {y + 24}h60", stroke="line")
        else:
            sheet.text(x, y + 14, "empty" if not told.n else f"‖{short(told.norm, 6)}‖", fill=fill)
        self._health(sheet, x, y + 30, told, fill)

    def _heat(self, sheet: Sheet, x: int, y: int, told: Facts, fill: str) -> None:
        rows = max(1, len(told.grid) // max(1, told.cols))
        top = max((abs(v) for v in told.grid if isfinite(v)), default=0.0)
        tones: dict[tuple[str, int], list[str]] = {}
        for k, v in enumerate(told.grid):
            r, c = divmod(k, told.cols)
            left, right = x + 60 * c // told.cols, x + 60 * (c + 1) // told.cols
            up, low = y + 24 * r // rows, y + 24 * (r + 1) // rows
            share = int(9 * (abs(v) / top)) if top and isfinite(v) else 0 if isfinite(v) else 9
            tone = ("bad" if not isfinite(v) else "mute" if v < 0 else fill, share)
            wide = right - left
            tones.setdefault(tone, []).append(f"M{left} {up}h{wide}v{low - up}h{-wide}z")
        for (colour, share), words in tones.items():
            sheet.put(
                "path",
                d="".join(words),
                fill=colour,
                opacity=f"0.{share + 1}" if share < 9 else None,
            )

    def _health(self, sheet: Sheet, x: int, y: int, told: Facts, fill: str) -> None:
        """The shares of NaN and infinity, zero, negative and positive elements."""
        sheet.box(x, y, 60, 5, r=2, stroke="line", fill="card")
        here, total = 0, max(1, told.n)
        positive = told.n - told.broken - told.zero - told.negative
        for many, colour in (
            (told.broken, "bad"),
            (told.zero, ""),
            (told.negative, "mute"),
            (positive, fill),
        ):
            if many and colour:
                a, b = 60 * here // total, -(-60 * (here + many) // total)
                sheet.box(x + a, y, b - a, 5, fill=colour, opacity="0.75")
            here += many

    def _tags(self, sheet: Sheet, item: int | str, nodes: list[int]) -> None:
        """Leaves that are read without a line, as small names above their reader."""
        if item not in self.picture.boxes:
            return
        x, y, w, _ = self.picture.boxes[item]
        at = x + 10
        for k, node in enumerate(nodes):
            rest = len(nodes) - k
            said = fit(short_name(self.index, node), 8)
            if at + columns(said) * 8 + 16 > x + w and k:
                sheet.text(at, y - 14, f"+{rest}", fill="mute")
                return
            wide = columns(said) * 8 + 16
            sheet.put("path", d=f"M{at + 12} {y - 8}V{y}", stroke="mute")
            sheet.box(at, y - 28, wide, 20, r=10, fill="soft", stroke="line")
            sheet.text(at + wide // 2, y - 14, said, fill="mute", anchor="middle")
            at += wide + 6
