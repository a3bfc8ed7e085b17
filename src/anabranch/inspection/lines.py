"""Lines and the chips on them, on a sheet; page/scene.js draws the same ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import hypot, isfinite, sqrt
from typing import Any

from anabranch.inspection.coords import BOX_H
from anabranch.inspection.facts import rule, sent, size
from anabranch.inspection.frames import Index, State, gradient
from anabranch.inspection.numerals import number, text
from anabranch.inspection.routes import Picture, Route
from anabranch.inspection.sheet import Sheet

PAIR = 11  # letters of both halves of a chip that stand in one gap


class Lines:
    """The lines of one frame, and their chips."""

    def __init__(self, index: Index, picture: Picture, state: State) -> None:
        self.index, self.picture, self.state = index, picture, state
        sizes = [size(e["contribution"]) for e in index.edges if "contribution" in e]
        self.top = max((s for s in sizes if isfinite(s)), default=0.0)

    def draw(self, sheet: Sheet) -> None:
        for line in self.picture.lines:
            self._line(sheet, line)

    def chips(self, sheet: Sheet) -> None:
        for line in self.picture.lines:
            self._chip(sheet, line)

    def _line(self, sheet: Sheet, line: Route) -> None:
        state, edges = self.state, self.index.edges
        here = [i for i in line.edges if edges[i]["to"] in state.known]
        done = [i for i in line.edges if i in state.arrived]
        if done:
            total = sum(size(edges[i]["contribution"]) for i in done)
            share = 1.0 if not isfinite(total) else total / self.top if self.top else 0.0
            now = any(state.arrived[i] == state.at for i in done)
            if total:
                sheet.put(
                    "path",
                    d=line.path,
                    stroke="g-flow" if isfinite(total) else "bad",
                    stroke_width=f"{2.5 + 9.5 * sqrt(min(1.0, share)):.1f}",
                    opacity="0.95" if now and state.frame.kind == "backward" else "0.55",
                )
            sheet.put(
                "path",
                d=line.path,
                stroke="g",
                stroke_width="1.4",
                stroke_dasharray=None if total else "4 5",
            )
            self._tip(sheet, line, "g", back=True)
            return
        lead = state.frame.kind == "forward" and any(
            edges[i]["to"] in state.frame.nodes for i in here
        )
        colour = "v" if lead else "mute" if here else "line"
        sheet.put(
            "path",
            d=line.path,
            stroke=colour,
            stroke_width="2.4" if lead else "1.6",
            stroke_dasharray=None if here else "4 5",
            opacity=None if lead else "0.75",
        )
        self._tip(sheet, line, colour, back=False)

    def _tip(self, sheet: Sheet, line: Route, colour: str, *, back: bool) -> None:
        """An arrow at an end of a line, in its direction there; none where it passes a border."""
        item = line.a if back else line.b
        if isinstance(item, str) and (item[0] != "s" or self.picture.boxes[item][3] != BOX_H):
            return
        numbers = [int(n) for n in re.findall(r"-?\d+", line.path)]
        points = list(zip(numbers[::2], numbers[1::2], strict=True))
        (x, y), *rest = points if back else points[::-1]
        far = next((p for p in rest if p != (x, y)), (x + 1, y))
        dx, dy = far[0] - x, far[1] - y
        long = hypot(dx, dy)
        ux, uy = 9 * dx / long, 9 * dy / long
        side = f"{ux - uy * 0.45:.1f} {uy + ux * 0.45:.1f}", f"{uy * 0.9:.1f} {-ux * 0.9:.1f}"
        sheet.put("path", d=f"M{x} {y}l{side[0]}l{side[1]}z", fill=colour)

    def _chip(self, sheet: Sheet, line: Route) -> None:
        edge = self.index.edges[line.edges[0]]
        local = rule(edge, 14)
        if line.chip is None or edge["to"] not in self.state.known or local is None:
            return
        x, y = line.chip
        arrived = self.state.arrived.get(line.edges[0])
        lead = self.state.frame.kind == "forward" and edge["to"] in self.state.frame.nodes
        if arrived is None:
            half = max(15, len(local) * 41 // 10 + 10)
            sheet.box(
                x - half,
                y - 13,
                2 * half,
                26,
                r=13,
                fill="card",
                stroke="v" if lead else "line",
                stroke_width="1.8" if lead else "1.2",
            )
            self._chip_text(sheet, x, y, local, "ink")
        elif arrived == self.state.at and self.state.frame.kind == "backward":
            self._now(sheet, x, y, edge)
        else:
            self._both(sheet, x, y, edge)

    def _both(self, sheet: Sheet, x: int, y: int, edge: Mapping[str, Any]) -> None:
        """3 | 48"""
        a, b = _pair(edge)
        if not a:  # a rule that is too long to write here
            half = len(b) * 41 // 10 + 10
            sheet.box(x - half, y - 13, 2 * half, 26, r=13, fill="g-tint", stroke="line")
            self._chip_text(sheet, x, y, b, "g")
            return
        half, right = (len(a) + len(b)) * 41 // 10 + 18, len(b) * 82 // 10 + 18
        sheet.box(
            x - half, y - 13, 2 * half, 26, r=13, fill="card", stroke="line", stroke_width="1.2"
        )
        sheet.box(x + half - right, y - 12, right - 1, 24, r=12, fill="g-tint")
        self._chip_text(sheet, x - half + (2 * half - right) // 2 + 2, y, a, "ink")
        self._chip_text(sheet, x + half - right // 2, y, b, "g")

    def _now(self, sheet: Sheet, x: int, y: int, edge: Mapping[str, Any]) -> None:
        """16 × 3 = 48, on two lines where it is long."""
        grad = gradient(self.index, self.state, edge["to"]) or {}
        up = None if self.index.nodes[edge["to"]].get("outputs") else grad.get("v")
        if up is None or isinstance(up, list) or "v" not in edge.get("local", {}):
            said = rule(edge, 12)
            left, right = "" if said == "∂" else f"{said} ", f"→ {sent(edge)}"
        else:
            left = f"{text(up)} × {text(number(edge['local']['v']))} = "
            right = sent(edge)
            if len(left + right) > 15:
                left = f"{text(up, 3)} × {text(edge['local']['v'], 3)}"
                right = f"= {sent(edge, 3)}"
        long = len(left + right) > 15
        wide = max(len(left), len(right)) if long else len(left + right)
        half, high = wide * 41 // 10 + 11, 21 if long else 13
        sheet.box(
            x - half,
            y - high,
            2 * half,
            2 * high,
            r=13,
            fill="g-tint",
            stroke="g",
            stroke_width="1.8",
        )
        if long:
            self._chip_text(sheet, x, y - 9, left, "ink")
            self._chip_text(sheet, x, y + 9, right, "g")
            return
        start = x - wide * 41 // 10
        sheet.text(start, y + 5, left, size=14, bold=True)
        sheet.text(start + len(left) * 82 // 10, y + 5, right, size=14, bold=True, fill="g")

    def _chip_text(self, sheet: Sheet, x: int, y: int, said: str, fill: str) -> None:
        sheet.text(x, y + 5, said, size=14, fill=fill, bold=True, anchor="middle")


def _pair(edge: Mapping[str, Any]) -> tuple[str, str]:
    """Both halves of a chip, with as many digits as fit together; a long rule is left out."""
    a, b = rule(edge, 9) or "", sent(edge)
    if "v" not in edge["local"]:
        a = rule(edge, PAIR - len(b)) or ""
        return ("" if a == "∂" else a), b
    for digits in (3, 2):
        if len(a + b) > PAIR:
            a, b = rule(edge, 9, digits) or "", sent(edge, digits)
    return a, b
