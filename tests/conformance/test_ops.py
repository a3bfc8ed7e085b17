"""The suite of `anabranch.testing` on every op of the library, and on records it must refuse."""

import numpy as np
import pytest

from anabranch.core.aval import aval_of
from anabranch.core.leaves import LEAVES
from anabranch.core.op import NoGradient, Unsupported
from anabranch.core.registry import registered_ops
from anabranch.testing.cases import cases, outputs_of
from anabranch.testing.conformance import CHECKS
from anabranch.testing.derivatives import (
    forward_agrees,
    reverse_agrees,
    second_order_agrees,
    swapped,
)

OPS = [op for op in registered_ops() if op not in LEAVES]


# Eight graphs for each sample: in the fast tier other tests see that front ends agree.
LATER = {"front_ends_agree"}
IN_TIERS = [pytest.param(c, marks=pytest.mark.slow) if c in LATER else c for c in CHECKS]


def smooth_slots(op):
    # Some ops take any number of inputs: as many count as their samples have.
    most = max((len(sample.inputs) for sample in op.samples), default=op.inputs)
    rules = map(op.gradient, range(most))
    return [i for i, rule in enumerate(rules) if not isinstance(rule, NoGradient | Unsupported)]


@pytest.mark.proves("S0-53", "S0-71", "S1-31", "S1-59")
@pytest.mark.parametrize("check", IN_TIERS)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_op(op, check):
    CHECKS[check](op)


@pytest.mark.slow
@pytest.mark.parametrize("check", [reverse_agrees, forward_agrees, second_order_agrees])
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_op_at_many_points(op, check):
    check(op, draws=60)


@pytest.mark.proves("S0-53")
def test_every_op_with_a_derivative_is_compared_with_differences():
    """A record without drawn samples would pass the checks by having nothing to check."""
    for op in OPS:
        compared = {slot for case in cases(op, kinks=False) for slot in case.smooth if case.draw}
        assert compared == set(smooth_slots(op)), op.name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_values_have_the_type_that_was_inferred(dtype):
    """Where a sample is taken with complex operands: buffers are made by what was inferred."""
    seen = set()
    for given in (case for op in OPS for case in cases(op, draws=1, kinks=False)):
        case = given.at(tuple(x.astype(dtype) if x.dtype.kind == "f" else x for x in given.xs))
        if case.is_allowed and any(x.dtype == dtype for x in case.xs):
            inferred = case.op.aval(*map(aval_of, case.xs), **case.attrs)
            found = case.op.ref(*case.values, **case.attrs)
            wanted = [y.dtype for y in outputs_of(inferred)]
            assert [y.dtype for y in outputs_of(found)] == wanted, str(case)
            seen.add(case.op.name)
    assert {"absolute", "real", "multiply", "linalg.svd"} <= seen


PAIRS = [op for op in OPS if len(smooth_slots(op)) > 1]
SAME_EITHER_WAY = {"add", "floor_divide"}


@pytest.mark.proves("S0-70")
@pytest.mark.parametrize("op", PAIRS, ids=lambda op: op.name)
def test_swapped_gradients_are_caught(op):
    i, j = smooth_slots(op)[:2]
    with swapped(op, i, j) as mutant:
        if op.name in SAME_EITHER_WAY:
            reverse_agrees(mutant)
        else:
            with pytest.raises(Exception, match=r"wrong|must give"):
                reverse_agrees(mutant)
