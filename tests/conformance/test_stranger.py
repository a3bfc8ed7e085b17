"""A user's own op: twelve lines of a record beside this file, and everything works on it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import anabranch as ab
from anabranch.testing import check_op, temporary_ops

FILE = Path(__file__).with_name("softsign.py")
pytestmark = pytest.mark.proves("S0-05")


@pytest.fixture
def softsign():
    spec = importlib.util.spec_from_file_location("softsign", FILE)
    module = importlib.util.module_from_spec(spec)
    with temporary_ops():
        spec.loader.exec_module(module)
        yield module.softsign


def test_the_record_takes_twelve_lines():
    assert len(FILE.read_text().splitlines()) == 12


def test_it_passes_the_suite_of_the_librarys_own_ops(softsign):
    assert check_op(softsign).ok


def test_it_shows_in_listings(softsign):
    assert "#1 softsign(#0) : f64[3]" in str(ab.trace(lambda x: softsign(x), np.ones(3)))


def test_it_has_gradients_in_every_front_end(softsign):
    x = np.array([1.0, -3.0])
    wanted = [0.25, 0.0625]
    t = ab.tensor(x, requires_grad=True)
    ab.sum(softsign(t)).backward()
    assert t.grad.tolist() == wanted

    def loss(x):
        return ab.sum(softsign(x))

    assert ab.grad(loss)(x).tolist() == wanted
    assert ab.compile(ab.grad(loss))(x).tolist() == wanted
    assert ab.check_gradients(lambda x: softsign(x) * x, x).ok


def test_what_is_wrong_with_a_record_is_said():
    with temporary_ops():
        cube = ab.elementwise(
            "cube", lambda x: x * x * x, partials=(lambda y, x: 2 * x * x,), doc="x cubed."
        )
        with pytest.raises(AssertionError, match="cube fails 3 checks") as caught:
            check_op(cube)
        report = caught.value.details["report"]
    assert "no sample with a value" in report.failed["is_complete"]
    assert "is wrong" in report.failed["reverse_agrees"]
    assert "FAIL  reverse agrees" in str(report)
