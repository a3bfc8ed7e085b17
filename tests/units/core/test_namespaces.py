"""A dot in a registered name is a namespace: `linalg.solve` is found as `ab.linalg.solve`."""

import importlib
import pickle

import numpy as np
import pytest

import anabranch as ab
from anabranch.core.op import PublicFunctions
from anabranch.core.registry import functions


def test_a_namespace_holds_ops_and_composed_functions_of_its_name() -> None:
    names = {name.removeprefix("linalg.") for name in functions() if name.startswith("linalg.")}
    assert {"solve", "norm"} <= names == set(PublicFunctions("linalg"))
    assert all(getattr(ab.linalg, name).__name__ == name for name in names)
    assert not {"solve", "norm", "linalg.solve"} & set(PublicFunctions())


@pytest.mark.parametrize("name", ["solve", "norm"])
def test_its_functions_say_where_they_live(name: str) -> None:
    function = getattr(ab.linalg, name)
    assert function.__module__ == "anabranch.linalg"
    assert getattr(importlib.import_module("anabranch.linalg"), name) is function
    assert pickle.loads(pickle.dumps(function)) is function


def test_listings_print_the_whole_name_and_read_it_back() -> None:
    graph = ab.trace(lambda x: ab.linalg.norm(ab.linalg.inv(x)), np.eye(2))
    assert "= linalg.inv(#0)" in str(graph) or "linalg.inv(#0) : f64[2,2]" in str(graph)
    assert ab.structure_hash(ab.parse(str(graph))) == ab.structure_hash(graph)
    assert graph.nodes[-1].scope == "linalg.norm"


def test_numpys_function_of_the_same_name_leads_there() -> None:
    x = ab.tensor(np.eye(2), requires_grad=True)
    with pytest.raises(ab.ArgumentError, match=r"np\.linalg\.inv computes") as caught:
        np.linalg.inv(x)  # type: ignore[call-overload]
    assert caught.value.hint == "ab.linalg.inv(...)"


def test_pythons_own_complaint_names_the_function() -> None:
    with pytest.raises(TypeError, match=r"linalg\.cholesky\(\)"):
        ab.linalg.cholesky(np.eye(2), bottom=True)
