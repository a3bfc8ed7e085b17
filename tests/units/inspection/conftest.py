"""Traces as plain data: the worked expression, and random graphs with scopes."""

import random

import pytest


def leaf(i, name, value, grad=None):
    node = {
        "id": i,
        "op": "input",
        "name": name,
        "scope": 0,
        "shape": [],
        "dtype": "float64",
        "formula": "",
        "value": {"v": value},
        "requires_grad": True,
        "at": [0, i + 1],
    }
    return node | ({} if grad is None else {"grad": {"v": grad}})


def op(i, name, kind, formula, value, grad):
    return leaf(i, name, value, grad) | {"op": kind, "formula": formula}


def edge(a, b, slot, local, sent):
    return {"from": a, "to": b, "slot": slot, "local": {"v": local}, "contribution": {"v": sent}}


@pytest.fixture
def story():
    """z = (x*y + x)² at (2, 3)."""
    return {
        "format": "anabranch-trace",
        "version": 1,
        "title": "z = (x·y + x)²",
        "root": 4,
        "seed": {"v": 1},
        "sources": [{"file": "story.py", "first": 1, "text": ["x", "y", "p", "s", "z"]}],
        "scopes": [{"id": 0, "name": "", "parent": None}],
        "nodes": [
            leaf(0, "x", 2, 64),
            leaf(1, "y", 3, 32),
            op(2, "p", "multiply", "{0} × {1}", 6, 16),
            op(3, "s", "add", "{0} + {1}", 8, 16),
            op(4, "z", "multiply", "{0} × {1}", 64, 1),
        ],
        "edges": [
            edge(0, 2, 0, 3, 48),
            edge(1, 2, 1, 2, 32),
            edge(2, 3, 0, 1, 16),
            edge(0, 3, 1, 1, 16),
            edge(3, 4, 0, 8, 8),
            edge(3, 4, 1, 8, 8),
        ],
        "order": {"forward": [0, 1, 2, 3, 4], "backward": [4, 3, 2]},
    }


def random_graph(seed, most=60):
    """Nodes with up to three inputs and six outputs, scalars and tensors, in nested scopes."""
    rng = random.Random(seed)
    n, scopes = rng.randint(1, most), rng.randint(1, 8)
    near = rng.choice([2, 5, 30])
    nodes = [
        {
            "id": i,
            "op": "input",
            "dtype": "float64",
            "shape": rng.choice([[], [2, 3]]),
            "scope": rng.randrange(scopes),
        }
        for i in range(n)
    ]
    edges = [
        {"from": rng.randrange(max(0, v - near), v), "to": v, "slot": slot}
        for v in range(1, n)
        for slot in range(rng.randint(0, 3))
    ]
    for node in nodes:
        if rng.random() < 0.2:
            node["outputs"] = [{"shape": rng.choice([[], [3]])} for _ in range(rng.randint(2, 6))]
    for one in edges:
        one["out"] = rng.randrange(len(nodes[one["from"]].get("outputs", "1")))
    inside = [{"id": i, "name": f"s{i}", "parent": rng.randrange(i)} for i in range(1, scopes)]
    return {
        "title": "random",
        "root": n - 1,
        "nodes": nodes,
        "edges": edges,
        "scopes": [{"id": 0, "name": "", "parent": None}, *inside],
        "order": {"forward": list(range(n)), "backward": []},
    }


@pytest.fixture
def random_graphs():
    """(trace, open scopes or None, whether it runs down) for so many seeds."""

    def make(count):
        for seed in range(count):
            rng = random.Random(-seed - 1)
            opened = rng.choice([None, [], [i for i in range(8) if rng.random() < 0.6]])
            yield random_graph(seed), opened, bool(rng.getrandbits(1))

    return make
