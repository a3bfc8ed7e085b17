"""What a legal graph is: one rule below another, run after each pass in tests.

A rule yields a sentence for each fault it finds. `check` raises with all of them and the listing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from anabranch.core.aval import aval_of
from anabranch.core.graph import Graph
from anabranch.core.leaves import CONSTANT, PARAMETER
from anabranch.core.node import Literal, Node
from anabranch.errors import AnabranchError, InternalError

Faults = Iterator[str]


def check(graph: Graph) -> None:
    """Raise InternalError `[illegal-graph]` when the graph breaks a rule.

    Later rules rely on what earlier ones found, so the first broken rule speaks alone.
    """
    for rule in RULES:
        faults = tuple(rule(graph))
        if faults:
            raise InternalError(
                "illegal-graph", f"{'; '.join(faults[:5])}\n\n{graph}", faults=faults
            )


def ids_are_positions(graph: Graph) -> Faults:
    for position, node in enumerate(graph.nodes):
        if node.id != position:
            yield f"node at position {position} has id {node.id}"


def nodes_know_their_graph(graph: Graph) -> Faults:
    for node in graph.nodes:
        if node.graph is not graph:
            yield f"{node.ref} belongs to another graph"


def is_acyclic(graph: Graph) -> Faults:
    for circle in circles(graph):
        refs = [node.ref for node in circle]
        names = " → ".join(refs if len(refs) <= 8 else [*refs[:5], "…", refs[-1]])
        yield (
            f"the nodes {names} form a circle, and a circle has no order to compute it in:"
            " unroll it, or iterate outside the graph"
        )


def circles(graph: Graph) -> Iterator[list[Node]]:
    """The nodes of each circle that a depth-first walk closes, the first one at both ends."""
    is_done: dict[int, bool] = {}  # missing: not seen; False: on the path; True: left
    for root in graph.nodes:
        path: list[Node] = []
        stack = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                is_done[id(node)] = True
                path.pop()
            elif is_done.get(id(node)) is False:
                start = next(i for i, one in enumerate(path) if one is node)
                yield [*path[start:], node][::-1]
            elif id(node) not in is_done:
                is_done[id(node)] = False
                path.append(node)
                stack.append((node, True))
                stack += [(e.node, False) for e in node.inputs if not isinstance(e, Literal)]


def inputs_come_before(graph: Graph) -> Faults:
    # Ids that rise along every edge are also the proof that there is no cycle.
    for node in graph.nodes:
        for slot, edge in enumerate(node.inputs):
            if isinstance(edge, Literal):
                continue
            source = edge.node
            if not source.id < node.id or graph.nodes[source.id] is not source:
                yield f"input {slot} of {node.ref} is not an earlier node of this graph"
            elif not 0 <= edge.index < len(source.avals):
                yield f"input {slot} of {node.ref} is an output that {source.ref} does not have"


def links_agree(graph: Graph) -> Faults:
    forward = Counter(
        (edge.node.id, node.id, slot)
        for node in graph.nodes
        for slot, edge in enumerate(node.inputs)
        if not isinstance(edge, Literal)
    )
    backward = Counter(
        (node.id, user.id, slot) for node in graph.nodes for user, slot in graph.consumers(node)
    )
    for edge in (forward - backward) + (backward - forward):
        yield f"the edge {edge} is known to one of its ends only"


def avals_follow_the_rule(graph: Graph) -> Faults:
    for node in graph.nodes:
        if node.op is PARAMETER:
            continue
        try:
            inferred = node.op.aval(*(edge.aval for edge in node.inputs), **node.attrs)
        except AnabranchError as error:
            yield f"{node.ref} breaks the rule of its op: {error.sentence}"
            continue
        if (inferred if isinstance(inferred, tuple) else (inferred,)) != node.avals:
            yield f"{node.ref} is {node.avals}, but its op infers {inferred}"


def parameters_are_listed(graph: Graph) -> Faults:
    found = [node for node in graph.nodes if node.op is PARAMETER]
    if sorted(p.id for p in graph.parameters) != [node.id for node in found]:
        yield "the list of parameters is not the parameter nodes"


def constants_are_frozen(graph: Graph) -> Faults:
    for node in graph.nodes:
        if node.op is CONSTANT:
            value = node.attrs["value"]
            if value.flags.writeable or aval_of(value) != node.avals[0]:
                yield f"the constant {node.ref} can change"


def outputs_belong(graph: Graph) -> Faults:
    for edge in graph.outputs:
        if edge.node.graph is not graph or not 0 <= edge.index < len(edge.node.avals):
            yield f"the output {edge!r} is not of this graph"


RULES = (
    ids_are_positions,
    nodes_know_their_graph,
    is_acyclic,
    inputs_come_before,
    links_agree,
    avals_follow_the_rule,
    parameters_are_listed,
    constants_are_frozen,
    outputs_belong,
)
