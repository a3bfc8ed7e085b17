"""The story: its frames in order, what is known in each, and sums that grow as shares come."""

import os
from pathlib import Path

import numpy as np
import pytest

import anabranch as ab
from anabranch.commands import program
from anabranch.inspection.parts import Edge, Local, Node, Order, Summary
from anabranch.inspection.story import FEW, added, story
from anabranch.inspection.trace import Trace

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def worked() -> ab.Report:
    here = Path.cwd()
    os.chdir(ROOT / "examples")
    try:
        report = program.report_of("story.py", None, ())
        assert report.trace
        return report
    finally:
        os.chdir(here)


def gradients_of(report: ab.Report, name: str) -> list[float | None]:
    """What each frame knows of the gradient of a node."""
    rows = [next(row for row in b.rows if row.name == name) for b in report.story().blocks]
    return [None if row.grad is None else row.grad.v for row in rows]


@pytest.mark.proves("S1-35")
def test_the_frames_of_the_worked_example(worked: ab.Report) -> None:
    blocks = worked.story().blocks
    assert [(b.phase, b.part, b.of, b.name) for b in blocks] == [
        *(("Forward", i, 5, name) for i, name in enumerate("xypsz", 1)),
        *(("Backward", i, 4, name) for i, name in enumerate("zzsp", 1)),
        ("Result", 1, 1, "z"),
    ]


@pytest.mark.proves("S1-36")
def test_the_gradient_of_x_grows_from_none_to_16_to_64(worked: ab.Report) -> None:
    assert gradients_of(worked, "x") == [*[None] * 7, 16, 64, 64]
    assert gradients_of(worked, "y") == [*[None] * 8, 32, 32]
    assert gradients_of(worked, "s") == [*[None] * 6, 16, 16, 16, 16]
    assert gradients_of(worked, "z") == [*[None] * 5, 1, 1, 1, 1, 1]


@pytest.mark.proves("S1-36", "S1-40")
def test_what_each_frame_delivers_and_the_sum_that_it_joins(worked: ab.Report) -> None:
    names = worked.story().names
    told = [
        (names[one.to], one.upstream.v, one.local.v, one.amount.v,
         None if one.before is None else one.before.v, one.after.v)
        for block in worked.story().blocks for one in block.deliveries
    ]  # fmt: skip
    assert told == [
        ("s", 1, 8, 8, None, 8), ("s", 1, 8, 8, 8, 16),
        ("p", 16, 1, 16, None, 16), ("x", 16, 1, 16, None, 16),
        ("x", 16, 3, 48, 16, 64), ("y", 16, 2, 32, None, 32),
    ]  # fmt: skip


@pytest.mark.proves("S1-39")
def test_forward_frames_give_the_local_derivatives(worked: ab.Report) -> None:
    partials = [
        (block.name, worked.story().names[one.by], one.local.v)
        for block in worked.story().blocks for one in block.partials
    ]  # fmt: skip
    assert partials == [
        *(("p", "x", 3), ("p", "y", 2), ("s", "p", 1), ("s", "x", 1), ("z", "s", 8), ("z", "s", 8))
    ]


def test_pips_count_what_has_arrived(worked: ab.Report) -> None:
    pips = [
        next((row.arrived, row.of) for row in block.rows if row.name == "x")
        for block in worked.story().blocks
    ]
    assert pips == [*[(0, 2)] * 7, (1, 2), (2, 2), (2, 2)]


def test_values_are_known_from_their_frame_on(worked: ab.Report) -> None:
    known = [[row.is_known for row in block.rows] for block in worked.story().blocks]
    for i in range(5):
        assert known[i] == [True] * (i + 1) + [False] * (4 - i)
    assert all(all(frame) for frame in known[5:])


def test_every_frame_has_its_line(worked: ab.Report) -> None:
    lines = [block.line for block in worked.story().blocks]
    assert lines[2] == ["story.py:7", "p = x * y"]
    assert lines[8] == ["story.py:7", "p = x * y"]
    assert lines[-1] is None


def test_each_contribution_alone(worked: ab.Report) -> None:
    blocks = worked.story(each_edge=True).blocks
    assert len(blocks) == 13
    sums = [one.after.v for block in blocks for one in block.deliveries]
    assert sums == [8, 16, 16, 16, 64, 32]
    assert all(len(block.deliveries) <= 1 for block in blocks)


def test_without_a_backward_pass_the_story_ends_after_forward() -> None:
    x = ab.tensor(2.0, requires_grad=True, name="x")
    told = ab.inspect(x * x, backward=False).story()
    assert [block.kind for block in told.blocks] == ["forward", "forward"]
    assert "gradient ·" in str(told)


def test_one_node_without_an_edge() -> None:
    told = ab.inspect(ab.tensor(2.0, requires_grad=True, name="x")).story()
    assert "x is given" in str(told)


def net(scoped: bool = True) -> ab.Report:
    x = ab.tensor(np.ones((2, 3)), requires_grad=True, name="x")
    h = x
    for i in range(20):
        with ab.scope(f"block{i}" if scoped else "all"):
            h = ab.tanh(h * 0.5) + 0.1
    return ab.inspect(h.sum())


def test_in_a_long_story_a_scope_is_one_frame_and_can_be_opened() -> None:
    report = net()
    blocks = report.story().blocks
    assert len(report.trace.nodes) > 40
    assert [b.name for b in blocks if b.kind == "forward"][1:4] == ["block0", "block1", "block2"]
    assert [len(b.nodes) for b in blocks if b.kind == "forward"][1:4] == [3, 3, 3]
    assert "block3 ran: 3 nodes" in str(report.story())
    assert not [b for b in blocks if len(b.nodes) > 1 and b.deliveries and len(b.rows) > 4]
    inner = report.story(scope="block3").blocks
    assert [b.kind for b in inner] == [*["forward"] * 3, *["backward"] * 3, "end"]
    with pytest.raises(ab.ArgumentError) as caught:
        report.story(scope="blck3")
    assert caught.value.hint == "did you mean 'block3'?"


def test_of_many_nodes_a_block_shows_those_that_it_is_about() -> None:
    report = net(scoped=False)
    for block in report.story().blocks:
        assert 1 <= len(block.rows) <= 2 * FEW
    for block in report.story(scope="all").blocks:
        assert 1 <= len(block.rows) <= 4


def test_the_followed_node_is_in_every_block() -> None:
    report = net()
    number = next(n.id for n in report.trace.nodes if n.op == "tanh")
    told = report.story(node=f"#{number}")
    assert told.followed == number
    assert all(number in [row.id for row in block.rows] for block in told.blocks)
    with pytest.raises(ab.ArgumentError, match="unknown-name"):
        report.story(node="nosuch")


@pytest.mark.proves("S1-62")
def test_one_teller_serves_the_scalar_and_the_network(worked: ab.Report) -> None:
    here = Path.cwd()
    os.chdir(ROOT / "examples")
    try:
        network = program.report_of("mlp.py", None, ()).story()
    finally:
        os.chdir(here)
    scalar = worked.story()
    assert type(network) is type(scalar)
    kinds = [block.kind for block in network.blocks]
    assert kinds.count("forward") == 22
    assert kinds.count("seed") == kinds.count("end") == 1
    # Readers pass on before what they read does, in the network as in the scalar.
    for told in (network, scalar):
        sent = [block.nodes[0] for block in told.blocks if block.kind == "backward"]
        assert sent == sorted(sent, reverse=True)
    final = {row.name: row.grad for row in network.blocks[-1].rows}
    assert final["layer1.W"].v is not None


def test_sums_of_arrays_are_told_where_their_elements_are_known() -> None:
    assert added(Summary(v=[1.0, 2.0]), Summary(v=[3.0, 4.0])).v == [4.0, 6.0]
    assert added(Summary(v=1.0), Summary(v=2.0)).v == 3.0
    assert added(Summary(n=100, norm=2.0), Summary(v=2.0)) is None
    assert added(None, Summary(v=2.0)) is None
    assert added(Summary(v=[1.0]), Summary(v=[1.0, 2.0])) is None


def test_a_sum_grows_with_each_of_three_contributions() -> None:
    x = ab.tensor(np.ones(2), requires_grad=True, name="x")
    told = ab.inspect((x * 2.0 + x * 3.0 + x * np.array([4.0, 5.0])).sum()).story()
    sums = [one.after.v for block in told.blocks for one in block.deliveries if one.to == 0]
    assert sums == [[4.0, 5.0], [7.0, 8.0], [9.0, 10.0]]


def test_a_big_sum_is_not_guessed_before_its_last_part() -> None:
    x = ab.tensor(np.ones(100), requires_grad=True, name="x")
    told = ab.inspect((x * 2.0 + x).sum()).story()
    rows = [next(row for row in block.rows if row.name == "x") for block in told.blocks]
    partial = next(row for row in rows if (row.arrived, row.of) == (1, 2))
    assert partial.grad is not None  # the first alone is what was sent
    assert rows[-1].grad.norm == 30.0


def test_negative_contributions_are_subtracted_in_words() -> None:
    x = ab.tensor(2.0, requires_grad=True, name="x")
    assert "-1 + 3 = 2" in str(ab.inspect(x * 3.0 - x).story())
    y = x * 1.0
    assert "3 - 1 = 2" in str(ab.inspect(-y + x * 3.0).story())


HOSTILE = ["\x1b[31m", "a\nb", "\u202e", "x" * 300, "</script>", "{0}", "损失"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_do_not_act(name: str) -> None:
    nodes = [
        Node(0, "input", [], "float64", name=name, value=Summary(v=2.0), grad=Summary(v=3.0)),
        Node(1, name, [], "float64", name=name, formula="{0} × 3", value=Summary(v=6.0),
             grad=Summary(v=1.0)),
    ]  # fmt: skip
    edge = Edge(0, 1, 0, local=Local(v=3.0, text=name), contribution=Summary(v=3.0))
    trace = Trace(
        root=1, nodes=nodes, edges=[edge], order=Order([0, 1], [1]), title=name,
        seed=Summary(v=1.0),
    )  # fmt: skip
    report = ab.Report(None, trace=trace)
    for one in (story(trace), report.table(), report.table(edges=True), report.grads()):
        text = str(one)
        assert all(letter.isprintable() or letter == "\n" for letter in text)
        assert all(len(line) <= 100 for line in text.splitlines())
