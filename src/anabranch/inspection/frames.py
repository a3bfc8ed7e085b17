"""The frames of a story, and what is known after each; page/story.js has the same rules.

A frame is one item of the picture: a node, or a scope that is closed.  Frames follow from the order
of the trace, so that nobody has to draw a storyboard by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.inspection.numerals import elements, number

DEEPEST = 64  # scopes inside each other; what is deeper is drawn in the last of these
Trace = Mapping[str, Any]
Item = int | str  # a node's id; "s7" for scope 7 while it is closed


class Index:
    """The trace's edges by their ends, and the scopes around every node.

    Attributes:
        ins, outs: for each node the numbers of its edges, by slot and by order of their readers.
        around: for each scope the scopes from the root to it.
        turn: when the rule of a node ran.
        named: how many nodes have a name.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.nodes: list[dict[str, Any]] = trace["nodes"]
        self.edges: list[dict[str, Any]] = trace["edges"]
        self.ins: list[list[int]] = [[] for _ in self.nodes]
        self.outs: list[list[int]] = [[] for _ in self.nodes]
        for i, edge in enumerate(self.edges):
            self.ins[edge["to"]].append(i)
            self.outs[edge["from"]].append(i)
        for mine in self.ins:
            mine.sort(key=lambda i: self.edges[i]["slot"])
        self.around = _around(trace.get("scopes") or [])
        backward = trace["order"]["backward"] if "order" in trace else []
        self.turn = {node: turn for turn, node in enumerate(backward)}
        self.named = Counter(node.get("name") for node in self.nodes)

    def path(self, node: int) -> tuple[int, ...]:
        """The scopes from the root to the one that holds a node."""
        return self.around.get(self.nodes[node].get("scope", 0), (0,))

    def item(self, node: int, opened: Collection[int] | None) -> Item:
        """What stands for a node in a picture where these scopes are open; None opens all."""
        if opened is None:
            return node
        closed = next((s for s in self.path(node)[1:] if s not in opened), None)
        return node if closed is None else f"s{closed}"


def _around(scopes: list[dict[str, Any]]) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {0: (0,)}
    for scope in scopes:  # a parent comes before its children
        if scope["id"] != 0:
            outer = found.get(scope.get("parent") or 0, (0,))
            found[scope["id"]] = (*outer, scope["id"]) if len(outer) < DEEPEST else outer
    return found


@dataclass(frozen=True)
class Frame:
    """One picture of the story.

    Attributes:
        kind: `"forward"`, `"seed"`, `"backward"`, `"end"`, or `"note"` in a story made by hand.
        item: what it is about.
        nodes: the nodes that are computed, or whose rule runs, in this frame.
        part, of: its place in the forward or backward half, from 1.
        title, text: only in a story made by hand.
    """

    kind: str
    item: Item
    nodes: tuple[int, ...]
    part: int
    of: int
    title: str = ""
    text: str = ""


def frames_of(trace: Trace, opened: Collection[int] | None = None) -> list[Frame]:
    """Every item in forward order, the seed, every item whose rule ran, the result.

    Without a backward pass the story ends after forward.

    Example:
        >>> from anabranch.inspection.frames import frames_of
        >>> trace = {"nodes": [{"id": 0}], "edges": [], "root": 0,
        ...          "order": {"forward": [0], "backward": []}}
        >>> [frame.kind for frame in frames_of(trace)]
        ['forward']
    """
    if trace.get("frames"):
        return _by_hand(trace["frames"])
    index = Index(trace)
    forward = _grouped(index, trace["order"]["forward"], opened)
    made = [
        Frame("forward", item, nodes, i, len(forward)) for i, (item, nodes) in enumerate(forward, 1)
    ]
    if not ran_backward(trace):
        return made
    root, backward = trace["root"], _grouped(index, trace["order"]["backward"], opened)
    of = len(backward) + 1
    made.append(Frame("seed", root, (root,), 1, of))
    made += [Frame("backward", item, nodes, i, of) for i, (item, nodes) in enumerate(backward, 2)]
    return [*made, Frame("end", root, (), 1, 1)]


def ran_backward(trace: Trace) -> bool:
    """Whether the trace holds a backward pass; a root that is a leaf has one without a rule."""
    return bool(trace["order"]["backward"]) or "seed" in trace


def _grouped(
    index: Index, order: list[int], opened: Collection[int] | None
) -> list[tuple[Item, tuple[int, ...]]]:
    """The items in the order in which each is complete, with their nodes in the order given."""
    members: dict[Item, list[int]] = {}
    for node in order:
        item = index.item(node, opened)
        nodes = members.pop(item, [])  # to the end: a scope is told when its last node ran
        nodes.append(node)
        members[item] = nodes
    return [(item, tuple(nodes)) for item, nodes in members.items()]


def _by_hand(frames: list[dict[str, Any]]) -> list[Frame]:
    total = {half: sum(_half(f["kind"]) == half for f in frames) for half in (0, 1, 2)}
    seen = {0: 0, 1: 0, 2: 0}
    made = []
    for f in frames:
        half = _half(f["kind"])
        seen[half] += 1
        nodes = () if f["kind"] in ("end", "note") else (f["node"],)
        made.append(
            Frame(
                f["kind"],
                f["node"],
                nodes,
                seen[half],
                total[half],
                f.get("title", ""),
                f.get("text", ""),
            )
        )
    return made


def _half(kind: str) -> int:
    return {"forward": 0, "seed": 1, "backward": 1}.get(kind, 2)


@dataclass
class State:
    """What is known after a frame.

    Attributes:
        frame, at: the frame and its number.
        known: the nodes that are computed.
        arrived: edge → number of the frame in which its contribution arrived.
        sent: the nodes whose rule ran.
        seeded: whether backward has begun.
    """

    frame: Frame
    at: int
    known: set[int] = field(default_factory=set)
    arrived: dict[int, int] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    seeded: bool = False


def state_at(index: Index, frames: list[Frame], at: int) -> State:
    """The state after frame `at`.

    Example:
        >>> from anabranch.inspection.frames import Index, frames_of, state_at
        >>> trace = {"nodes": [{"id": 0}], "edges": [], "root": 0,
        ...          "order": {"forward": [0], "backward": []}}
        >>> state_at(Index(trace), frames_of(trace), 0).known
        {0}
    """
    state = State(frames[at], at)
    for k, frame in enumerate(frames[: at + 1]):
        if frame.kind == "forward":
            state.known.update(frame.nodes)
        state.seeded |= frame.kind == "seed"
        if frame.kind == "backward":
            for node in frame.nodes:
                state.sent.add(node)
                for i in index.ins[node]:
                    if "contribution" in index.edges[i]:
                        state.arrived[i] = k
    return state


def ports_of(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a node; of most that is the node itself."""
    return node.get("outputs") or [node]


def awaited(index: Index, node: int, out: int | None = None) -> list[int]:
    """The edges that bring a contribution to a node, in the order in which backward walks them.

    Of a node with several outputs, `out` asks for one of them.
    """
    mine = [i for i in index.outs[node] if "contribution" in index.edges[i]]
    if out is not None:
        mine = [i for i in mine if index.edges[i].get("out", 0) == out]
    return sorted(
        mine, key=lambda i: (index.turn.get(index.edges[i]["to"], 0), index.edges[i]["slot"])
    )


def gradient(index: Index, state: State, node: int, out: int = 0) -> dict[str, Any] | None:
    """The gradient of an output of a node after a frame; None where nothing has arrived.

    What a big tensor holds between two contributions was not kept: then the summary is empty.
    """
    arms, port = awaited(index, node, out), ports_of(index.nodes[node])[out]
    here = [i for i in arms if i in state.arrived]
    at_root = state.seeded and node == index.trace["root"] and not out
    if not here and not at_root:
        return None
    if len(here) == len(arms) and "grad" in port:
        return dict(port["grad"])
    parts = [index.edges[i]["contribution"] for i in here]
    if at_root:
        parts.insert(0, index.trace.get("seed") or {"v": 1})
    if "before" in index.nodes[node]:
        parts.insert(0, index.nodes[node]["before"])
    return summed(parts)


def summed(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum of summaries that hold their elements; an empty summary if one does not."""
    if not all("v" in part for part in parts):
        return {}
    rows = [[number(e) for e in elements(part["v"])] for part in parts]
    if len({len(row) for row in rows}) != 1:
        return {}
    total = rows[0]
    for row in rows[1:]:
        total = [a + b for a, b in zip(total, row, strict=True)]
    return {"v": total if isinstance(parts[0]["v"], list) else total[0]}
