"""`stabilise`: naive spellings become the stable ones, before they are differentiated.

The value stays within rounding wherever the spelling could hold it. Its derivatives gain most, as
what overflowed on the way is not formed any more.
"""

from __future__ import annotations

from anabranch.core.graph import Graph
from anabranch.passes.exponentials import RULES as _OF_EXPONENTIALS
from anabranch.passes.lengths import RULES as _OF_LENGTHS
from anabranch.passes.rewrite import Rewrite
from anabranch.passes.rules import rewritten

RULES = (*_OF_EXPONENTIALS, *_OF_LENGTHS)


def stabilise(graph: Graph) -> Rewrite:
    """Apply the rows of `RULES`: sigmoid, softplus, softmax, logsumexp, norms and half powers."""
    return rewritten(graph, RULES)
