"""One table of ops, filled by the records themselves."""

import inspect

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.op import NoGradient
from anabranch.core.registry import lookup, registered_ops, temporary_ops


def record(name: str, **fields: object) -> ab.Op:
    given = {"aval": lambda x: x, "ref": lambda x: x, "doc": "For a test.", **fields}
    return ab.Op(name, **given)


@pytest.mark.proves("S0-29")
def test_an_unknown_op_lists_the_known_ones_and_guesses() -> None:
    with pytest.raises(ab.errors.ArgumentError, match="unknown-op") as caught:
        lookup("multply")
    assert all(op.name in caught.value.sentence for op in registered_ops())
    assert caught.value.hint == "did you mean 'multiply'?"
    with pytest.raises(ab.errors.ArgumentError) as caught:
        ab.Graph("demo").add_node("zzzzzz", [])
    assert caught.value.hint is None


@pytest.mark.proves("S0-29")
def test_the_same_name_twice_raises_and_the_first_stays() -> None:
    before = lookup("add")
    with pytest.raises(ab.errors.ArgumentError, match="duplicate-op"):
        record("add")
    assert lookup("add") is before


@pytest.mark.proves("S0-29")
def test_the_table_is_sorted_and_finds_each_record_by_its_name() -> None:
    names = [op.name for op in registered_ops()]
    assert names == sorted(set(names))
    assert all(lookup(op.name) is op for op in registered_ops())


def test_temporary_ops_are_forgotten_also_after_an_error() -> None:
    before = registered_ops()
    with pytest.raises(ZeroDivisionError), temporary_ops():
        record("passing")
        raise ZeroDivisionError
    assert registered_ops() == before


@pytest.mark.proves("S0-05")
def test_a_users_op_works_in_all_three_ways(capsys: pytest.CaptureFixture[str]) -> None:
    with temporary_ops():
        cube = ab.elementwise(
            "cube", lambda x: x * x * x, partials=(lambda y, x: 3 * x * x,), doc="x times x times x"
        )
        x = ab.tensor(2.0, requires_grad=True)
        y = cube(x)
        y.backward()
        assert (float(y), float(x.grad)) == (8.0, 12.0)
        assert float(ab.grad(cube)(2.0)) == 12.0
        g = ab.Graph("demo")
        p = g.parameter("p", (), ab.float64)
        middle = cube(p).log("the middle")
        assert float(g.compile(middle + 1.0)(2.0)) == 9.0
    assert capsys.readouterr().out == "the middle = 8.0\n"


@pytest.mark.proves("S0-42")
@pytest.mark.parametrize("op", registered_ops(), ids=lambda op: op.name)
def test_the_source_of_value_and_derivative_can_be_read(op: ab.Op) -> None:
    rules = [op.ref, op.aval, *(r for r in (op.partials, op.vjp, op.jvp) if isinstance(r, tuple))]
    for rule in rules:
        for one in rule if isinstance(rule, tuple) else (rule,):
            if inspect.isfunction(one):
                assert inspect.getsource(one).strip()
            else:  # NumPy's own function, a constant partial, or a stated absence
                known = np.ufunc | int | float | NoGradient | None
                assert isinstance(one, known) or inspect.isbuiltin(one)


@pytest.mark.proves("S0-51", "S0-29")
def test_a_recorded_value_names_its_op_and_the_name_leads_back() -> None:
    x = ab.tensor(2.0, requires_grad=True)
    y = ab.exp(x)
    name, operands = y.creator
    assert lookup(name) is ab.ops.elementwise.exp
    assert operands == (x,)
