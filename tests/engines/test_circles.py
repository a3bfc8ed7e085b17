"""A graph with a circle cannot be made by public calls; one that was forced is recognised."""

import random

import numpy as np
import pytest

import anabranch as ab


def force(node, inputs):
    """What no public call does: give an existing node other inputs."""
    object.__setattr__(node, "inputs", inputs)


def chain(length):
    g = ab.Graph("ring")
    nodes = [g.parameter("x", (), ab.float64)]
    for _ in range(length):
        nodes.append(ab.sin(nodes[-1]))
    g.set_outputs([nodes[-1]])
    return g, nodes


def fault_of(graph):
    with pytest.raises(ab.InternalError, match="illegal-graph") as caught:
        ab.check(graph)
    return caught.value.details["faults"]


@pytest.mark.proves("S1-55")
@pytest.mark.parametrize("first, last", [(1, 1), (1, 2), (2, 5), (1, 7)])
def test_a_circle_is_named_node_by_node(first, last):
    g, nodes = chain(7)
    force(nodes[first], (nodes[last],))
    (fault,) = fault_of(g)
    ring = [f"#{i}" for i in range(first, last + 1)]
    named = fault.split("the nodes ")[1].split(" form")[0].split(" → ")
    assert named[0] == named[-1]
    assert sorted(named[:-1]) == sorted(ring)
    turns = named[:-1].index(ring[0])
    assert named[turns:-1] + named[:turns] == ring  # in the direction in which data would flow


@pytest.mark.proves("S1-56")
def test_the_error_says_that_a_circle_has_no_order_and_what_to_do():
    g, nodes = chain(3)
    force(nodes[1], (nodes[3],))
    (fault,) = fault_of(g)
    assert "a circle has no order to compute it in" in fault
    assert "unroll it, or iterate outside the graph" in fault


@pytest.mark.proves("S1-55")
def test_a_circle_at_the_end_of_a_long_chain_is_found_without_recursion():
    g, nodes = chain(5_000)
    force(nodes[2], (nodes[4_999],))
    (fault,) = fault_of(g)
    assert "#2" in fault and "… →" in fault
    assert len(fault) < 250


def random_graph(seed):
    rng = random.Random(seed)
    g = ab.Graph("random")
    nodes = [g.parameter(f"x{i}", (), ab.float64) for i in range(rng.randint(1, 3))]
    for _ in range(rng.randint(1, 20)):
        a, b = rng.choice(nodes), rng.choice(nodes)
        nodes.append(rng.choice([ab.add, ab.multiply, ab.maximum])(a, b))
    g.set_outputs([nodes[-1]])
    return g


@pytest.mark.proves("S1-55")
def test_a_thousand_graphs_without_a_circle_raise_no_alarm():
    for seed in range(1_000):
        ab.check(random_graph(seed))


@pytest.mark.proves("S1-55")
def test_a_diamond_is_no_circle():
    g = ab.Graph("diamond")
    x = g.parameter("x", (2,), ab.float64)
    left, right = x * 2.0, x * 3.0
    g.set_outputs([left + right + left])
    ab.check(g)
    assert g.compile(g.outputs[0])(np.ones(2)).tolist() == [7.0, 7.0]
