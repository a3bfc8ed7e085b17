"""Where the user wrote it: file, line, columns, function."""

import textwrap
from types import FrameType

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.source import Source, capture, resolve


def here() -> Source:
    found = resolve(capture())
    assert found is not None
    return found


def block_of(error: ab.AnabranchError) -> list[str]:
    assert error.source is not None
    return error.source.block().splitlines()


def test_a_node_knows_its_line_and_function() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    y = x * 2.0
    assert y.source.text == "y = x * 2.0"
    assert y.source.function.endswith("knows_its_line_and_function")
    assert str(y.source) == f"test_source.py:{y.source.line}"
    assert y.source.line == x.source.line + 1


def test_the_expression_is_underlined_not_the_whole_line() -> None:
    a, b = ab.tensor(np.ones((2, 3)), requires_grad=True), ab.tensor(np.ones((4, 5)))
    with pytest.raises(ab.errors.ShapeError) as caught:
        _ = 1.0 + (a @ b) * 2.0
    _, text, marks = block_of(caught.value)
    start, end = marks.index("^"), marks.rindex("^") + 1
    assert text[start:end] in ("(a @ b)", "a @ b")


def test_columns_count_characters_not_bytes() -> None:
    two, three = ab.tensor([1.0, 2.0]), ab.tensor([1.0, 2.0, 3.0])
    with pytest.raises(ab.errors.ShapeError) as caught:
        _ = "∂∂∂", two + three
    _, text, marks = block_of(caught.value)
    assert text[marks.index("^") : marks.rindex("^") + 1] == "two + three"


def test_a_call_over_several_lines_points_at_its_first() -> None:
    a, b = ab.tensor([1.0, 2.0]), ab.tensor([1.0, 2.0, 3.0])
    with pytest.raises(ab.errors.ShapeError) as caught:
        ab.maximum(
            a,
            b,
        )
    assert caught.value.source.text == "ab.maximum("


def test_a_lambda_is_named_as_python_names_it() -> None:
    graph = ab.trace(lambda x: ab.exp(x), 1.0)
    assert graph.nodes[1].source.function.endswith("<lambda>")
    assert "ab.exp(x)" in graph.nodes[1].source.text


def test_code_without_a_file_still_has_its_line() -> None:
    program = textwrap.dedent(
        """
        import anabranch as ab
        g = ab.Graph("made up")
        x = g.parameter("x", (), ab.float64)
        y = x + 1.0
        """
    )
    names: dict[str, object] = {}
    exec(compile(program, "<nowhere>", "exec"), names)
    y = names["y"]
    assert str(y.source) == "<nowhere>:5"  # type: ignore[attr-defined]
    assert y.source.text == ""  # type: ignore[attr-defined]
    assert y.source.block() == "  <nowhere>:5"  # type: ignore[attr-defined]


def test_the_line_is_the_users_also_through_several_layers_of_the_library() -> None:
    graph = ab.trace(ab.softmax, np.ones(3))
    assert {node.source.text for node in graph.nodes} == {
        "graph = ab.trace(ab.softmax, np.ones(3))"
    }


def test_gradient_nodes_carry_the_line_they_differentiate() -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64)
    y = ab.sin(x)
    (dx,) = ab.gradients(y, [x])
    assert dx.source.line == y.source.line
    assert dx.origin == (y, 0)


def test_sources_hold_no_frames() -> None:
    x = ab.tensor(2.0, requires_grad=True)
    raw = (x * x).node.raw_source
    assert not any(isinstance(part, FrameType) for part in raw)


def test_here_is_this_line() -> None:
    assert here().function == "here"  # the innermost line that is not the library's
