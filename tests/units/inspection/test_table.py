"""The table: its search language, its order, its columns, and what absent things are called."""

import numpy as np
import pytest

import anabranch as ab


def net() -> ab.Report:
    """Ten nodes or so of several shapes, one inside a scope, one with a NaN, one unreached."""
    x = ab.tensor(np.arange(6.0).reshape(2, 3), name="x", requires_grad=True)
    w = ab.tensor(np.ones((3, 4)), name="layer1.W", requires_grad=True)
    with ab.scope("block"), ab.scope("attn"):
        h = x @ w
    dead = ab.relu(-h - 1.0)
    n = ab.log(x - 1.0)
    return ab.inspect(dead.sum() + (n * 0.0).sum())


@pytest.fixture(scope="module")
def report() -> ab.Report:
    with np.errstate(all="ignore"):
        return net()


def found(report: ab.Report, where: str) -> list[str]:
    return [row.op for row in report.table(where=where).rows]


@pytest.mark.parametrize(
    ("where", "ops"),
    [
        ("op:matmul", ["matmul"]),
        ("op:mat*", ["matmul"]),
        ("name:layer1.W", ["input"]),
        ("name:layer*", ["input"]),
        ("shape:2x4 op:matmul", ["matmul"]),
        ("shape:3x*", ["input"]),
        ("shape:scalar", ["sum", "sum", "add"]),
        ("scope:block", ["matmul"]),
        ("scope:attn", ["matmul"]),
        ("scope:block/attn", ["matmul"]),
        ("scope:tn", []),
        ("#2", ["matmul"]),
        ("order:<2", ["input", "input"]),
        ("order:>=99", []),
        ("dtype:float32", []),
        ("grad:none", ["less_equal"]),
        ("grad:0 op:matmul", ["matmul"]),
        ("value:inf", ["log"]),
        ("value:bad op:log", ["log"]),
        ("value:15 shape:2x4", []),
        ("value:>20 op:matmul", ["matmul"]),
        ("layer1", ["input"]),
        ("MATMUL", ["matmul"]),
        ('"layer1.W"', ["input"]),
        ("matmul nosuch", []),
        ('op:"matmul"', ["matmul"]),
    ],
)
def test_searches(report: ab.Report, where: str, ops: list[str]) -> None:
    assert found(report, where) == ops


def test_a_line_is_found_by_its_number_and_file(report: ab.Report) -> None:
    (row,) = report.table(where="op:matmul").rows
    file, _, number = row.line.rpartition(":")
    assert "matmul" in found(report, f"line:{number}")
    assert found(report, f"line:{file.rpartition('/')[2]}:{number}")
    assert not found(report, f"line:other.py:{number}")


@pytest.mark.parametrize(
    ("where", "hint"),
    [("shap:2", "did you mean shape:2?"), ("xyzzy:2", '"xyzzy:2" looks for the text')],
)
def test_an_unknown_key_is_refused_with_a_hint(report: ab.Report, where: str, hint: str) -> None:
    with pytest.raises(ab.ArgumentError) as caught:
        report.table(where=where)
    assert (caught.value.code, caught.value.hint) == ("bad-query", hint)


@pytest.mark.parametrize("where", ["line:ten", "order:last", "grad:small", "value:>", "value:<x"])
def test_a_key_that_needs_a_number_says_so(report: ab.Report, where: str) -> None:
    with pytest.raises(ab.ArgumentError, match="bad-query"):
        report.table(where=where)


def test_an_edge_is_listed_when_its_reader_matches(report: ab.Report) -> None:
    rows = report.table(edges=True, where="op:matmul").rows
    assert [(row.from_, row.slot) for row in rows] == [("x", 0), ("layer1.W", 1)]


def test_rows_and_what_was_left_out(report: ab.Report) -> None:
    table = report.table(rows=2)
    assert (len(table.rows), table.matching) == (2, table.nodes)
    assert f"2 of {table.nodes} rows; --rows {table.nodes} shows all" in str(table)
    assert "no node matches" in str(report.table(where="op:nosuch"))
    assert report.table(rows=0).rows == []


def test_numbers_sort_by_size_bad_ones_first_and_words_by_the_alphabet(report: ab.Report) -> None:
    with np.errstate(all="ignore"):
        values = [row.value for row in report.table(sort="value").rows]
    assert not np.isfinite(np.array(values[0].v)).all()
    names = [row.name for row in report.table(sort="name").rows]
    assert names == sorted(names)
    ids = [row.id for row in report.table(sort="#").rows]
    assert ids == sorted(ids)


def test_columns_are_as_asked(report: ab.Report) -> None:
    text = str(report.table(columns=["op", "bytes", "dtype", "grad"], rows=1))
    assert text.splitlines()[2].split() == ["op", "bytes", "dtype", "gradient"]
    with pytest.raises(ab.ArgumentError, match="unknown-column"):
        report.table(columns=["weight"])
    with pytest.raises(ab.ArgumentError, match="bad-argument"):
        report.table(edges=True, sort="name")


def test_columns_that_say_nothing_are_left_out() -> None:
    x = ab.tensor(2.0, requires_grad=True, name="x")
    assert "shape" not in ab.inspect(x * x).table().columns
    assert "scope" not in ab.inspect(x * x).table().columns
    assert "shape" in ab.inspect((x * np.ones(2)).sum()).table().columns
    table = ab.inspect(x * x, detail="shape").table()
    assert not {"value", "gradient", "contributions"} & set(table.columns)


def test_awaited_none_zero_and_unwanted_are_four_things() -> None:
    x = ab.tensor([1.0, -2.0], requires_grad=True, name="x")
    y = ab.tensor([1.0, 2.0], requires_grad=True, name="y")
    z = (x * 0.0 + ab.stop_gradient(y) * np.ones(2)).sum()
    before = ab.inspect(z, backward=False).table()
    assert {row.gradient for row in before.rows} == {"waiting"}
    after = {row.name: row for row in ab.inspect(z).table().rows}
    assert after["x"].gradient == "arrived"
    assert after["x"].grad.v == [0, 0]
    assert after["y"].gradient == "none"
    assert [row.gradient for row in after.values() if row.op == "constant"] == ["unwanted"]
    lines = str(ab.inspect(z).table(columns=["name", "gradient"])).splitlines()
    shown = dict(line.split() for line in lines[4:])
    assert (shown["x"], shown["y"]) == ("0", "none")


def test_contributions_are_in_the_order_of_arrival() -> None:
    x = ab.tensor(2.0, requires_grad=True, name="x")
    p = x * 3.0
    z = p + x
    p.name, z.name = "p", "z"
    (row,) = ab.inspect(z).table(where="name:x").rows
    assert [(share.through, share.amount.v) for share in row.contributions] == [("z", 1), ("p", 3)]


@pytest.mark.proves("S1-40")
def test_the_contributions_of_a_node_add_up_to_its_gradient_in_this_order() -> None:
    rng = np.random.default_rng(0)
    x = ab.tensor(rng.normal(), requires_grad=True, name="x")
    y = x
    for _ in range(30):
        y = ab.sin(y * x) + x * rng.normal()
    for row in ab.inspect(y).table().rows:
        if row.contributions:
            total = row.contributions[0].amount.v
            for share in row.contributions[1:]:
                total = total + share.amount.v
            assert total == row.grad.v


@pytest.mark.proves("S1-39")
def test_edges_carry_their_local_derivatives() -> None:
    x = ab.tensor(2.0, requires_grad=True, name="x")
    y = ab.tensor(3.0, requires_grad=True, name="y")
    rows = ab.inspect((x * y + x) ** 2).table(edges=True).rows
    assert [row.local for row in rows] == [3, 2, 1, 1, 8, 8]
    assert [row.contribution.v for row in rows] == [48, 32, 16, 16, 8, 8]


@pytest.mark.proves("F-109")
def test_a_sum_of_a_number_and_an_exponential_is_four_short_lines() -> None:
    report = ab.inspect(lambda x, y: x + ab.exp(y), 1.0, np.zeros(3))
    lines = str(report.table(columns=["name", "op", "shape"])).splitlines()
    assert lines[0].split("  ")[0] == "x + exp(y)"
    assert [line.split(maxsplit=1) for line in lines[4:]] == [
        ["x", "input   scalar"],
        ["y", "input   3"],
        ["#2", "exp(y)  3"],
        ["#3", "x + #2  3"],
    ]


@pytest.mark.slow
@pytest.mark.proves("S0-78")
def test_ten_thousand_ancestors_each_once_in_order_with_value_shape_and_gradient() -> None:
    x = ab.tensor(1.0, requires_grad=True, name="x")
    y = x
    for i in range(10_000):
        y = ab.sin(y) + x if i % 100 == 0 else ab.sin(y)
    columns = ["name", "value", "shape", "gradient"]
    table = ab.inspect(y).table(columns=columns)
    assert [row.id for row in table.rows] == list(range(10_101))
    edges = ab.inspect(y).table(edges=True).rows
    places = {row.name: row.id for row in table.rows}
    assert len(places) == 10_101
    assert all(places[edge.from_] < places[edge.to] for edge in edges)
    head, *lines = str(table).splitlines()[2:]
    assert head.split() == columns
    assert len(lines) == 10_102
