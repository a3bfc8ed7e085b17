"""Elements of an SVG, one a line: sorted attributes, integers, colours by name."""

from __future__ import annotations

import html
import re
from itertools import pairwise

from anabranch.inspection.numerals import clean
from anabranch.inspection.theme import MONO, SANS, TOKENS

THEMES = ("auto", "light", "dark")
_FONTS = {"mono": MONO.replace('"', ""), "sans": SANS.replace('"', "")}


class Sheet:
    """What is drawn so far.

    Attributes carry the colours of one side, so that every rasteriser shows them; with the theme
    `auto` a rule recolours them by class where a reader prefers dark.
    """

    def __init__(self, theme: str = "auto") -> None:
        self.theme = theme
        self.lines: list[str] = []

    def colour(self, name: str) -> str:
        return TOKENS[name][self.theme == "dark"] if name in TOKENS else name

    def put(
        self, tag: str, body: str = "", *, fill: str = "none", stroke: str = "", **attrs: object
    ) -> None:
        """One element.  A trailing `_` of an attribute falls, another becomes a hyphen."""
        found = {name.rstrip("_").replace("_", "-"): value for name, value in attrs.items()}
        classes = [f"f-{fill}"] if fill in TOKENS else []
        found["fill"] = self.colour(fill)
        if stroke:
            found["stroke"] = self.colour(stroke)
            classes.append(f"s-{stroke}")
        if classes and self.theme == "auto":
            found["class"] = " ".join(classes)
        words = "".join(
            f' {name}="{html.escape(str(value))}"'
            for name, value in sorted(found.items())
            if value is not None
        )
        shown = html.escape(clean(body))
        self.lines.append(f"<{tag}{words}>{shown}</{tag}>" if body else f"<{tag}{words}/>")

    def text(
        self,
        x: int,
        y: int,
        body: str,
        *,
        size: int = 13,
        fill: str = "ink",
        font: str = "mono",
        bold: bool = False,
        anchor: str = "start",
    ) -> None:
        self.put(
            "text",
            body,
            x=x,
            y=y,
            fill=fill,
            font_family=_FONTS[font],
            font_size=size,
            font_weight=600 if bold else None,
            text_anchor=None if anchor == "start" else anchor,
        )

    def box(
        self, x: int, y: int, w: int, h: int, *, r: int = 0, fill: str = "none", **attrs: object
    ) -> None:
        stroke = str(attrs.pop("stroke", ""))
        size = {"x": x, "y": y, "width": w, "height": h, "rx": r or None}
        self.put("rect", "", fill=fill, stroke=stroke, **size, **attrs)

    def hatch(self, x: int, y: int, w: int, h: int, *, stroke: str = "bad", step: int = 9) -> None:
        """Diagonal lines over a box: what is bad can be told without colour."""
        words = []
        for s in range(step, w + h, step):
            a, b = min(s, w), min(s, h)
            words.append(f"M{x + a} {y + s - a}L{x + s - b} {y + b}")
        self.put("path", d="".join(words), stroke=stroke, stroke_width=1, opacity="0.35")

    def open(self, x: int, y: int) -> None:
        self.lines.append(f'<g transform="translate({x} {y})">')

    def close(self) -> None:
        self.lines.append("</g>")

    def written(self, box: tuple[int, int, int, int], title: str, said: str) -> str:
        """The whole file; `box` is the view box."""
        x, y, w, h = box
        style = ""
        if self.theme == "auto":
            rules = "".join(
                f".f-{name}{{fill:{dark}}}.s-{name}{{stroke:{dark}}}"
                for name, (_, dark) in TOKENS.items()
            )
            style = f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" '
            f'viewBox="{x} {y} {w} {h}" style="max-width:100%;height:auto" role="img" '
            f'aria-labelledby="t d"><title id="t">{html.escape(clean(title))}</title>'
            f'<desc id="d">{html.escape(clean(said))}</desc>{style}'
        )
        return "\n".join([head, *self.lines, "</svg>", ""])


def extent(path: str) -> tuple[int, int, int, int]:
    """The box around the points of a path: x, y, right, bottom.

    Example:
        >>> from anabranch.inspection.sheet import extent
        >>> extent("M1 2C3 -4 5 6 7 8")
        (1, -4, 7, 8)
    """
    numbers = [int(n) for n in re.findall(r"-?\d+", path)]
    points = list(pairwise(numbers))[::2]
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    return min(xs), min(ys), max(xs), max(ys)
