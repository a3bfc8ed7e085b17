"""Rows: layers, their order, lanes, ports, tags."""

import itertools

import pytest

from anabranch.inspection.frames import Index
from anabranch.inspection.rows import CROWD, LANES, layout, legs


def test_the_worked_expression(story):
    assert layout(story)["0"] == {
        "items": [0, 1, 2, 3, 4],
        "rows": [[0, 1], [5, 2], [3], [4]],
        "chains": [[0, 2], [1, 2], [2, 3], [0, 5, 3], [3, 4], [3, 4]],
        "edges": [[0], [1], [2], [3], [4], [5]],
        "tags": {},
    }


@pytest.mark.slow
def test_every_item_and_lane_stands_in_one_row_and_chains_go_row_by_row(random_graphs):
    for trace, _, _ in random_graphs(200):
        for made in layout(trace).values():
            row = {x: r for r, row in enumerate(made["rows"]) for x in row}
            assert sorted(row) == list(range(sum(map(len, made["rows"]))))
            assert len(made["items"]) + sum(len(c) - 2 for c in made["chains"]) == len(row)
            for chain in made["chains"]:
                steps = {row[b] - row[a] for a, b in itertools.pairwise(chain)}
                assert steps <= {1} or steps <= {-1}


def test_every_edge_has_its_way_through_the_scopes(random_graphs):
    for trace, _, _ in random_graphs(100):
        index, made = Index(trace), layout(trace)
        for i, edge in enumerate(trace["edges"]):
            for scope, a, b in legs(index, edge["from"], edge["to"]):
                room = made[str(scope)]
                ends = [
                    (room["items"][chain[0]], room["items"][chain[-1]])
                    for chain, edges in zip(room["chains"], room["edges"], strict=True)
                    if i in edges
                ]
                tagged = edge["from"] in room["tags"].get(str(b), [])
                assert (a, b) in ends or tagged


def test_lines_never_go_up_in_a_graph_without_scopes(random_graphs):
    for trace, _, _ in random_graphs(100):
        made = layout(
            trace | {"scopes": []} | {"nodes": [n | {"scope": 0} for n in trace["nodes"]]}
        )
        rows = {x: r for r, row in enumerate(made["0"]["rows"]) for x in row}
        assert all(rows[c[0]] < rows[c[-1]] for c in made["0"]["chains"])


def test_scopes_that_need_each_other_are_cut_where_the_older_one_is():
    nodes = [{"id": i, "scope": 1 + i % 2, "shape": []} for i in range(4)]
    edges = [{"from": i, "to": i + 1, "slot": 0} for i in range(3)]
    scopes = [{"id": i, "name": "", "parent": 0 if i else None} for i in range(3)]
    made = layout({"nodes": nodes, "edges": edges, "scopes": scopes})
    assert made["0"]["items"] == ["s1", "s2"]
    assert made["0"]["chains"] == [[0, 1], [1, 0], [0, 1]]


def test_values_cross_borders_through_ports():
    nodes = [{"id": i, "scope": 1 if i == 1 else 0, "shape": []} for i in range(3)]
    edges = [{"from": 0, "to": 1, "slot": 0}, {"from": 1, "to": 2, "slot": 0}]
    scopes = [{"id": 0, "name": "", "parent": None}, {"id": 1, "name": "a", "parent": 0}]
    made = layout({"nodes": nodes, "edges": edges, "scopes": scopes})
    assert made["0"]["items"] == [0, "s1", 2]
    assert made["1"]["items"] == [1, "in0", "out1"]
    assert made["1"]["rows"] == [[1], [0], [2]]


def test_two_edges_between_cards_are_two_lines_and_into_a_box_one(story):
    assert layout(story)["0"]["chains"].count([3, 4]) == 2
    story["scopes"].append({"id": 1, "name": "square", "parent": 0})
    story["nodes"][4]["scope"] = 1
    made = layout(story)
    assert made["0"]["edges"].count([4, 5]) == 1
    assert [made["1"]["items"][c[-1]] for c in made["1"]["chains"]] == [4, 4]


def test_a_leaf_that_many_read_is_a_tag_in_a_crowd():
    n = CROWD + 2
    star = {
        "nodes": [{"id": i, "shape": []} for i in range(n)],
        "edges": [{"from": 0, "to": i, "slot": 0} for i in range(1, n)],
    }
    made = layout(star)["0"]
    assert made["chains"] == [] and made["tags"]["1"] == [0] and 0 in made["items"]
    star["nodes"].pop()
    star["edges"].pop()
    star["nodes"].pop()
    star["edges"].pop()
    assert len(layout(star)["0"]["chains"]) == CROWD - 1


def test_lanes_are_bounded_whatever_the_graph():
    n = 600  # a forward pass and the backward pass that reads it: long lines everywhere
    edges = [{"from": i, "to": i + 1, "slot": 0} for i in range(n - 1)]
    edges += [{"from": i, "to": n - 1 - i, "slot": 1} for i in range(n // 2 - 1)]
    made = layout({"nodes": [{"id": i, "shape": []} for i in range(n)], "edges": edges})["0"]
    assert sum(len(c) - 2 for c in made["chains"]) <= LANES * n + CROWD
    assert made["tags"]


@pytest.mark.slow
def test_a_long_chain_needs_no_recursion(low_recursion_limit):
    n = 5000
    edges = [{"from": i, "to": i + 1, "slot": 0} for i in range(n - 1)]
    deep = [{"id": i, "name": "", "parent": i - 1 if i else None} for i in range(3000)]
    nodes = [{"id": i, "shape": [], "scope": min(i, 2999)} for i in range(n)]
    assert len(layout({"nodes": nodes, "edges": edges})["0"]["rows"]) == n
    assert layout({"nodes": nodes, "edges": edges, "scopes": deep})
