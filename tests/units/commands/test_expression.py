"""Expressions from the shell: what they compute, where they are refused, and that nothing runs."""

import builtins
import math

import numpy as np
import pytest

import anabranch as ab
from anabranch.commands import expression
from anabranch.commands.expression import evaluate, is_binding
from anabranch.commands.failure import CommandError
from anabranch.core.registry import functions


def refused(text: str, *bindings: str) -> str:
    with pytest.raises(CommandError) as caught:
        evaluate(text, bindings)
    assert caught.value.status == 2
    return str(caught.value)


@pytest.mark.proves("S1-35", "S1-36", "S1-39")
def test_the_worked_expression_is_recorded_in_its_order_with_its_derivatives() -> None:
    z = evaluate("(x*y + x)**2", ["x=2", "y=3"])
    order = z.backward()
    assert [t.name for t in order] == ["x", "y", "x*y", "x*y + x", "(x*y + x)**2"]
    assert [(t.item(), t.grad.item()) for t in order] == [
        *((2.0, 64.0), (3.0, 32.0), (6.0, 16.0), (8.0, 16.0), (64.0, 1.0))
    ]
    assert [[p.item() for p in t.partials] for t in order[2:]] == [[3, 2], [1, 1], [8, 8]]


@pytest.mark.parametrize(
    ("text", "bindings", "value"),
    [
        ("2*x - -x/4", ["x=8"], 18.0),
        ("x**0.5", ["x=16"], 4.0),
        ("exp(log(x))", ["x=3"], 3.0),
        ("abs(x)", ["x=-3"], 3.0),
        ("2**3*x", ["x=1"], 8.0),
        ("x*pi", ["x=1"], math.pi),
        ("e*x", ["x=1", "e=5"], 5.0),  # what is given wins over a constant
        ("where(x > 0, x, 0)", ["x=-1"], 0.0),
        ("sum(w*[1, 2, 3])", ["w=[1,2,3]"], 14.0),
        ("sum(x @ [[1], [2]])", ["x=[1,2]"], 5.0),
        ("x[1] - x[-2] + sum(x[0:2])", ["x=[1,2,4]"], 3.0),
        ("sum(x[0, 1:])", ["x=[[1,2],[3,4]]"], 2.0),
        ("clip(x, None, 3)", ["x=7"], 3.0),
        ("mean(softmax(x, axis=0))", ["x=[1,1]"], 0.5),
        ("sum(reshape(x, (2, 1)))", ["x=[1,2]"], 3.0),
        ("x*y", ["x=1/3+1", "y=-3e0"], -4.0),
        ("x +\n y", ["x=1", "y=2"], 3.0),
        ("αβ + 1", ["αβ=1"], 2.0),
        ("+x", ["x=2"], 2.0),
    ],
)
def test_what_expressions_compute(text: str, bindings: list[str], value: float) -> None:
    assert evaluate(text, bindings).item() == pytest.approx(value, rel=1e-15)


def test_integers_that_stand_alone_stay_exact_and_large_ones_are_floats() -> None:
    assert evaluate("x*(2**53 - 1)", ["x=1"]).item() == 2.0**53 - 1
    assert evaluate("x*2**200", ["x=1"]).item() == 2.0**200


def test_every_function_of_the_library_has_its_own_name() -> None:
    for name in functions():
        try:
            evaluate(f"{name}(x)", ["x=[1,2]"])
        except CommandError as error:
            assert "no function" not in str(error)
        except ab.AnabranchError:
            pass  # it wants more arguments, or others


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("x.__class__", "x.__class__"),
        ("x.data.tofile(1)", "x.data.tofile"),
        ("__import__('os').system('true')", "__import__('os').system"),
        ("__import__('os')", "__import__"),
        ("eval('1')", "eval"),
        ("open('x')", "open"),
        ("exec(x)", "exec"),
        ("(lambda: x)()", "lambda: x"),
        ("[y for y in x]", "[y for y in x]"),
        ("(y := 2)", "y := 2"),
        ("f'{x}'", "f'{x}'"),
        ("'a'*x", "'a'"),
        ("2j*x", "2j"),
        ("x if x > 0 else 1", "x if x > 0 else 1"),
        ("x and 1", "x and 1"),
        ("not x", "not x"),
        ("~x", "~x"),
        ("1 < x < 2", "1 < x < 2"),
        ("x^2", "x^2"),
        ("x // 2", "x // 2"),
        ("x % 2", "x % 2"),
        ("x << 2", "x << 2"),
        ("x is 1", "x is 1"),
        ("x[x]", "x[x]"),
        ("x[None]", "x[None]"),
        ("x['a']", "x['a']"),
        ("2[0]*x", "2[0]"),
        ("exp(*x)", "*x"),
        ("exp(**x)", "exp(**x)"),
        ("exp(x)(x)", "exp(x)"),
        ("x, 1", "x, 1"),
        ("{x: 1}", "{x: 1}"),
        ("...", "..."),
        ("[x, 1]", "x"),
        ("True*x", "True"),
        ("10**10**10*x", "10**10**10"),
        ("2**99999999*x", "2**99999999"),
        ("99999999999999999999*x", "99999999999999999999"),
        ("1/0*x", "1/0"),
        ("(-8)**0.5*x", "(-8)**0.5"),
        ("1 == 1", "1 == 1"),
        ("broadcast_to(x, (10000, 10000))", "(10000, 10000)"),
        ("one_hot(x, 99999)", "99999"),
        ("exp(x, foo=2)", "exp(x, foo=2)"),
        ("x + yy", "yy"),
    ],
)
def test_what_is_no_arithmetic_is_refused_at_its_place(text: str, place: str) -> None:
    said = refused(text, "x=1")
    lines = said.splitlines()
    assert lines[-2] == f"  {text}"
    start = len(lines[-1]) - len(lines[-1].lstrip())
    underlined = lines[-2][start : len(lines[-1])]
    assert set(lines[-1].strip()) == {"^"}
    assert underlined == place


def test_columns_count_characters_and_long_texts_are_shown_around_the_place() -> None:
    assert refused("ααα*x.a", "ααα=1", "x=1").splitlines()[1:] == ["  ααα*x.a", "      ^^^"]
    said = refused("x" + "+x" * 90 + "+z" + "+x" * 90, "x=1").splitlines()
    assert len(said[1]) < 130
    at = said[2].index("^")
    assert said[1][at] == "z"


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "(", ")", "x+", "x y", "1x", "x=2", "def f(): pass", "x;x", "\0", "\ud800x"),
        *("(" * 5_000, "-" * 9_000 + "x", "x" + "+x" * 4_000, "[" * 150 + "]" * 150, "x" * 20_000),
        "exp(" * 400 + "x" + ")" * 400,
    ],
)
def test_broken_and_endless_texts_are_refused(text: str) -> None:
    assert refused(text, "x=1")


def test_operations_inside_one_another_are_limited() -> None:
    assert evaluate("x" + "+x" * 150, ["x=1"]).item() == 151
    assert refused("x" + "+x" * 250, "x=1").startswith("at most 200 operations")


def test_suggestions() -> None:
    assert "Did you mean 'exp'?" in refused("expp(x)", "x=1")
    assert "Did you mean 'xs'?" in refused("x*2", "xs=1")
    assert "Give it one: y=2" in refused("y*2", "long=1")
    assert refused("x*2", "x=1", "xx=3").startswith("xx is given, but does not occur in x*2.")
    assert "nothing in it has a gradient" in refused("2*3")


@pytest.mark.parametrize("value", ["foo", "x", "1;2", "open('x')", "[1,[2]]", "", "2j", "'a'"])
def test_values_are_numbers_and_lists_of_them(value: str) -> None:
    with pytest.raises((CommandError, ab.AnabranchError)):
        evaluate("x*2", [f"x={value}"])


def test_a_name_is_given_once() -> None:
    assert refused("x*2", "x=1", "x=2") == "x is given twice"


def test_shapes_that_do_not_fit_are_underlined_in_the_expression() -> None:
    with pytest.raises(ab.ShapeError) as caught:
        evaluate("sum(x + y)", ["x=[1,2]", "y=[1,2,3]"])
    assert "     1 | sum(x + y)\n       |     ^^^^^" in str(caught.value)


def test_nothing_outside_the_tables_is_ever_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("eval", "exec", "compile", "open", "__import__", "getattr"):
        if name in ("eval", "exec", "open"):
            monkeypatch.setattr(builtins, name, never)
    for text in ("eval(x)", "open(x)", "exec(x)", "x.__class__", "print(x)"):
        refused(text, "x=1")


def test_what_bindings_look_like() -> None:
    assert [is_binding(word) for word in ("x=2", "αβ=1", "x==2", "layer1.W", "2=x", "x")] == [
        *(True, True, False, False, False, False)
    ]


def test_infinities_are_what_reports_are_about() -> None:
    with np.errstate(all="raise"):
        assert evaluate("log(x)", ["x=0"]).item() == -math.inf


def test_limits_are_what_the_page_says() -> None:
    assert (expression.LONGEST, expression.DEEPEST, expression.LARGEST) == (10_000, 200, 10_000)
