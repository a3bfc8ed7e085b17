"""Wrong engines: walks back of a few lines each that the library can be made to run on.

A walk has the signature of `diff.reverse.reverse`. `run_on` puts it in the place of the library's
own, so that every front end and every checker uses it.
"""

import operator
import random
import sys

import pytest

from anabranch.core.node import Literal
from anabranch.diff.reverse import reverse
from anabranch.diff.rules import pulled_back


def deliveries(step, ct, wanted):
    """(slot, source id, contribution) for each edge of a step that leads to what is wanted."""
    node, y, xs = step
    for slot, edge in enumerate(node.inputs):
        if type(edge) is not Literal and edge.node.id in wanted:
            part = pulled_back(node, slot, ct, y, xs, None, operator.mul)
            if part is not None:
                yield slot, edge.node.id, part


def in_one_sweep(arrive, order=reversed):
    """A walk over the steps in some order, in which `arrive` says what a contribution does."""

    def walk(steps, cts, wanted, observer=None):
        for step in order(steps):
            ct = cts.get(step.node.id)
            if ct is not None:
                for slot, source, part in deliveries(step, ct, wanted):
                    cts[source] = arrive(cts.get(source), part, slot)
        return cts

    return walk


def added(before, part, slot):
    return part if before is None else before + part


def last_one(before, part, slot):
    return part


def left_overwrites(before, part, slot):
    return part if slot == 0 else added(before, part, slot)


def as_discovered(steps):
    """Level by level from the result: a node comes when its first reader has, not its last."""
    by_id = {step.node.id: step for step in steps}
    queue = [steps[-1].node.id] if steps else []
    for number in queue:
        for edge in by_id[number].node.inputs:
            if type(edge) is not Literal and edge.node.id in by_id and edge.node.id not in queue:
                queue.append(edge.node.id)
        yield by_id[number]


def one_edge(steps, cts, wanted, observer=None):
    """Keeps the inputs of a node as a set, so that u*u has one edge to u."""
    for step in reversed(steps):
        ct = cts.get(step.node.id)
        if ct is not None:
            parts = {source: part for _, source, part in deliveries(step, ct, wanted)}
            for source, part in parts.items():
                cts[source] = added(cts.get(source), part, 0)
    return cts


def pushed_at_once(steps, cts, wanted, observer=None):
    """Recursion that goes on with the first contribution and into no node twice."""
    by_id, seen = {step.node.id: step for step in steps}, set()

    def push(number, ct):
        if number in seen or number not in by_id:
            return
        seen.add(number)
        for _, source, part in deliveries(by_id[number], ct, wanted):
            cts[source] = added(cts.get(source), part, 0)
            push(source, part)

    for number, ct in list(cts.items()):
        push(number, ct)
    return cts


def scaled_contributions(before, part, slot):
    """Right in every structure, wrong in every number: a tenth of a percent too much."""
    return added(before, part * 1.001, slot)


ENGINES = {
    "overwrites": in_one_sweep(last_one),
    "left operand overwrites": in_one_sweep(left_overwrites),
    "not reverse topological": in_one_sweep(added, as_discovered),
    "one edge for a square": one_edge,
    "recursion that pushes on at once": pushed_at_once,
    "slightly off": in_one_sweep(scaled_contributions),
}


def depth_first(steps):
    """A post-order, on a stack with marks for entering and leaving: inputs come first."""
    by_id = {step.node.id: step for step in steps}
    post, seen = [], set()
    stack = [(steps[-1].node.id, False)] if steps else []
    while stack:
        number, leaving = stack.pop()
        if leaving:
            post.append(by_id[number])
        elif number not in seen:
            seen.add(number)
            stack.append((number, True))
            for edge in by_id[number].node.inputs:
                if type(edge) is not Literal and edge.node.id in by_id:
                    stack.append((edge.node.id, False))
    return post


def shuffled(steps, seed):
    """The steps in another order in which inputs come first, as a tool that repeats would pick."""
    rng = random.Random(seed)
    by_id = {step.node.id: step for step in steps}
    needs = {
        number: {
            edge.node.id
            for edge in step.node.inputs
            if type(edge) is not Literal and edge.node.id in by_id
        }
        for number, step in by_id.items()
    }
    order, done = [], set()
    while len(order) < len(by_id):
        ready = [number for number in by_id if number not in done and needs[number] <= done]
        number = rng.choice(ready)
        done.add(number)
        order.append(by_id[number])
    return order


@pytest.fixture
def run_on(monkeypatch):
    """Make the library walk back with another function; with None, with its own again."""
    places = [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("anabranch.") and getattr(module, "reverse", None) is reverse
    ]
    assert len(places) > 3

    def put(walk=None):
        for module in places:
            monkeypatch.setattr(module, "reverse", walk or reverse)

    return put


@pytest.fixture
def engines():
    """Wrong walks by the name of their mistake."""
    return ENGINES


@pytest.fixture
def right_walk():
    """The library's own."""
    return reverse


@pytest.fixture
def post_order():
    """The steps in depth-first order."""
    return depth_first


@pytest.fixture
def answers_in_any_order(run_on):
    """All the gradients that a walk gives of a program when equal steps change places.

    One answer says nothing. Several are the signature of a contribution that was overwritten, for
    a sum does not care which of its terms comes first.
    """

    def answers(program, walk=reverse, repeats=20):
        found = set()
        for seed in range(repeats):

            def other(steps, cts, wanted, observer=None, seed=seed):
                return walk(shuffled(steps, seed), cts, wanted, observer)

            run_on(other)
            found.add(program())
        run_on()
        return found

    return answers
