"""Operations with several outputs: every output has a value, a gradient and a sum of its own."""

import json

import numpy as np
import pytest

import anabranch as ab
from anabranch.inspection import reader
from anabranch.inspection.coords import card_height
from anabranch.inspection.frames import Index, frames_of, gradient, state_at

pytestmark = pytest.mark.usefixtures("noiseless")


def logarithm(x):
    _, l = ab.linalg.slogdet(x)  # noqa: E741
    y = l * 2.0 + l * l
    return y


def eigen(x):
    w, v = ab.linalg.eigh(x)
    y = ab.sum(w * w) + ab.sum(v * v * v)
    return y


MATRIX = np.array([[2.0, 1.0], [1.0, 3.0]])
LOG = np.log(5.0)


def looked(f=logarithm):
    return ab.inspect(f, MATRIX)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_each_output_has_its_own_gradient(is_loaded):
    report = looked()
    if is_loaded:
        report = ab.Report(None, trace=reader.parsed(report.trace.to_json()))
    told = report.why("#1")
    assert told.kind == "gradient"
    assert [share.out for share in told.finding.shares] == [1, 1, 1]
    assert np.isclose(sum(share.amount.v for share in told.finding.shares), 2 + 2 * LOG)
    assert str(told).splitlines()[0] == "#1   gradient none (output 0), 5.219 (output 1)"
    assert all(path.factors is None for path in told.finding.paths)


def test_a_table_has_a_row_for_each_output():
    rows = looked().table().rows
    assert [(row.name, row.id, row.out, row.gradient) for row in rows[1:3]] == [
        ("#1.0", 1, 0, "none"),
        ("#1.1", 1, 1, "arrived"),
    ]
    assert [share.through for share in rows[2].contributions] == ["#3", "#3", "#2"]
    assert rows[1].contributions == [] and rows[1].out == 0
    assert rows[0].out is None
    edges = looked().table(edges=True).rows
    assert [row.from_ for row in edges[:4]] == ["x", "#1.1", "#1.1", "#1.1"]
    assert edges[0].upstream is None  # one gradient for each output is not one number


def test_the_story_adds_what_goes_to_one_output():
    text = " ".join(str(looked().story()).split())
    assert "#1.1" in text
    assert "3.219 + 2 = 5.219" in text
    assert "Its rule makes one gradient for each input." in text


def test_contributions_to_different_outputs_are_never_added():
    trace = ab.inspect(eigen, MATRIX).trace.to_dict()
    index, frames = Index(trace), frames_of(trace)
    state = state_at(index, frames, len(frames) - 1)
    for out in (0, 1):
        assert gradient(index, state, 1, out) == trace["nodes"][1]["outputs"][out]["grad"]
    halfway = next(k for k, f in enumerate(frames) if f.kind == "backward" and f.item == 4)
    state = state_at(index, frames, halfway)
    assert gradient(index, state, 1, 0) is None
    assert gradient(index, state, 1, 1) == trace["nodes"][1]["outputs"][1]["grad"]


def test_an_element_of_the_first_output():
    told = ab.inspect(eigen, MATRIX).why("#1", index=[0])
    assert [share.out for share in told.finding.shares] == [None, None]
    assert np.isclose(sum(share.amount.v for share in told.finding.shares), 2 * (5 - 5**0.5) / 2)


def test_a_zero_at_every_output_is_a_zero():
    def f(x):
        w, v = ab.linalg.eigh(x)
        return ab.sum(w * 0.0) + ab.sum(v * 0.0)

    told = ab.inspect(f, MATRIX).why("#1")
    assert (told.kind, told.finding.of) == ("zero-gradient", 6)


def test_a_bad_gradient_of_a_later_output_is_bad():
    def f(x):
        s, l = ab.linalg.slogdet(x)  # noqa: E741
        return ab.sqrt(l - l) + s

    told = ab.inspect(f, MATRIX).why("#1")
    assert told.kind == "bad-gradient"


def test_a_card_has_a_row_of_cells_for_each_output():
    plain = {"shape": []}
    many = {"shape": [], "outputs": [plain] * 6}
    two = {"shape": [], "outputs": [plain, {"shape": [3]}]}
    assert [card_height(one) for one in (plain, {"shape": [3]}, two, many)] == [
        92,
        108,
        44 + 50 + 64,
        44 + 4 * 50 + 20,
    ]
    drawn = looked().svg()
    assert "value 0" in drawn and "value 1" in drawn and "2 outputs" in drawn
    assert "5.219" in drawn


@pytest.mark.parametrize("change", ["beyond", "single"])
def test_an_edge_to_an_output_that_is_not_there_is_refused(change):
    data = json.loads(looked().trace.to_json())
    number = {"beyond": 1, "single": len(data["edges"]) - 1}[change]
    data["edges"][number]["out"] = 2
    with pytest.raises(ab.TraceFileError, match=rf"edges\[{number}\] reads output 2"):
        reader.parsed(json.dumps(data))


def test_a_query_looks_at_every_output():
    report = looked()
    assert [row.out for row in report.table(where="grad:none").rows] == []
    found = report.table(where="op:*slogdet grad:>5").rows
    assert [row.name for row in found] == ["#1.0", "#1.1"]


def test_the_first_contribution_to_an_output_joins_nothing():
    sent = [one for block in ab.inspect(eigen, MATRIX).story().blocks for one in block.deliveries]
    mine = [one for one in sent if one.to == 1]
    assert sorted({one.out for one in mine}) == [0, 1]
    for out in (0, 1):
        firsts = [one.before is None for one in mine if one.out == out]
        assert firsts == [True] + [False] * (len(firsts) - 1)
        total = [one for one in mine if one.out == out][-1].after
        assert total.v == ab.inspect(eigen, MATRIX).trace.nodes[1].outputs[out].grad.v
