"""Finding a node by what its user calls it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from anabranch.errors import ArgumentError
from anabranch.inspection.numerals import fit
from anabranch.inspection.parts import Node
from anabranch.inspection.trace import Trace

_SHOWN, _WIDEST = 6, 40  # names, and columns of each


def named(trace: Trace, name: str) -> Node:
    """The node of this name, or the one that `#3` numbers.

    Raises:
        ArgumentError: `[unknown-name]`, or `[ambiguous-name]` where several nodes have it.
    """
    found = trace.find(name)
    if not found:
        raise unknown("node", name, [node.name for node in trace.nodes if node.name])
    if len(found) > 1:
        numbers = ", ".join(f"#{node.id}" for node in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise ArgumentError(
            "ambiguous-name",
            f"{len(found)} nodes are called {name!r}: {numbers}{more}",
            hint=f"#{found[0].id} names one of them",
        )
    return found[0]


def unknown(what: str, name: str, known: Iterable[str]) -> ArgumentError:
    """The error for a name that a trace does not have, with the closest one that it has."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, names, 1)
    some = ", ".join(fit(one, _WIDEST) for one in names[:_SHOWN]) + (
        ", ..." if len(names) > _SHOWN else ""
    )
    return ArgumentError(
        "unknown-name",
        f"no {what} is called {name!r}" + (f"; there are {some}" if names else ""),
        hint=f"did you mean {close[0]!r}?" if close else None,
    )
