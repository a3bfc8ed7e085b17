"""How large the gradients of the same leaf were in the passes before."""

from __future__ import annotations

import weakref
from collections import Counter, deque
from typing import Any

from anabranch.core.node import Node
from anabranch.inspection.record import Entry, Record
from anabranch.inspection.summary import norm

STEPS = 32  # passes that are remembered, the newest among them
_Sizes = deque[float]
_Known = tuple[weakref.ref[Node], _Sizes]


class History:
    """Remembers the norms of gradients from record to record.

    A leaf that lives on, as weights do, is known again by itself.  One that is made anew for each
    pass, as arguments of `ab.grad` are, goes on with the one that was made at the same place under
    the same name, if there is no other and that one has ended: two models of one class stay two.
    """

    def __init__(self) -> None:
        self._own: dict[int, _Known] = {}  # by identity
        self._last: dict[Any, _Known] = {}  # by origin

    def note(self, record: Record) -> None:
        """Tell the leaves of a record what was before, and remember what they got."""
        leaves = [e for e in record.entries if e.is_leaf and e.grads and e.grads[0] is not None]
        alike = Counter(map(_origin, leaves))
        self._own = {key: one for key, one in self._own.items() if one[0]() is not None}
        for entry in leaves:
            sizes = self._sizes(entry, alike[_origin(entry)] == 1)
            entry.earlier = tuple(sizes)[-(STEPS - 1) :]
            sizes.append(norm(entry.grads[0]))

    def _sizes(self, entry: Entry, alone: bool) -> _Sizes:
        node, origin = entry.node, _origin(entry)
        own, last = self._own.get(id(node)), self._last.get(origin)
        if own is not None and own[0]() is node:
            sizes = own[1]
        elif last is not None and last[0]() is None and alone:
            sizes = last[1]
        else:
            sizes = deque(maxlen=STEPS)
        self._own[id(node)] = self._last[origin] = weakref.ref(node), sizes
        return sizes


def _origin(entry: Entry) -> Any:
    """Where a leaf was made, and as what."""
    node = entry.node
    return node.raw_source, entry.name or entry.variable, node.avals[0]
