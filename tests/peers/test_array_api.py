"""The standard's namespace beside a strict implementation of it, and in the hands of SciPy."""

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

import anabranch as ab
from anabranch import xp
from anabranch.frontends.array_api import table

strict = pytest.importorskip("array_api_strict")
compat = pytest.importorskip("array_api_compat")
pytestmark = [pytest.mark.peers, pytest.mark.slow]
FUNCTIONS = [(name, "") for name, *_ in table.rows()]
FUNCTIONS += [(name, "linalg") for name, *_ in table.rows("linalg")]
LATER = {"broadcast_shapes", "isin"}  # of a later version than ours
NOT_OF_THE_STANDARD = {"ArrayAPIStrictFlags", "Device", "ModuleType"}
COMPLEX_RESULTS = {"eig", "eigvals"}  # of a later version too
# What SciPy computes without changing an array in place.
IN_SCIPY = """
special.softmax(x, axis=1)
special.expit(x)
special.entr(x)
special.xlogy(x, x)
stats.variation(x, axis=1)
stats.moment(x, order=3, axis=1)
stats.skew(x, axis=1)
stats.kurtosis(x, axis=1)
stats.gmean(x, axis=1)
stats.hmean(x, axis=1)
stats.sem(x, axis=1)
stats.entropy(x, axis=1)
stats.ttest_1samp(x, 1.0, axis=1).statistic
integrate.trapezoid(x, axis=1)
signal.detrend(x, axis=1)
ndimage.gaussian_filter(x, 1.0)
"""
PROGRAM = """
import sys
import numpy as np
from scipy import integrate, ndimage, signal, special, stats
import anabranch as ab

n = np.array([[1.0, 2.0, 3.0], [4.0, 6.0, 5.5]])
for line in sys.stdin.read().split("\\n"):
    if line:
        found, wanted = (eval(line, globals() | {"x": x}) for x in (ab.asarray(n), n))
        assert type(found) is ab.Tensor, line
        np.testing.assert_allclose(found.numpy(), wanted, err_msg=line)
        print(line)
"""


def of(room, module):
    return getattr(module, room) if room else module


@pytest.mark.parametrize(("name", "room"), FUNCTIONS)
def test_a_function_takes_what_the_strict_one_takes(name, room):
    mine = inspect.signature(getattr(of(room, xp), name)).parameters.values()
    its = inspect.signature(getattr(of(room, strict), name)).parameters.values()
    assert [p.name for p in mine] == [p.name for p in its]
    for p, q in zip(mine, its, strict=True):
        if name != "expand_dims":  # whose axis ours takes by name and without, for it changed
            assert p.kind == q.kind
            assert p.default == q.default or "UNDEF" in str(q.default)


def test_no_name_is_missing():
    with strict.ArrayAPIStrictFlags(api_version=table.VERSION):
        names = {n for n in dir(strict) if not n.startswith("_") and "strict_flags" not in n}
        assert names - set(dir(xp)) <= LATER | NOT_OF_THE_STANDARD
        inside = {n for n in strict.linalg.__all__ if not n.endswith("Result")}
        assert inside - set(dir(xp.linalg)) <= COMPLEX_RESULTS


def test_the_common_helpers_know_our_values():
    x = ab.asarray(np.ones((2, 3)))
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x, x) is xp
    assert (compat.device(x), compat.size(x)) == ("cpu", 6)
    assert compat.to_device(x, "cpu") is x


def test_scipy_computes_with_our_values():
    """In a process of its own: SciPy looks once whether it may."""
    pytest.importorskip("scipy", "1.15")
    path = os.pathsep.join(filter(None, [*sys.path]))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        input=IN_SCIPY,
        capture_output=True,
        text=True,
        env=os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": path},
        check=False,
    )
    assert ran.stdout.strip() == IN_SCIPY.strip(), ran.stderr


def test_strict_arrays_come_in_and_ours_go_there():
    theirs = strict.asarray([1.0, 2.0])
    assert xp.from_dlpack(theirs).numpy().tolist() == [1.0, 2.0]
    torch = pytest.importorskip("torch")
    x = ab.asarray(np.array([1.0, 2.0]))
    assert torch.from_dlpack(x).tolist() == [1.0, 2.0]
    shared = torch.arange(2.0)
    y = xp.from_dlpack(shared, copy=False)
    shared[0] = 9.0
    assert y.numpy().tolist() == [9.0, 1.0]
