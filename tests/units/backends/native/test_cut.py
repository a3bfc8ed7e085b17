"""Long programs, which are cut into several modules of machine code."""

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import division, program


def layers(x, m):
    for _ in range(8):
        x = ab.tanh(x @ m)
    return x


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 20, 1_500])
def test_equal_functions_are_there_once_whatever_is_cut(monkeypatch, most):
    """Steps in any part, and in any module, call the one that there is."""
    monkeypatch.setattr(program, "MOST_CALLING", most)
    monkeypatch.setattr(division, "LEAST", most)
    rng = np.random.default_rng(0)
    x, m = rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    f = ab.compile(ab.value_and_grad(lambda x, m: layers(x, m).sum(), (0, 1)), backend="native")
    value, slopes = f(x, m)
    wanted, expected = ab.compile(f.function, backend="reference")(x, m)
    np.testing.assert_allclose(value, wanted, rtol=1e-13)
    for found, right in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-14)
    made = f.program(x, m).executable.program
    parts, own = made.ir.count("define i32 @part"), len(made.modules) - len(made.shared)
    assert (parts, own) == (0, 1) if most == 1_500 else min(parts, own) > 3
    assert made.ir.count("define void @loop") < 20
