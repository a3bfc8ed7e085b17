"""A graph from its listing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.core.entry import boundary
from anabranch.core.parse import read
from anabranch.frontends.manual import Graph


@boundary
def parse(text: str, constants: Iterable[Any] = ()) -> Graph:
    """The graph of a listing, ready to compile: `parse(str(graph))` has the structure of `graph`.

    Nothing in the text is executed: ops are looked up by name and infer their results anew.

    Args:
        text: what `str(graph)` or `ab.listing(graph)` gives. Names come back; scopes and source
            lines do not, and nodes are written at their line of the listing.
        constants: the arrays that the listing gives by length and digest, in any order.

    Raises:
        GraphError: `[bad-listing]`, with the number of the line.

    Example:
        >>> import anabranch as ab
        >>> g = ab.parse('''graph "line": 3 nodes, 1 parameter
        ... #0 parameter "x" : f64[2]
        ... #1 multiply(#0, 2.0) : f64[2]
        ... #2 "y" = add(#1, 1.0) : f64[2]
        ... outputs #2''')
        >>> g.compile(*g.outputs)([1.0, 2.0])
        array([3., 5.])
    """
    return read(text, constants, Graph)
