"""Products and sums rounded once: what `ab.config(contract=True)` allows.

A product that nothing but one sum or difference of its loop reads is no value of its own then. The
choice follows from the nodes of the loop, so every vector, the last one too, has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from anabranch.backends.native.emit import F32, F64, Val
from anabranch.backends.native.mathematics import Mathematics
from anabranch.core.node import Literal

PRODUCT = "multiply"  # what a record names as its code
Rounded = Callable[[Mathematics, Val, Val, Val], Val]


def _product_less(e: Mathematics, x: Val, y: Val, z: Val) -> Val:
    return e.fma(x, y, e.negative(z))


def _less_product(e: Mathematics, x: Val, y: Val, z: Val) -> Val:
    return e.fma(e.negative(x), y, z)


# By what a sum's record names as its code: how it takes up a product x * y at each of its places,
# with z at the other.
SUMS: dict[str, tuple[Rounded, Rounded]] = {
    "add": (Mathematics.fma, Mathematics.fma),
    "subtract": (_product_less, _less_product),
}


class TakenUp(NamedTuple):
    """A product that a sum takes up.

    Attributes:
        product: its node.
        place: at which place of the sum it stands.
    """

    product: Any
    place: int


def taken_up(nodes: Iterable[Any], moved: Mapping[int, Any], stored: Any) -> dict[int, TakenUp]:
    """By sum, the product that it takes up: the first one that nothing else in the loop reads."""
    nodes = [node for node in nodes if node.id not in moved]
    products = {
        node.id: node
        for node in nodes
        if node.op.scalar == PRODUCT and (node.id, 0) not in stored and _is_float(node)
    }
    readers: dict[int, int] = {}
    for node in nodes:
        for edge in node.inputs:
            if not isinstance(edge, Literal):
                readers[edge.node.id] = readers.get(edge.node.id, 0) + 1
    found = {}
    for node in nodes:
        if node.op.scalar not in SUMS or not _is_float(node):
            continue
        for place, edge in enumerate(node.inputs):
            product = None if isinstance(edge, Literal) else products.get(edge.node.id)
            if product is None or readers[product.id] > 1:
                continue
            if edge.aval.dtype == node.avals[0].dtype:
                found[node.id] = TakenUp(product, place)
                break
    return found


def _is_float(node: Any) -> bool:
    """Whether it is computed in its own dtype: halves would be rounded once more."""
    return node.avals[0].dtype in (F32, F64)


def contracted(e: Mathematics, node: Any, taken: TakenUp, operand: Callable[[Any], Val]) -> Val:
    """The sum, rounded once."""
    dtype = node.avals[0].dtype
    x, y = (e.convert(operand(edge), dtype) for edge in taken.product.inputs)
    z = e.convert(operand(node.inputs[1 - taken.place]), dtype)
    return SUMS[node.op.scalar][taken.place](e, x, y, z)
