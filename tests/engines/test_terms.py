"""What the words and modes of the library promise, held against what it does."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import anabranch as ab

DOCS = Path(__file__).parents[2] / "docs"


def section(page, heading):
    """The text below a heading of a page, up to the next of the same level."""
    text = (DOCS / page).read_text(encoding="utf-8")
    assert f"\n## {heading}\n" in text
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


# One mode for each entry point.


MODES = {
    ab.Tensor.backward: "accumulates",
    ab.Tensor.backward_fresh: "clears first",
}


@pytest.mark.proves("S1-50")
@pytest.mark.parametrize("entry", MODES, ids=lambda f: f.__name__)
def test_each_entry_point_states_its_mode(entry):
    modes = [line for line in inspect.getdoc(entry).splitlines() if line.startswith("Mode: ")]
    assert len(modes) == 1
    assert MODES[entry] in modes[0]


@pytest.mark.proves("S1-50")
@pytest.mark.parametrize("state", ["new", "filled", "zeroed", "set by hand", "none again"])
def test_no_entry_point_adds_in_one_state_and_clears_in_another(state):
    for entry, adds in ((ab.Tensor.backward, True), (ab.Tensor.backward_fresh, False)):
        x = ab.tensor(3.0, requires_grad=True)
        z = x * x
        before = 0.0
        if state == "filled":
            z.backward()
            before = 6.0
        elif state == "zeroed":
            x.zero_grad()
        elif state == "set by hand":
            x.grad = np.array(10.0)
            before = 10.0
        elif state == "none again":
            z.backward()
            x.grad = z.grad = None
        entry(z)
        assert float(x.grad) == (before + 6.0 if adds else 6.0)


@pytest.mark.proves("S1-50")
def test_transforms_neither_add_nor_clear():
    x = ab.tensor(3.0, requires_grad=True)
    x.grad = np.array(10.0)
    z = x * x
    for _ in range(2):
        assert float(ab.grad(lambda x: x * x)(x).detach()) == 6.0
        assert float(ab.gradients(z, [x])[0].detach()) == 6.0
    assert float(x.grad) == 10.0


# A value that changed.


@pytest.mark.proves("S1-42")
def test_a_needed_value_that_changed_is_refused_by_name_with_what_was_kept_and_where():
    w = ab.tensor([1.0, 2.0], requires_grad=True, name="weights")
    z = ab.sum(w * w)
    w.data[:] = 5.0
    with pytest.raises(ab.StaleValueError) as caught:
        z.backward()
    error = caught.value
    assert "weights" in error.sentence and "multiply" in error.sentence
    kept, changed, needed = error.facts
    assert kept.endswith("z = ab.sum(w * w)")
    assert changed.endswith("w.data[:] = 5.0")
    assert needed.startswith("needed")


@pytest.mark.proves("S1-42")
def test_each_program_relies_on_the_version_it_read():
    w = ab.tensor([1.0, 2.0], requires_grad=True)
    first = ab.sum(w * w)
    w.data[:] = 5.0
    second = ab.sum(w * w)
    with pytest.raises(ab.StaleValueError):
        first.backward()
    second.backward()
    assert w.grad.tolist() == [10.0, 10.0]


@pytest.mark.proves("S0-36")
def test_the_derivative_of_relu_needs_its_mask_and_not_its_input():
    x = ab.tensor([-2.0, 1.0, 3.0], requires_grad=True)
    z = ab.sum(ab.relu(x) * 2.0)
    x.data[:] = [7.0, -7.0, -7.0]
    z.backward()
    assert x.grad.tolist() == [0.0, 2.0, 2.0]


# Two vocabularies for the same edges.


@pytest.mark.proves("S0-46")
def test_creators_and_inputs_children_and_consumers_are_the_same_edges():
    a = ab.tensor(2.0, requires_grad=True, name="a")
    b = ab.tensor(3.0, requires_grad=True, name="b")
    values = [a * b]
    values += [values[0] + a, ab.exp(values[0])]
    values.append(values[1] * values[2])
    values.append(values[3] * values[3])
    edges = set()
    for value in values:
        op, operands = value.creator
        assert op == value.node.op.name
        assert [t is e for t, e in zip(operands, value.node.inputs, strict=True)] == [True] * len(
            operands
        )
        edges |= {(id(t.node), id(value.node), slot) for slot, t in enumerate(operands)}
    assert len(edges) == 9
    assert a.creator is None

    graph = ab.graph(values[-1])
    forward = [
        (edge.node.id, node.id, slot) for node in graph for slot, edge in enumerate(node.inputs)
    ]
    backward = [(node.id, child.id, slot) for node in graph for child, slot in node.consumers]
    assert sorted(forward) == sorted(backward)
    assert len(forward) == 9


@pytest.mark.proves("S0-46")
def test_the_words_for_them_are_explained_together():
    words = section("graphs.md", "The words")
    assert "Inputs and consumers are the same edges" in words
    assert "`creator`" in words and "*children*" in words


# Which way to build.


@pytest.mark.proves("S4-26")
def test_a_table_says_which_way_of_building_suits_what():
    rows = [
        line.split("|")[1:3]
        for line in section("graphs.md", "Which way when").splitlines()
        if line.startswith("| ")
    ]
    table = {want.strip(): way.strip() for want, way in rows}
    assert len(table) >= 6

    def way_to(word):
        return next(way for want, way in table.items() if word in want)

    assert way_to("everyday model").startswith("functional")
    assert all(way_to(word).startswith("by hand") for word in ("branches", "names", "one part"))


@pytest.mark.proves("S4-11")
@pytest.mark.parametrize("heading", ["A branch on a setting", "A part used in several places"])
def test_both_reasons_to_know_the_graph_have_a_recipe_that_runs(heading):
    """The page itself is run by tests/surface/test_docs.py."""
    recipe = section("graphs.md", heading)
    assert "ab.Graph(" in recipe
    assert recipe.count(">>>") >= 5


# The core does not know of networks.


@pytest.mark.proves("S0-03")
def test_a_program_that_is_no_network_is_differentiated_written_out_and_rewritten():
    """How far a throw goes: its derivative by the angle, as numbers and as a graph."""

    def reach(angle):
        return 2.0 * 30.0 * ab.sin(angle) * ab.cos(angle) * 30.0 / 9.81

    slope = ab.grad(reach)
    assert float(slope(np.pi / 4)) == pytest.approx(0.0, abs=1e-12)
    assert float(slope(0.3)) == pytest.approx(2 * 900.0 / 9.81 * np.cos(0.6), rel=1e-14)

    def products_turned_round(graph):
        """A rewriting of one's own: every product with its operands exchanged."""

        def replace(rewrite, node, inputs):
            if node.op.name != "multiply":
                return None
            rewrite.report.append(f"exchanged the operands of {node.ref}")
            a, b = (getattr(one, "value", one) for one in inputs)  # a literal has a value
            return b * a

        return ab.passes.copied(graph, graph.nodes, replace)

    plain = ab.compile(slope, passes=())
    turned = ab.compile(slope, passes=(products_turned_round,))
    for angle in (0.1, 0.3, 1.2):
        assert float(turned(angle)) == pytest.approx(float(plain(angle)), rel=1e-12)
    before, after = (f.program(0.3).optimised for f in (plain, turned))
    assert ab.structure_hash(before) != ab.structure_hash(after)
    (report,) = turned.program(0.3).reports
    assert report.name == "products_turned_round"
    assert report.changes
