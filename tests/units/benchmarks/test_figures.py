"""Medians with their spread, ratios, and whether two peers agree."""

import math

import numpy as np
import pytest

import figures

INF, NAN = math.inf, math.nan


def test_median_and_quartiles():
    told = figures.spread([5.0, 1.0, 2.0, 4.0, 3.0])
    assert told == {"median": 3.0, "low": 2.0, "high": 4.0, "least": 1.0}
    told = figures.spread([3.0, 1.0])
    assert told == {"median": 2.0, "low": 1.5, "high": 2.5, "least": 1.0}
    assert figures.spread([7.0]) == {"median": 7.0, "low": 7.0, "high": 7.0, "least": 7.0}


def test_ratios_are_taken_round_by_round():
    """What slows a whole round down, ours and theirs, is no difference between them."""
    ours, theirs = [1.0, 10.0, 1.0, 5.0], [2.0, 20.0, 2.0, 10.0]
    assert figures.ratio(theirs, ours) == dict.fromkeys(("median", "low", "high", "least"), 2.0)


def test_with_other_rounds_the_median_of_ours_is_compared_with():
    assert figures.ratio([4.0, 8.0, 6.0], [1.0, 2.0, 3.0, 2.0])["median"] == 3.0
    assert figures.ratio([4.0], []) is None
    assert figures.ratio([4.0], [0.0]) is None


@pytest.mark.parametrize(
    ("wanted", "found", "gap"),
    [
        ([1.0, 100.0], [1.0, 100.0], 0.0),
        ([1.0, 100.0], [2.0, 100.0], 0.01),  # by the largest entry of the array
        ([0.0], [0.5], 0.5),  # of zeros, by one
        ([], [], 0.0),
        ([1.0], [1.0, 1.0], INF),
        ([1.0], [NAN], INF),
        ([NAN, 2.0], [NAN, 2.0], 0.0),
        ([NAN], [1.0], INF),
        ([INF, 2.0], [INF, 1.0], 0.5),
        ([INF], [-INF], INF),
        ([1.0], [INF], INF),
    ],
)
def test_how_far_two_peers_are_apart(wanted, found, gap):
    assert figures.disagreement({"x": wanted}, {"x": found}) == gap


def test_a_missing_array_agrees_with_nothing():
    assert figures.disagreement({"x": [1.0], "y": [1.0]}, {"x": [1.0]}) == INF


def test_each_array_has_a_scale_of_its_own():
    wanted, found = {"big": [1e6], "small": [1.0]}, {"big": [1e6], "small": [1.5]}
    assert figures.disagreement(wanted, found) == 0.5


def test_a_long_array_is_sampled_and_its_norm_sees_the_rest():
    values = np.ones(100_001)
    told = figures.numbers({"x": values})["x"]
    assert 1_000 < len(told) <= figures.MOST + 1
    assert told[-1] == pytest.approx(math.sqrt(100_001))
    changed = values.copy()
    changed[1:] = 1.5
    changed[:: 2 * changed.size // figures.MOST] = 1.0  # what the sample sees is as before
    gap = figures.disagreement({"x": told}, figures.numbers({"x": changed}))
    assert gap > 0.1


def test_a_number_is_told_with_its_size():
    assert figures.numbers({"z": np.float32(-2)}) == {"z": [-2.0, 2.0]}


def test_rounds_fill_the_time_within_bounds():
    assert figures.rounds_that_fit(10.0, 1.0, 3, 15) == 10
    assert figures.rounds_that_fit(-5.0, 1.0, 3, 15) == 3
    assert figures.rounds_that_fit(1e9, 1.0, 3, 15) == 15
    assert figures.rounds_that_fit(10.0, 0.0, 3, 15) == 15
