"""A graph in the language of Graphviz, for those who want to lay it out themselves."""

from __future__ import annotations

from anabranch.inspection.facts import facts, formula, is_leaf, kind, label, rule, sent
from anabranch.inspection.frames import Index, Trace
from anabranch.inspection.numerals import clean, text


def dot(trace: Trace) -> str:
    """The graph as DOT: a box a node, an edge an edge, labelled `3 | 48`; a cluster a scope.

    Args:
        trace: the plain data of a trace.

    Example:
        >>> from anabranch.inspection.to_dot import dot
        >>> node = {"id": 0, "op": "input", "name": "x", "shape": [], "dtype": "float64",
        ...         "value": {"v": 2}}
        >>> print(dot({"nodes": [node], "edges": [], "title": "x"}))
        digraph {
          label="x"; rankdir=LR; node [shape=box, style=rounded]
          n0 [label="x\\nf64 input\\nvalue 2"]
        }
        <BLANKLINE>
    """
    index = Index(trace)
    lines = [
        f"  label={_quoted(str(trace.get('title') or 'graph'))}; rankdir=LR; "
        "node [shape=box, style=rounded]"
    ]
    lines += _scopes(index)
    for edge in index.edges:
        local = rule(edge, 24)
        parts = [part for part in (local, sent(edge) if "contribution" in edge else None) if part]
        lines.append(f"  n{edge['from']} -> n{edge['to']} [label={_quoted(' | '.join(parts))}]")
    return "\n".join(["digraph {", *lines, "}", ""])


def _scopes(index: Index) -> list[str]:
    """The nodes, inside their clusters; a scope that is entered in between is opened again."""
    lines: list[str] = []
    here: tuple[int, ...] = (0,)
    for node in range(len(index.nodes)):
        path = index.path(node)
        shared = 0
        while shared < min(len(here), len(path)) and here[shared] == path[shared]:
            shared += 1
        for depth in range(len(here) - 1, shared - 1, -1):
            lines.append("  " * depth + "}")
        for depth in range(shared, len(path)):
            name = _quoted(str(index.trace["scopes"][path[depth]]["name"]))
            lines.append("  " * depth + f"subgraph cluster_{path[depth]} {{ label={name}")
        here = path
        lines.append("  " * len(path) + f"n{node} [label={_quoted(_label(index, node))}]")
    lines += ["  " * depth + "}" for depth in range(len(here) - 1, 0, -1)]
    return lines


def _label(index: Index, node: int) -> str:
    one = index.nodes[node]
    made = one["op"] if is_leaf(one) else "= " + formula(index, node, lambda n: label(index, n))
    parts = [label(index, node), f"{kind(one)} {made}"]
    for word, summary in (("value", one.get("value")), ("gradient", one.get("grad"))):
        if summary:
            plain = "v" in summary and not isinstance(summary["v"], list)
            norm = f"‖{text(facts(summary, one['shape']).norm)}‖"
            parts.append(f"{word} {text(summary['v']) if plain else norm}")
    return "\n".join(parts)


def _quoted(said: str) -> str:
    r"""A string of DOT: quotes and backslashes are escaped, ends of lines are `\n`."""
    lines = [clean(line).replace("\\", "\\\\").replace('"', '\\"') for line in said.split("\n")]
    return '"' + "\\n".join(lines) + '"'
