"""A log on a parameter or constant prints too, once for each run, before what is computed."""

import numpy as np

import anabranch as ab


def test_leaves_print_their_values_at_each_run(capsys) -> None:
    g = ab.Graph("demo")
    x = g.parameter("x", (), ab.float64).log("x")
    c = g.constant(np.array([1.0, 2.0])).log("c")
    run = g.compile((x * c).sum().log("total"))
    assert [float(run(2.0)), float(run(3.0))] == [6.0, 9.0]
    once = "x = {}\nc = [1. 2.]\ntotal = {}\n"
    assert capsys.readouterr().out == once.format(2.0, 6.0) + once.format(3.0, 9.0)
