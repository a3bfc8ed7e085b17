"""Loops that finish a product: they run over each block of its result as soon as that is made.

So what they read of it is still in a cache near by, and of every array that they walk through each
thread touches the part that it touches in products of that array.
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.backends.native.lowering import is_reduction
from anabranch.backends.native.products import time_in_blocks
from anabranch.backends.native.schedule import (
    Loop,
    Place,
    Product,
    Schedule,
    reads,
)

# ns of a product. Beside a longer one a loop of its own costs next to nothing, and walks straight
# through memory, which takes lines that no cache holds sooner than blocks do.
FINISHED_TO = 400_000.0


def finish(schedule: Schedule) -> None:
    """Join products with loops, and put the steps in order again."""
    products = {step.node.id: step for step in schedule.steps if isinstance(step, Product)}
    joined: set[int] = set()
    taken: set[int] = set()
    for number, product in products.items():
        loop = _loop_for(product, schedule)
        if loop is None or id(loop) in taken:
            continue
        others = joined & _sources(loop, schedule)
        if any(products[other].stage == product.stage for other in others):
            continue  # of products of one stage, those joined earlier wait for later ones only
        joined.add(number)
        taken.add(id(loop))
        product.finish = loop
    if joined:
        schedule.steps = schedule.ordered([s for s in schedule.steps if id(s) not in taken])


def _loop_for(product: Product, schedule: Schedule) -> Loop | None:
    """The loop that may run over each block of a product's result, if there is one."""
    node = product.node
    if len(node.avals[0].shape) != 2:
        return None
    time = time_in_blocks(node, schedule)
    if time is None or time > FINISHED_TO:
        return None
    readers = (schedule.home.get(reader.id) for reader, _ in schedule.graph.consumers(node))
    loops = {id(loop): loop for loop in readers if loop is not None}
    for loop in loops.values():
        if _fits(loop, product, schedule):
            return loop
    return None


def _fits(loop: Loop, product: Product, schedule: Schedule) -> bool:
    """Whether it runs over that result, and all else that it reads is made in time."""
    if loop.space != product.node.avals[0].shape:
        return False
    for node in loop.nodes:
        if is_reduction(node) or node.id in schedule.moved:
            return False
        key = (node.id, 0)
        if key in schedule.parts or key in schedule.wholes:
            return False
    made, views = (product.node.id, 0), []
    for place in _read(loop, schedule):
        if place.base == made:
            views.append(place.view)
        elif schedule.ready[place.base] > product.stage + 1:
            return False
    return bool(views) and all(view.is_whole and view.shape == loop.space for view in views)


def _read(loop: Loop, schedule: Schedule) -> Iterator[Place]:
    """What a loop that moves nothing reads from memory."""
    for edge in reads(loop):
        if schedule.home.get(edge.node.id) is not loop:
            yield schedule.places[edge.node.id, edge.index]


def _sources(loop: Loop, schedule: Schedule) -> set[int]:
    return {place.base[0] for place in _read(loop, schedule)}
