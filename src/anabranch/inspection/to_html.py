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
from anabranch.inspection.facts import facts, formula, is_leaf, kind, label, sent
from anabranch.inspection.frames import (
    Index,
    Trace,
    awaited,
    frames_of,
    gradient,
    ports_of,
    ran_backward,
    state_at,
)
from anabranch.inspection.linker import linked, source, styled
from anabranch.inspection.numerals import clean, text
from anabranch.inspection.rows import layout
from anabranch.inspection.shortened import shortened
from anabranch.inspection.to_svg import MOST_ITEMS, svg

PACK_ABOVE = 1_000_000  # letters of data; above, the page carries it deflated
STORY: tuple[str, ...] = ()  # the story alone, with a plain table as its twin
ALL = ("search", "table", "gradients", "why")
TABLE_ROWS, STILL_STRIPS = 500, 60  # what stands in the page of a large graph
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
        "TABLE": _table(trace),
    }
    return _PLACE.sub(lambda m: parts[m[1]], shell(views))


def _still(trace: Trace) -> str:
    """The picture that a reader without scripts sees."""
    many = len(layout(trace)["0"]["items"])
    if many > MOST_ITEMS:
        return f"<p>A picture of {many:,} items needs scripts.</p>"
    return svg(trace, theme="light", strips=len(trace["nodes"]) <= STILL_STRIPS)


def _table(trace: Trace) -> str:
    """The table as it stands in the page: the equal twin of the picture, scripts or none."""
    index = Index(trace)
    state = state_at(index, frames := frames_of(trace), len(frames) - 1)
    rows = [
        (
            str(node),
            label(index, node),
            one["op"] if is_leaf(one) else formula(index, node, lambda n: label(index, n)),
            kind(one),
            " ; ".join(_shown(port.get("value"), port) for port in ports_of(one)),
            " ; ".join(
                _shown(gradient(index, state, node, out), port)
                for out, port in enumerate(ports_of(one))
            ),
            _arms(index, node),
        )
        for node, one in enumerate(index.nodes[:TABLE_ROWS])
    ]
    words = ("#", "name", "op", "type", "value", "gradient", "contributions")
    kinds = ("mute r", "mono", "mono", "mono mute", "v r", "g r", "mono")
    head = "".join(
        f'<th scope="col" class="{k[-1] if k[-1] == "r" else ""}">{word}</th>'
        for word, k in zip(words, kinds, strict=True)
    )
    body = "".join(f"<tr>{_row(row, kinds)}</tr>\n" for row in rows)
    rest = len(index.nodes) - len(rows)
    more = f"<p>and {rest:,} more</p>" if rest > 0 else ""
    return (
        '<div class="grid" tabindex="0" role="region" aria-label="Nodes"><table class="nodes">'
        f"<thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>{more}</div>"
    )


def _row(row: tuple[str, ...], kinds: tuple[str, ...]) -> str:
    tags = ["th scope='row'" if i == 1 else "td" for i in range(len(row))]
    return "".join(
        f'<{tag} class="{k}">{html.escape(cell)}</{tag[:2]}>'
        for tag, k, cell in zip(tags, kinds, row, strict=True)
    )


def _shown(summary: Mapping[str, Any] | None, node: Mapping[str, Any]) -> str:
    if not summary:
        return "·"
    if "v" in summary and not isinstance(summary["v"], list):
        return text(summary["v"])
    return f"‖{text(facts(summary, node['shape']).norm)}‖"


def _arms(index: Index, node: int) -> str:
    if node == index.trace["root"] and ran_backward(index.trace):
        return "seed"
    edges = [index.edges[i] for i in awaited(index, node)]
    said = [f"{sent(edge)} through {label(index, edge['to'])}" for edge in edges]
    return " + ".join(said[:4]) + (f" + {len(said) - 4} more" if len(said) > 4 else "")


@cache
def shell(views: tuple[str, ...] = ALL) -> str:
    """The page without its data: places for what is of a trace are left."""
    names = ["tools" if view == "search" else view for view in views]
    parts = {
        "TOKENS": theme.css().replace(", ", ",").replace(": ", ":").replace("\n", ""),
        "STYLE": styled(
            ["style.css", "table.css", *(f"{view}.css" for view in views if view != "table")]
        ),
        "SCRIPT": shortened(f"{linked(['app', *views])}\nstart({{{','.join(names)}}});"),
    }
    bare = source("page.html").strip().replace(">\n<", "><") + "\n"
    return _PLACE.sub(lambda m: parts.get(m[1], m[0]), bare)
