"""Values that change, passes that repeat, programs that go deep: gradients of what was computed."""

import numpy as np
import pytest

import anabranch as ab

# Values that are bound anew or changed.


@pytest.mark.proves("F-65")
def test_a_name_that_is_bound_anew_leaves_the_recorded_value_alone():
    x = ab.tensor(0.0, requires_grad=True)
    y = ab.exp(x)
    z = y * y
    y = y + 1.0
    z.backward()
    assert float(x.grad) == 2.0
    assert float(y) == 2.0


REBOUND = {
    "+=": lambda y: y.__iadd__(1.0) if hasattr(y, "__iadd__") else y + 1.0,
    "-=": lambda y: y - 3.0,
    "*=": lambda y: y * 0.0,
    "/=": lambda y: y / 5.0,
    "**=": lambda y: y**3,
}


def after_update(f, update):
    """z = y*y made before y is updated, beside one that uses the update."""

    def program(x):
        y = f(x)
        z = y * y
        y = update(y)
        return ab.sum(z + 0.0 * y)

    return program


@pytest.mark.proves("F-65")
@pytest.mark.parametrize("update", REBOUND)
@pytest.mark.parametrize("f", [ab.exp, ab.tanh, ab.sigmoid, ab.sqrt], ids=lambda f: f.__name__)
def test_no_update_reaches_back(grad, f, update):
    x = np.array([0.25, 2.0])
    found = grad(after_update(f, REBOUND[update]))(x)
    assert found.tolist() == pytest.approx(grad(lambda x: ab.sum(f(x) ** 2))(x).tolist())


@pytest.mark.proves("F-65")
def test_augmented_assignment_in_a_program(grad):
    def program(x):
        y = ab.exp(x)
        z = y * y
        y += 1.0
        z += y
        y *= z
        return y

    # (e^x + 1)(e^2x + e^x + 1) has the slope e^x(3e^2x + 4e^x + 2), which is 9 at 0
    assert float(grad(program)(0.0)) == 9.0


def np_operand():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    return x, x


def tensor_operand():
    x = ab.tensor([[1.0, 2.0], [3.0, 4.0]])
    return x, x.data


def shared_operand():
    source = np.array([[1.0, 2.0], [3.0, 4.0]])
    return ab.asarray(source), source


WRITES = {
    "all": lambda a: a.fill(9.0),
    "one element": lambda a: a.__setitem__((0, 0), 9.0),
    "through a view": lambda a: a.T.__setitem__(slice(None), 9.0),
    "add in place": lambda a: np.add(a, 1.0, out=a),
    "sort": lambda a: a[::-1].sort(axis=0),
}
PRODUCTS = {
    "matmul": lambda x, w: ab.sum(x @ w),
    "matmul, turned round": lambda x, w: ab.sum(w @ x),
    "product": lambda x, w: ab.sum(x * w),
    "quotient": lambda x, w: ab.sum(w / x),
    "where": lambda x, w: ab.sum(ab.where(ab.greater(x, 2.0), w, -w)),
    "power": lambda x, w: ab.sum(w**x),
}
W = np.array([3.0, 5.0])


@pytest.mark.proves("F-67")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("operand", [np_operand, tensor_operand, shared_operand])
@pytest.mark.parametrize("product", PRODUCTS)
def test_an_operand_that_changes_gives_the_old_gradient_or_an_error(product, operand, write):
    """Never, silently, the gradient of a program that nobody ran."""
    x, data = operand()
    wanted = ab.grad(lambda w: PRODUCTS[product](data.copy(), w))(W)
    w = ab.tensor(W, requires_grad=True)
    y = PRODUCTS[product](x, w)
    WRITES[write](data)
    try:
        y.backward()
    except ab.StaleValueError as error:
        assert error.code == "stale-residual"
        assert w.grad is None
    else:
        assert w.grad.tolist() == wanted.tolist()


@pytest.mark.proves("F-67")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("product", PRODUCTS)
def test_a_pullback_belongs_to_the_point_where_it_was_made(product, write):
    x, w = np_operand()[0], W.copy()
    wanted = ab.grad(PRODUCTS[product], (0, 1))(x.copy(), w.copy())
    _, pullback = ab.vjp(PRODUCTS[product], x, w)
    WRITES[write](x)
    w[:] = -1.0
    for found, one in zip(pullback(np.float64(1.0)), wanted, strict=True):
        assert found.tolist() == one.tolist()


@pytest.mark.proves("F-67")
@pytest.mark.parametrize("passes", [None, ()], ids=["default passes", "as built"])
@pytest.mark.parametrize("product", PRODUCTS)
def test_compiled_gradients_read_what_a_captured_array_holds_at_the_call(product, passes):
    """As eager calls do: each call is one program, run on what there is."""
    x = np_operand()[0]
    slope = ab.compile(ab.grad(lambda w: PRODUCTS[product](x, w)), passes=passes)
    for value in (x.copy(), x + 1.0, x[::-1] * 2.0):
        x[:] = value
        wanted = ab.grad(lambda w, value=value: PRODUCTS[product](value, w))(W)
        assert slope(W).tolist() == wanted.tolist()


@pytest.mark.proves("F-67")
@pytest.mark.parametrize("product", PRODUCTS)
def test_a_compiled_call_in_a_recorded_program_keeps_its_operands(product):
    x = np_operand()[0]
    wanted = ab.grad(lambda w: PRODUCTS[product](x.copy(), w))(W)
    w = ab.tensor(W, requires_grad=True)
    y = ab.compile(PRODUCTS[product])(x, w)
    x.fill(9.0)
    y.backward()
    assert w.grad.tolist() == wanted.tolist()


@pytest.mark.proves("F-67")
def test_an_array_that_the_function_itself_changes(noiseless):
    x = np.ones((2, 2))

    def f(w):
        y = ab.sum(x @ w)
        x.fill(5.0)
        return y

    assert ab.grad(f)(W).tolist() == [2.0, 2.0]


@pytest.mark.proves("F-67")
def test_a_captured_array_that_a_compiled_function_changes_is_refused():
    x = np.ones((2, 2))

    def f(w):
        y = ab.sum(x @ w)
        x.fill(5.0)
        return y

    with pytest.raises(ab.AnabranchError):
        ab.compile(ab.grad(f))(W)


# Repetition.


@pytest.mark.proves("F-69")
def test_a_second_pass_gives_the_same_gradient_again():
    a = ab.tensor(3.0, requires_grad=True)
    b = a + a
    c = b + b
    for _ in range(3):
        c.backward_fresh()
        assert [float(t.grad) for t in (a, b, c)] == [4.0, 2.0, 1.0]


@pytest.mark.proves("F-69")
@pytest.mark.parametrize("program", ["tower", "diamond", "shared", "power", "mixed"])
def test_each_adding_pass_contributes_its_own_amount(program):
    programs = {
        "tower": lambda a: ((a + a) + (a + a)) * 1.0,
        "diamond": lambda a: (a * 2.0) * (a * 3.0),
        "shared": lambda a: (lambda b: b * b + b)(ab.exp(a)),  # noqa: PLC3002
        "power": lambda a: a**4,
        "mixed": lambda a: ab.sum(ab.where(a > 0.0, a * a, -a)),
    }
    a = ab.tensor(3.0, requires_grad=True)
    z = programs[program](a)
    once = float(ab.grad(programs[program])(3.0))
    for count in range(1, 5):
        z.backward()
        assert float(a.grad) == count * once


@pytest.mark.proves("F-69")
def test_passes_from_several_results_over_shared_values_add_up():
    a = ab.tensor(3.0, requires_grad=True)
    b = a * a
    (b + b).backward()
    (b * b).backward()
    b.backward()
    assert float(a.grad) == 12.0 + 4 * 27.0 + 6.0
    assert float(b.grad) == 2.0 + 2 * 9.0 + 1.0


@pytest.mark.proves("F-69")
def test_a_value_in_the_middle_takes_part_in_later_programs():
    a = ab.tensor(2.0, requires_grad=True)
    b = a * a
    b.backward()
    c = b * a
    c.backward_fresh()
    assert [float(a.grad), float(b.grad)] == [12.0, 2.0]


def test_a_function_that_calls_itself_is_a_program_like_any_other(grad):
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert float(grad(lambda x: power(x, 50))(1.0)) == 50.0


def test_what_is_shared_a_hundred_levels_deep_is_walked_once(grad):
    """As recursion over paths there would be 2**100 of them."""

    def ladder(x):
        for _ in range(100):
            x = x * 0.5 + x * 0.5
        return x

    assert float(grad(ladder)(3.0)) == 1.0


# Assignment to elements.


def assembled(b):
    """[b0², b1·b0 + b2] by building a new value."""
    c = ab.broadcast_to(np.float64(0.0), (2,))
    c = ab.scatter_add(c, np.array([0]), ab.reshape(b[0] ** 2, (1,)))
    return ab.scatter_add(c, np.array([1]), ab.reshape(b[1] * b[0] + b[2], (1,)))


def placed(b):
    c = ab.index_set(ab.zeros(2), 0, b[0] ** 2)
    return ab.index_set(c, 1, b[1] * b[0] + b[2])


def selected(b):
    first = np.array([True, False])
    return ab.where(first, b[0] ** 2, b[1] * b[0] + b[2])


def padded(b):
    return ab.pad(ab.reshape(b[0] ** 2, (1,)), (0, 1)) + ab.unslice(b[1] * b[0] + b[2], (2,), (1,))


@pytest.mark.proves("F-71")
@pytest.mark.parametrize("build", [assembled, placed, selected, padded])
def test_elements_are_set_by_building_a_new_value(grad, build):
    b = [1.0, 2.0, 2.0]
    rows = [grad(lambda b, row=row: build(b)[row])(b).tolist() for row in range(2)]
    assert rows == [[2.0, 0.0, 0.0], [2.0, 1.0, 1.0]]
    assert np.asarray(build(np.array(b))).tolist() == [1.0, 4.0]


@pytest.mark.proves("F-71")
@pytest.mark.parametrize("index", [0, -1, slice(None), slice(0, 1), (..., 0)], ids=str)
@pytest.mark.parametrize("way", ["eager", "transform", "compiled", "by hand"])
def test_assignment_is_refused_with_what_to_write(way, index):
    def assign(c):
        c[index] = c[0] * 2.0
        return c[0]

    with pytest.raises(ab.ArgumentError, match="item-assignment") as caught:
        if way == "eager":
            assign(ab.tensor([0.0, 0.0], requires_grad=True))
        elif way == "transform":
            ab.grad(assign)(np.zeros(2))
        elif way == "compiled":
            ab.compile(assign)(np.zeros(2))
        else:
            g = ab.Graph("by hand")
            assign(g.parameter("c", (2,), ab.float64))
    assert "x.at[i].set(v)" in caught.value.hint
    assert "where" in caught.value.hint
    assert caught.value.source.text == "c[index] = c[0] * 2.0"


def assign_element(c, value):
    c[0] = value


def assign_row(c, value):
    c[:] = value


def assign_in_a_matrix(c, value):
    c.reshape(1, 2)[0, 1] = value


@pytest.mark.proves("F-71")
@pytest.mark.parametrize("assign", [assign_element, assign_row, assign_in_a_matrix])
@pytest.mark.parametrize("way", ["eager", "transform", "compiled", "by hand"])
def test_an_array_of_numpys_refuses_what_it_would_forget(way, assign):
    """As a number it would have no history, and the gradient would silently lose a path."""

    def f(b):
        c = np.zeros(2)
        assign(c, b[0] * b[0])
        return ab.sum(c * b)

    with pytest.raises((ab.TraceError, ValueError)) as caught:
        if way == "eager":
            f(ab.tensor([1.0, 2.0], requires_grad=True))
        elif way == "transform":
            ab.grad(f)(np.array([1.0, 2.0]))
        elif way == "compiled":
            ab.compile(f)(np.array([1.0, 2.0]))
        else:
            g = ab.Graph("by hand")
            f(g.parameter("b", (2,), ab.float64))
    error = caught.value
    if not isinstance(error, ab.TraceError):  # NumPy puts its own error on top of ours
        error = error.__cause__
    assert isinstance(error, ab.TraceError)
    assert error.source.function == assign.__name__


def test_an_array_of_numpys_takes_values_that_nobody_differentiates():
    c = np.zeros(2)
    c[0] = ab.tensor(2.0)
    with ab.no_grad():
        c[1] = ab.tensor(3.0, requires_grad=True) * 2.0
    assert c.tolist() == [2.0, 6.0]
    assert float(ab.tensor(3.0, requires_grad=True)) == 3.0
