"""Where NaN and infinities began: one program a cause, by every way to build it."""

import numpy as np
import pytest

import anabranch as ab

pytestmark = pytest.mark.usefixtures("noiseless")

inf, nan = np.inf, np.nan


def first(report):
    trace = report.trace
    return trace, next((f for f in trace.findings if f.kind.startswith("first-")), None)


def line_of(trace, finding):
    return trace.line(trace.nodes[finding.node])[2]


# Each: the program, its argument, kind, cause, op of the producer, the first index, the words.
def overflow(x):
    e = ab.exp(x)
    return ab.sum(e)


def overflowing_product(x):
    p = x * 1e300
    return ab.sum(p)


def log_of_zero(x):
    y = ab.log(x)
    return ab.sum(y)


def division_by_zero(x):
    y = 1.0 / x
    return ab.sum(y)


def log_of_negative(x):
    y = ab.log(x)
    return ab.sum(y)


def root_of_negative(x):
    y = ab.sqrt(x)
    return ab.sum(y)


def zero_over_zero(x):
    y = x / (x * 1.0)
    return ab.sum(y)


def inf_minus_inf(x):
    big = ab.where(x > 5.0, inf, x)
    y = big - big
    return ab.sum(y)


def inf_over_inf(x):
    big = ab.where(x > 0.0, inf, 1.0)
    y = big / big
    return ab.sum(y)


def zero_times_inf(x):
    y = ab.where(x > 5.0, inf, x) * ab.where(x > 5.0, 0.0, x)
    return ab.sum(y)


def from_the_data(x):
    y = x * 2.0
    return ab.sum(y)


def sums_that_overflow(x):
    y = ab.sum(x * 1e308)
    return y * 1.0


FORWARD = {
    overflow: (
        [1.0, 812.3],
        "inf",
        "overflow",
        "exp",
        [1],
        "larger than float64 holds above 709.8",
    ),
    overflowing_product: ([1.0, 1e10], "inf", "overflow", "multiply", [1], "1e+10 * 1e+300 is"),
    sums_that_overflow: ([1.5, 1.5], "inf", "overflow", "sum", [], "largest operands 1.5e+308"),
    log_of_zero: ([1.0, 0.0], "inf", "pole", "log", [1], "log of zero"),
    division_by_zero: ([1.0, 0.0], "inf", "pole", "divide", [1], "division by zero"),
    log_of_negative: ([1.0, -3.0], "nan", "domain", "log", [1], "log(-3) has no value"),
    root_of_negative: ([4.0, -1.0], "nan", "domain", "sqrt", [1], "sqrt(-1) has no value"),
    zero_over_zero: ([1.0, 0.0], "nan", "0/0", "divide", [1], "0 / 0 has no value"),
    inf_minus_inf: ([1.0, 6.0], "nan", "inf-inf", "subtract", [1], "inf - inf has no value"),
    inf_over_inf: ([-1.0, 6.0], "nan", "inf/inf", "divide", [1], "inf / inf has no value"),
    zero_times_inf: ([1.0, 6.0], "nan", "0*inf", "multiply", [1], "inf * 0 has no value"),
    from_the_data: ([1.0, nan], "nan", "data", "input", [1], "x came in with NaN"),
}


@pytest.mark.parametrize("way", ["eager", "function", "compiled", "by hand"])
@pytest.mark.parametrize("program", FORWARD, ids=lambda program: program.__name__)
@pytest.mark.proves("S0-63", "S0-65")
def test_the_producer_is_named_with_cause_index_and_line(program, way):
    values, kind, cause, op, index, words = FORWARD[program]
    x = np.array(values)
    if way == "eager":
        report = ab.inspect(program(ab.tensor(x, requires_grad=True, name="x")))
    elif way == "function":
        report = ab.inspect(program, x)
    elif way == "compiled":
        report = ab.inspect(ab.compile(program, passes=()), x)
    else:
        g = ab.Graph("by hand")
        report = ab.inspect(program(g.parameter("x", x.shape, x.dtype)), x)
    trace, found = first(report)
    assert (found.kind, found.cause, found.phase) == (f"first-{kind}", cause, "forward")
    assert (trace.nodes[found.node].op, found.index) == (op, index)
    assert words in found.text
    assert found.reaches_root and trace.root in [found.node, *found.reaches]
    if op != "input":
        assert line_of(trace, found).startswith(("y =", "e =", "p =", "z ="))
    assert found == report.why().finding
    # The search through all values by brute force finds the same.
    bad = [i for i, node in enumerate(trace.nodes) if not np.isfinite(flat(node.value)).all()]
    made = [i for i in bad if i not in found.reaches and not is_mask(trace, i)]
    assert made[0] == found.node


def flat(value):
    return np.array(value.flat(), float)


def is_mask(trace, number):
    """Whether an infinity stands in the program itself."""
    return trace.nodes[number].op == "where" and "inf" in trace.nodes[number].formula


def test_the_proof_holds_operands_and_their_ranges():
    h = np.zeros((4, 3))
    h[2, 0], h[1, 1] = 812.3, -7.0
    _, found = first(ab.inspect(overflow, h))
    assert found.index == [2, 0]
    assert (found.bad, found.of) == (1, 12)
    operand, made = found.proof
    assert (operand.label, operand.v, operand.index) == ("x[2, 0]", 812.3, [2, 0])
    assert (operand.summary.min, operand.summary.max) == (-7.0, 812.3)
    assert (made.label, made.v, made.note) == ("e[2, 0]", inf, "exp(812.3) = inf")


def test_producer_and_carriers_are_told_apart():
    def softmax(h):
        e = ab.exp(h)
        p = e / ab.sum(e, axis=1, keepdims=True)
        return ab.sum(p)

    h = np.zeros((4, 3))
    h[2, 0] = 812.3
    trace, found = first(ab.inspect(softmax(ab.tensor(h, requires_grad=True))))
    assert trace.nodes[found.node].label == "e"
    assert trace.nodes[found.becomes].label == "p"
    turned = found.proof[-1]
    assert (turned.label, turned.note) == ("p[2, 0]", "inf / inf = nan")
    assert [trace.nodes[i].op for i in found.reaches] == ["sum", "divide", "sum"]
    others = [f for f in trace.findings if f is not found]
    assert others == []


@pytest.mark.parametrize("squash", [lambda h: h * 0.5, ab.tanh], ids=["reaches", "is swallowed"])
@pytest.mark.proves("S0-06")
def test_a_fault_is_found_in_whatever_layer_it_sits(squash, layers=5):
    named = []
    for faulty in range(layers):
        x = ab.tensor([0.5, 1.0], requires_grad=True)
        h = x
        for k in range(layers):
            with ab.scope(f"layer{k}"):
                h = squash(h) + (ab.log(h * 0.0) if k == faulty else 1.0)
        report = ab.inspect(ab.sum(h))
        trace, found = report.trace, report.why().finding
        assert found.text == "log of zero"
        named.append(trace.scopes[trace.nodes[found.node].scope].name)
    assert named == [f"layer{k}" for k in range(layers)]


def test_of_two_producers_the_first_comes_first():
    def f(x):
        y = ab.log(x)
        z = ab.exp(x + 1000.0)
        return ab.sum(y) + ab.sum(z)

    trace = ab.inspect(f, np.array([0.0, 1.0])).trace
    assert [(f.kind, trace.nodes[f.node].op) for f in trace.findings] == [
        ("first-inf", "log"),
        ("inf", "exp"),
    ]


# Backward


def root_at_zero(x):
    y = ab.sqrt(x)
    return ab.sum(y)


def product_that_overflows(x):
    y = ab.exp(x * 1e200)
    z = y * 1e200
    return ab.sum(z)


BACKWARD = {
    root_at_zero: ([0.0, 4.0], "inf", "infinite-derivative", "sqrt", [0], "sqrt at 0 is inf"),
    product_that_overflows: ([0.0, 0.0], "inf", "overflow", "multiply", [0], "larger than float64"),
}


@pytest.mark.parametrize("program", BACKWARD, ids=lambda program: program.__name__)
@pytest.mark.proves("S0-65")
def test_the_backward_producer_is_named_after_a_clean_forward(program):
    values, kind, cause, op, index, words = BACKWARD[program]
    report = ab.inspect(program, np.array(values))
    trace, found = first(report)
    assert (found.kind, found.cause, found.phase) == (f"first-{kind}", cause, "backward")
    assert (trace.nodes[found.node].op, found.index) == (op, index)
    assert words in found.text
    edge = trace.edges[found.edge]
    assert edge.to == found.node
    assert "x" in [trace.nodes[i].label for i in found.reaches]
    told = report.why("x")
    assert (told.kind, told.cause) == ("bad-gradient", cause)


def test_a_sum_of_contributions_that_overflows_is_told():
    def f(x):
        return x * 1.5e308 + x * 1.5e308

    trace, found = first(ab.inspect(f, 0.0))
    assert (found.cause, trace.nodes[found.node].label) == ("overflow", "x")
    assert "their sum is not" in found.text


def test_a_cotangent_that_is_not_finite_is_told():
    trace, found = first(ab.inspect(lambda x: x * 2.0, 1.0, ct=nan))
    assert (found.phase, found.cause, found.node) == ("backward", "data", trace.root)


def test_forward_comes_before_backward():
    def f(x):
        return ab.sum(ab.log(x)) + ab.sum(ab.sqrt(x))

    trace, found = first(ab.inspect(f, np.array([0.0, 1.0])))
    assert (found.phase, trace.nodes[found.node].op) == ("forward", "log")


def test_the_derivative_of_a_gradient_is_searched_too():
    x = ab.tensor(0.0, requires_grad=True, name="x")
    (slope,) = ab.gradients(x**1.5, [x], record=True)
    report = ab.inspect(slope)
    trace, found = first(report)
    assert found.phase == "backward"
    assert trace.nodes[found.node].origin.op == "power"
    assert report.why("x").kind == "bad-gradient"


def test_a_gradient_computed_inside_the_graph_is_backward():
    report = ab.inspect(ab.compile(ab.grad(lambda x: ab.sum(ab.sqrt(x)))), np.array([0.0, 4.0]))
    trace, found = first(report)
    assert found.phase == "backward"
    assert trace.nodes[found.node].origin.op == "sqrt"


# What does no harm


def test_what_does_not_reach_the_result_is_listed_as_such():
    def f(x):
        y = ab.where(x > 0.0, ab.sqrt(x), 0.0)
        return ab.sum(y)

    report = ab.inspect(f, np.array([-1.0, 4.0]))
    (found,) = report.trace.findings
    assert (found.kind, found.reaches_root, found.index, found.bad) == ("nan", False, [0], 1)
    assert report.trace.find("x")[0].grad.v == [0.0, 0.25]


def test_edges_where_a_zero_absorbed_an_infinity_are_listed():
    def f(x):
        return ab.sum(ab.where(x > 0.0, ab.sqrt(x), 0.0))

    trace = ab.inspect(f, np.array([0.0, 4.0, 0.0])).trace
    (edge,) = [edge for edge in trace.edges if edge.absorbed]
    assert (trace.nodes[edge.to].op, edge.absorbed) == ("sqrt", 2)
    assert [note.kind for note in trace.notes] == ["absorbed"]
    assert trace.findings == []


def test_infinite_masks_are_no_findings():
    mask = np.array([0.0, -inf])

    def f(x):
        return ab.sum(ab.softmax(x + mask) * x) + ab.sum(ab.exp(ab.where(x > 1.5, -inf, x)))

    report = ab.inspect(f, np.array([1.0, 2.0]))
    assert report.trace.findings == []
    assert not report.why().is_trouble


def test_a_row_of_nothing_but_masks_is_a_finding():
    mask = np.array([-inf, -inf])
    x = ab.tensor([1.0, 2.0], requires_grad=True)
    y = ab.exp(x + mask)
    trace, found = first(ab.inspect(ab.sum(y / ab.sum(y))))
    assert (found.cause, trace.nodes[found.node].op) == ("0/0", "divide")


# Growing and fading


def chain(std, dtype=np.float64, depth=400, width=64):
    rng = np.random.default_rng(0)
    x = ab.tensor(rng.normal(size=(1, width)).astype(dtype), requires_grad=True, name="x")
    h, values = x, []
    for k in range(depth):
        w = ab.tensor(
            rng.normal(0.0, std, (width, width)).astype(dtype), requires_grad=True, name=f"w{k}"
        )
        h = h @ w
        values.append(h)
    return ab.sum(h), values


@pytest.mark.proves("S0-64", "S0-66", "S0-67")
def test_growth_is_named_with_the_first_layer_that_overflows():
    loss, values = chain(1.0)
    layer = next(k for k, h in enumerate(values) if not np.isfinite(h.data).all())
    trace, found = first(ab.inspect(loss))
    assert (found.kind, found.cause) == ("first-inf", "growth")
    assert trace.written(trace.nodes[found.node]) == f"h @ w{layer}"
    assert "grew to that over" in found.text
    grown = next(e for e in found.proof if e.label.startswith("first above 1e+06"))
    over = next(k for k, h in enumerate(values) if np.abs(h.data).max() > 1e6)
    assert trace.written(trace.nodes[grown.node]) == f"h @ w{over}"
    ranges = [e.summary for e in found.proof if e.summary is not None]
    assert len(ranges) == 2
    assert all(one.min < 0 < one.max for one in ranges)


@pytest.mark.proves("S0-67")
def test_fading_is_named_with_the_first_layer_that_is_exactly_zero():
    loss, values = chain(0.01)
    layer = next(k for k, h in enumerate(values) if not h.data.any())
    report = ab.inspect(loss)
    trace, found = report.trace, report.trace.findings[0]
    assert (found.kind, found.cause, found.phase) == ("vanishing", "shrinking", "forward")
    assert trace.written(trace.nodes[found.node]) == f"h @ w{layer}"
    assert "exactly 0" in found.text
    assert found.proof[-1].v == pytest.approx(0.08, rel=0.05)
    assert len(found.reaches) == 401  # x and every weight


@pytest.mark.slow
def test_a_chain_that_keeps_its_size_is_in_order():
    assert ab.inspect(chain(1 / 8)[0]).trace.findings == []


def test_growth_that_stays_finite_is_told_as_growth():
    found = ab.inspect(chain(1.0, depth=40)[0]).trace.findings[0]
    assert (found.kind, found.cause) == ("exploding", "growth")


def test_gradients_that_fade_are_told():
    def f(x):
        for _ in range(40):
            x = ab.sigmoid(x)
        return ab.sum(x)

    found = ab.inspect(f, np.array([0.5, 1.0])).trace.findings[0]
    assert (found.kind, found.phase) == ("vanishing", "backward")
    assert "fades to" in found.text
