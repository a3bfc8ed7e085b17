"""Shapes, dtypes, indices: gradients in the shape of what they belong to, errors that say why."""

import numpy as np
import pytest

import anabranch as ab

# Shapes.

STRETCHES = [
    ((1,), (3, 5)),
    ((), (3, 5)),
    ((5,), (3, 5)),
    ((3, 1), (3, 5)),
    ((1, 1), (3, 5)),
    ((1, 5), (3, 5)),
    ((1, 3, 1), (2, 3, 5)),
    ((1,), (0, 5)),
    ((1,), (1,)),
]
SPREADS = {
    "broadcast_to": lambda x, shape: ab.broadcast_to(x, shape),
    "adding zeros": lambda x, shape: x + np.zeros(shape),
    "times ones": lambda x, shape: np.ones(shape) * x,
    "where": lambda x, shape: ab.where(np.ones(shape, bool), x, 0.0),
    "maximum": lambda x, shape: ab.maximum(x, np.full(shape, -np.inf)),
    "quotient": lambda x, shape: x / np.ones(shape),
    "power": lambda x, shape: x ** np.ones(shape),
}


@pytest.mark.proves("F-73")
@pytest.mark.parametrize("spread", SPREADS)
def test_the_gradient_of_a_stretched_value_has_its_shape(grad, spread):
    for shape, wide in STRETCHES:
        found = grad(lambda x, wide=wide: ab.sum(SPREADS[spread](x, wide)))(np.full(shape, 2.0))
        times = np.prod(wide) / np.prod(shape)
        assert found.shape == shape, wide
        assert found.tolist() == np.full(shape, times).tolist(), wide


@pytest.mark.proves("F-73")
@pytest.mark.parametrize("spread", SPREADS)
def test_one_compiled_function_serves_lengths_that_stretch_and_lengths_that_do_not(spread):
    """The length decides at each call what is summed: [15.0] for 1, and 3.0 each for 5."""
    slope = ab.compile(ab.grad(lambda x: ab.sum(SPREADS[spread](x, (3, 5)))))
    for length in (5, 1, 5, 1):
        assert slope(np.full(length, 2.0)).tolist() == [15.0 / length] * length
    assert "2 compiles" in str(slope.explain_compiles())
    with pytest.raises(ab.ShapeError):
        slope(np.full(2, 2.0))


PAIRS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    ">": lambda a, b: a > b,
    "maximum": ab.maximum,
    "where": lambda a, b: ab.where(a > 0.0, a, b),
}
KINDS = {
    "tensor, array": lambda a, b: (ab.tensor(a, requires_grad=True), b),
    "array, tensor": lambda a, b: (a, ab.tensor(b, requires_grad=True)),
    "tensors": lambda a, b: (ab.tensor(a), ab.tensor(b)),
}


@pytest.mark.proves("F-75")
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("sign", PAIRS)
def test_shapes_that_do_not_fit_are_shown_as_they_were_written(sign, kinds):
    a, b = KINDS[kinds](np.ones((2, 4)), np.ones(2))
    with pytest.raises(ab.ShapeError) as caught:
        PAIRS[sign](a, b)
    text = str(caught.value)
    assert caught.value.code == "shape-mismatch"
    assert "(2, 4)" in text and "(2,)" in text
    assert "(1, 2)" not in text and "(2, 1)" not in text
    assert "test_shapes_and_dtypes.py" in text


@pytest.mark.proves("F-75")
@pytest.mark.parametrize("sign", PAIRS)
def test_they_are_shown_by_name_in_traces_and_graphs_by_hand(sign):
    def together(height, width):
        return PAIRS[sign](height, width)

    g = ab.Graph("room")
    for call in (
        lambda: ab.compile(together)(np.ones((2, 4)), np.ones(2)),
        lambda: ab.grad(together, (0, 1))(np.ones((2, 4)), np.ones(2)),
        lambda: together(
            g.parameter("height", (2, 4), ab.float64), g.parameter("width", (2,), ab.float64)
        ),
    ):
        with pytest.raises(ab.ShapeError) as caught:
            call()
        text = str(caught.value)
        assert all(part in text for part in ("(2, 4)", "(2,)", "height", "width"))
        assert "PAIRS[sign]" in text or "lambda a, b" in text or "ab.where" in text


@pytest.mark.parametrize(
    "f, parts",
    [
        (lambda x: x @ np.ones((3, 5)), ("(2, 4)", "(3, 5)")),
        (lambda x: np.ones((3, 5)) @ x, ("(3, 5)", "(2, 4)")),
        (lambda x: ab.reshape(x, (3, 3)), ("(2, 4)", "(3, 3)")),
        (lambda x: ab.broadcast_to(x, (2, 5)), ("(2, 4)", "(2, 5)")),
        (lambda x: ab.cross_entropy(x, np.array([1])), ("(1,)", "(2,)")),
        (lambda x: ab.scatter_add(x, np.array([0, 1]), np.ones(4)), ("(4,)", "(2, 4)")),
    ],
)
def test_other_ops_show_the_users_shapes_too(f, parts):
    for call in (lambda: f(ab.tensor(np.ones((2, 4)))), lambda: ab.compile(f)(np.ones((2, 4)))):
        with pytest.raises(ab.ShapeError) as caught:
            call()
        assert all(part in str(caught.value).replace("[", "(").replace("]", ")") for part in parts)


@pytest.mark.parametrize(
    "f",
    [
        ab.sum, ab.max, ab.mean, ab.logsumexp, ab.softmax, ab.log_softmax, ab.relu, ab.exp,
        ab.permute, lambda x: ab.reshape(x, (2, 1)), lambda x: ab.pad(x, 1),
        lambda x: ab.take(x, 0), lambda x: ab.clip(x, 0.0, 1.0),
        ab.prod, ab.min, ab.argmax, ab.argmin, ab.any, ab.all, ab.cumsum, ab.cumprod, ab.cummax,
        ab.cummin, ab.cumlogsumexp, ab.sort, ab.argsort, ab.median, ab.var, ab.std, ab.ptp,
        ab.average, ab.cov, ab.corrcoef, ab.count_nonzero, lambda x: ab.quantile(x, 0.5),
        lambda x: ab.top_k(x, 1), lambda x: ab.searchsorted(x, 1.5),
        lambda x: ab.linear_recurrence(x, 1.0),
    ],
)  # fmt: skip
def test_a_list_is_no_operand_and_the_error_says_so(f):
    with pytest.raises(ab.ArgumentError, match="bad-operand") as caught:
        f([1.0, 2.0])
    assert "list" in caught.value.sentence
    assert caught.value.hint == "ab.tensor(...) makes a tensor of it"
    assert caught.value.source.file.endswith("test_shapes_and_dtypes.py")
    f(ab.tensor([1.0, 2.0]))


# Indices.

OUT_OF_RANGE = {
    "square brackets": lambda x, i: x[int(i)],
    "take": lambda x, i: ab.take(x, i),
    "take along an axis": lambda x, i: ab.take(x, i, axis=0),
    "an array of indices": lambda x, i: x[np.array([0, int(i)])],
    "a list of indices": lambda x, i: x[[0, int(i)]],
}


@pytest.mark.proves("F-77")
@pytest.mark.parametrize("index", [10, 13, -11])
@pytest.mark.parametrize("spelling", OUT_OF_RANGE)
@pytest.mark.parametrize("x", [np.arange(10), np.arange(10.0)], ids=["integers", "floats"])
def test_an_index_outside_is_refused_and_never_clamped(x, spelling, index):
    calls = [
        lambda: OUT_OF_RANGE[spelling](ab.asarray(x), np.array(index)),
        lambda: ab.compile(lambda x: OUT_OF_RANGE[spelling](x, np.array(index)))(x),
        lambda: ab.compile(lambda x: OUT_OF_RANGE[spelling](x, np.array(index)), passes=())(x),
    ]
    if x.dtype == np.float64:
        calls.append(lambda: ab.grad(lambda x: ab.sum(OUT_OF_RANGE[spelling](x, index)))(x))
    for call in calls:
        with pytest.raises(ab.OutOfRangeError) as caught:
            call()
        assert isinstance(caught.value, IndexError)
        assert f"index {index} is outside axis 0 of length 10" in str(caught.value)


@pytest.mark.proves("F-77")
@pytest.mark.parametrize("index", [10, 13, -11])
@pytest.mark.parametrize("f", [ab.take, lambda x, i: ab.take(x, i, axis=0)])
def test_a_traced_index_is_checked_at_each_run(f, index):
    pick = ab.compile(f)
    slope = ab.compile(ab.grad(f))
    by_hand = ab.Graph("by hand")
    x, i = by_hand.parameter("x", (10,), ab.float64), by_hand.parameter("i", (), ab.int64)
    run = by_hand.compile(f(x, i))
    values = np.arange(10.0)
    for call in (pick, slope, run):
        for legal in (0, 9, -10):
            call(values, np.array(legal))
        with pytest.raises(ab.OutOfRangeError, match=f"index {index} is outside axis 0"):
            call(values, np.array(index))
    assert float(pick(values, np.array(-10))) == 0.0
    assert float(run(values, np.array(9))) == 9.0


@pytest.mark.proves("F-77")
@pytest.mark.parametrize("label", [10, 13, -1])
def test_neither_labels_nor_updates_are_clamped(label):
    for call in (
        lambda i: ab.one_hot(i, 10),
        lambda i: ab.cross_entropy(np.zeros((1, 10)), i),
        lambda i: ab.compile(lambda i: ab.one_hot(i, 10))(i),
    ):
        with pytest.raises(ab.OutOfRangeError):
            call(np.array([label]))
    if label > 0:
        with pytest.raises(ab.OutOfRangeError):
            ab.scatter_add(np.zeros(10), np.array([label]), np.ones(1))


def test_labels_may_be_a_list():
    scores = np.log([[0.25, 0.75]])
    assert float(ab.cross_entropy(scores, [1])) == pytest.approx(-np.log(0.75))
    assert float(ab.cross_entropy(scores, [[0.0, 1.0]])) == pytest.approx(-np.log(0.75))


def test_slices_end_where_the_axis_ends_as_in_python(grad):
    x = np.arange(10.0)
    assert np.asarray(ab.slice(x, slice(7, 13))).tolist() == [7.0, 8.0, 9.0]
    assert np.asarray(ab.slice(x, slice(13, 15))).tolist() == []
    assert grad(lambda x: ab.sum(x[7:13]))(x).tolist() == [0.0] * 7 + [1.0] * 3
    assert grad(lambda x: ab.sum(x[13:15]))(x).tolist() == [0.0] * 10


# Dtypes.


@pytest.mark.proves("F-79")
@pytest.mark.parametrize(
    "power",
    [
        lambda n: 1 / ab.power(256, n),
        lambda n: 1 / 256**n,
        lambda n: 1 / ab.power(256.0, n),
        lambda n: 256.0**-n,
        lambda n: ab.power(np.int64(256), n) ** -1.0,
        lambda n: ab.exp(-n * np.log(256.0)),
    ],
)
def test_a_power_of_integers_does_not_overflow_early(power):
    n = np.array([1, 2, 3, 4])
    for found in (power(ab.asarray(n)), ab.compile(power)(n)):
        assert np.asarray(found) == pytest.approx([2.0**-8, 2.0**-16, 2.0**-24, 2.0**-32])
        assert f"{float(np.asarray(found)[-1]):.6e}" == "2.328306e-10"


def test_a_negative_power_of_an_integer_array_is_refused_or_a_float():
    """Python and NumPy differ; a truncated 0 would be the worst of all answers."""
    try:
        found = ab.asarray(np.array([2, 4])) ** -1
    except (ab.AnabranchError, ValueError):
        return
    assert np.asarray(found).tolist() == [0.5, 0.25]


def norm(x, axis):
    return ab.sqrt(ab.sum(x * x, axis=axis))


@pytest.mark.proves("F-81")
@pytest.mark.parametrize(
    "steps",
    [
        lambda x: ab.sum(norm(x[1:] - x[:-1], axis=1) ** 2),
        lambda x: ab.sum(ab.square(norm(x[1:] - x[:-1], axis=1))),
        lambda x: ab.sum((x[1:] - x[:-1]) ** 2),
        lambda x: sum(norm(x[t + 1] - x[t], axis=0) ** 2 for t in range(3)),
    ],
)
def test_integer_data_has_a_floating_gradient(steps):
    """One of the steps has the length 0, where the norm itself has no slope."""
    data = [[1], [0], [0], [1]]
    wanted = [[2.0], [-2.0], [-2.0], [2.0]]
    leaf = ab.tensor(np.array(data), requires_grad=True)
    with np.errstate(all="ignore"):
        steps(leaf).backward()
        from_tensor = ab.grad(steps)(ab.tensor(np.array(data)))
        from_floats = ab.grad(steps)(np.array(data, np.float64))
    assert leaf.grad.dtype == from_floats.dtype == np.float64
    assert leaf.grad.tolist() == from_tensor.numpy().tolist() == from_floats.tolist() == wanted


INTEGERS = {
    "arrays": (np.array(1), np.array(2)),
    "longer arrays": (np.array([1, 2]), np.array([3, 4])),
    "unsigned": (np.array([1], np.uint8), np.array([2], np.uint8)),
    "scalars": (np.int64(1), np.int64(2)),
    "bools": (np.array([True]), np.array([False])),
    "kept integers": (ab.asarray(np.array([1])), ab.asarray(np.array([2]))),
}


@pytest.mark.proves("F-57")
@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("transform", ["grad", "value_and_grad", "vjp", "jvp", "compiled"])
def test_derivatives_by_integers_are_refused_by_name_and_dtype(transform, kind):
    a, b = INTEGERS[kind]

    def area(height, width):
        return ab.sum(ab.astype(height, ab.float64) * width)

    calls = {
        "grad": lambda: ab.grad(area, "width")(a, b),
        "value_and_grad": lambda: ab.value_and_grad(area, 1)(a, b),
        "vjp": lambda: ab.vjp(lambda width: area(a, width), b),
        "jvp": lambda: ab.jvp(lambda width: area(a, width), (b,), (np.ones(b.shape),)),
        "compiled": lambda: ab.compile(ab.grad(area, 1))(a, b),
    }
    with pytest.raises(ab.DTypeError, match="integer-gradient") as caught:
        calls[transform]()
    assert isinstance(caught.value, TypeError)
    assert '"width"' in caught.value.sentence
    assert {"i": "i64", "u": "u8", "b": "bool"}[b.dtype.kind] in caught.value.sentence


@pytest.mark.proves("F-57")
def test_integers_inside_a_container_are_named_by_their_path():
    model = {"gain": np.array([0.5]), "steps": np.array([1, 2])}
    with pytest.raises(ab.DTypeError, match="steps"):
        ab.grad(lambda model: ab.sum(model["gain"]) * 2.0)(model)
    wanted = ab.grad(lambda gain: ab.sum(gain) * 2.0)(model["gain"])
    assert wanted.tolist() == [2.0]


def test_a_recorded_integer_is_refused_and_a_made_float_is_not():
    with pytest.raises(ab.DTypeError):
        ab.tensor(np.array([1, 2]), dtype=np.int64, requires_grad=True)
    assert ab.tensor([1, 2], requires_grad=True).dtype == np.float64


UNUSED = {
    "not read": lambda used, spare: used * 2.0,
    "read, then dropped": lambda used, spare: (used * 2.0, spare * 3.0)[0],
    "behind a stop": lambda used, spare: used * 2.0 + 0.0 * ab.stop_gradient(spare),
    "in a comparison": lambda used, spare: ab.where(spare > 0.0, used * 2.0, used * 2.0),
    "as an integer": lambda used, spare: used * 2.0 + ab.astype(spare, ab.int64) * 0,
}


@pytest.mark.proves("F-59")
@pytest.mark.parametrize("reason", UNUSED)
@pytest.mark.parametrize("outer", [lambda f: f, ab.compile], ids=["called", "compiled"])
def test_a_parameter_that_the_result_does_not_depend_on(outer, reason):
    f = UNUSED[reason]
    spare = np.array(3.0)
    assert float(outer(ab.grad(f, 1))(1.0, spare)) == 0.0
    assert outer(ab.grad(f, 1, unused="none"))(1.0, spare) is None
    with pytest.raises(ab.NoGradientError, match="spare"):
        outer(ab.grad(f, "spare", unused="raise"))(1.0, spare)
    used, zero = outer(ab.grad(f, (0, 1)))(1.0, spare)
    assert (float(used), float(zero)) == (2.0, 0.0)


@pytest.mark.proves("F-59")
def test_zeros_for_what_is_unused_have_its_shape_and_dtype():
    for shape, dtype in (((2, 3), np.float32), ((0,), np.float16), ((), ab.bfloat16)):
        found = ab.grad(lambda a, b: a * 1.0, 1)(1.0, np.ones(shape, dtype))
        assert (found.shape, found.dtype) == (shape, dtype)
        assert not found.any()


@pytest.mark.proves("F-61")
@pytest.mark.parametrize("two", [2, 2.0, np.float64(2.0), True + True])
def test_a_number_that_is_differentiated_is_a_float(two):
    assert round(float(ab.tanh(two)), 6) == 0.964028
    for slope in (ab.grad(ab.tanh), ab.compile(ab.grad(ab.tanh)), ab.grad(ab.compile(ab.tanh))):
        assert round(float(slope(two)), 6) == 0.070651
    out, tangent = ab.jvp(ab.tanh, (two,), (1.0,))
    assert round(float(tangent), 6) == 0.070651
    out, pullback = ab.vjp(ab.tanh, two)
    assert round(float(pullback(1.0)[0]), 6) == 0.070651
    assert round(float(out), 6) == 0.964028


@pytest.mark.proves("F-61")
def test_lists_and_containers_of_numbers_are_floats_too():
    found = ab.grad(lambda model: ab.tanh(model["x"]) + ab.tanh(model["more"][0]))(
        {"x": 2, "more": [2]}
    )
    assert round(float(found["x"]), 6) == round(float(found["more"][0]), 6) == 0.070651


def test_an_integer_argument_beside_a_floating_one_stays_an_integer():
    def f(x, n):
        return ab.sum(ab.take(x, n))

    assert ab.grad(f)(np.array([1.0, 2.0]), np.array([1, 1])).tolist() == [0.0, 2.0]
    assert ab.grad(lambda x, n: x**n)(3.0, 2) == 6.0
