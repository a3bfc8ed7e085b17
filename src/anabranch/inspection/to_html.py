"""One self-contained HTML file: plain modules joined into one script, the data beside them.

The page asks for nothing: its policy forbids every request.  No name, source or value of a graph
is ever markup: data is JSON in which `<` is escaped, and the page only sets text.
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from anabranch.inspection import theme
from anabranch.inspection.facts import facts, formula, is_leaf, kind, label
from anabranch.inspection.frames import Index, Trace, frames_of, gradient, state_at
from anabranch.inspection.linker import linked, source, styled
from anabranch.inspection.numerals import clean, text
from anabranch.inspection.rows import layout
from anabranch.inspection.to_svg import MOST_ITEMS, svg

PACK_ABOVE = 1_000_000  # letters of data; above, the page carries it deflated
STORY = ("table",)  # the views beside the story that tell it in another form
ALL = ("search", "table", "gradients", "why")
STILL_ROWS, STILL_STRIPS = 500, 60  # what a reader without scripts gets of a large graph
_PLACE = re.compile(r"/\*@(\w+)@\*/")


def page(trace: Trace, views: tuple[str, ...] = ALL) -> str:
    """The page of a trace, as text.

    Args:
        trace: the plain data of a trace.
        views: what there is beside the story; `STORY` is the smallest page.

    Example:
        >>> from anabranch.inspection.to_html import page
        >>> node = {"id": 0, "op": "input", "shape": [], "dtype": "float64"}
        >>> trace = {"format": "anabranch-trace", "version": 1, "root": 0, "nodes": [node],
        ...          "edges": [], "order": {"forward": [0], "backward": []}, "title": "x < y"}
        >>> "<title>x &lt; y" in page(trace)
        True
    """
    data = json.dumps(
        {**trace, "layout": layout(trace)},
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )
    # Half of a pair of surrogates is a letter that no file can hold; JSON has a spelling for it.
    data = data.encode("utf-8", "backslashreplace").decode()
    packed = len(data) > PACK_ABOVE
    if packed:
        data = base64.b64encode(zlib.compress(data.encode(), 9)).decode()
    parts = {
        "TITLE": html.escape(clean(str(trace.get("title") or "graph"))[:200]),
        "TRACE": data.replace("<", "\\u003c"),
        "PACKED": ' data-packed="deflate"' if packed else "",
        "STILL": _still(trace),
    }
    return _PLACE.sub(lambda m: parts[m[1]], shell(views))


def _still(trace: Trace) -> str:
    """What a reader without scripts sees: the picture and the table."""
    index = Index(trace)
    state = state_at(index, frames := frames_of(trace), len(frames) - 1)
    rows = [
        (
            label(index, node),
            one["op"] if is_leaf(one) else formula(index, node, lambda n: label(index, n)),
            kind(one),
            *(_shown(summary, one) for summary in (one.get("value"), gradient(index, state, node))),
        )
        for node, one in enumerate(index.nodes[:STILL_ROWS])
    ]
    head = "".join(f"<th>{word}</th>" for word in ("name", "op", "type", "value", "gradient"))
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>" for row in rows)
    many = len(layout(trace)["0"]["items"])
    picture = f"<p>A picture of {many:,} items needs scripts.</p>"
    if many <= MOST_ITEMS:
        picture = svg(trace, theme="light", strips=len(index.nodes) <= STILL_STRIPS)
    hide = "main,footer,.bar>:not(.brand){display:none!important}body{display:block;overflow:auto}"
    return f"<style>{hide}</style>{picture}<table><tr>{head}</tr>{body}</table>"


def _shown(summary: Mapping[str, Any] | None, node: Mapping[str, Any]) -> str:
    if not summary:
        return "·"
    if "v" in summary and not isinstance(summary["v"], list):
        return text(summary["v"])
    return f"‖{text(facts(summary, node['shape']).norm)}‖"


@cache
def shell(views: tuple[str, ...] = ALL) -> str:
    """The page without its data: places for TITLE, TRACE, PACKED and STILL are left."""
    names = ["tools" if view == "search" else view for view in views]
    parts = {
        "TOKENS": theme.css(),
        "STYLE": styled(["style.css", *(f"{view}.css" for view in views)]),
        "SCRIPT": f"{linked(['app', *views])}\nstart({{{', '.join(names)}}});",
    }
    return _PLACE.sub(lambda m: parts.get(m[1], m[0]), source("page.html").strip() + "\n")
