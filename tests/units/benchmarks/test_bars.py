"""Bars are held against what was measured, and those of the file name what there is."""

import pytest

import bars
import fresh
import harness


def measured(**peers):
    return {"work": {"cases": {"one": {"unit": "us", "peers": peers}}}}


def figure(median, ratio=None):
    row = {"median": median, "low": 0.5 * median, "high": 2.0 * median}
    return row | (
        {"ratio": {"median": ratio, "low": ratio - 1, "high": ratio + 1}} if ratio else {}
    )


def verdict(bar, results):
    (checked,) = bars.check([{"workload": "work", "case": "one", **bar}], results)
    return checked


@pytest.mark.parametrize(("ratio", "word", "factor"), [(6.0, "met", 1.5), (3.0, "missed", 0.75)])
def test_a_ratio_is_met_or_missed_with_its_factor(ratio, word, factor):
    results = measured(anabranch=figure(1.0), jax=figure(9.0, ratio))
    checked = verdict({"peer": "jax", "least": 4}, results)
    assert (checked["verdict"], checked["factor"], checked["value"]) == (word, factor, ratio)
    assert (checked["low"], checked["high"]) == (ratio - 1, ratio + 1)


def test_exactly_what_was_promised_is_met():
    results = measured(anabranch=figure(1.0), jax=figure(4.0, 4.0))
    assert verdict({"peer": "jax", "least": 4}, results)["verdict"] == "met"


@pytest.mark.parametrize(("median", "word", "factor"), [(0.5, "met", 2.0), (4.0, "missed", 0.25)])
def test_a_greatest_figure(median, word, factor):
    checked = verdict({"most": 1.0, "unit": "s"}, measured(anabranch=figure(median)))
    assert (checked["verdict"], checked["factor"]) == (word, factor)


def test_of_several_peers_the_fastest_counts():
    results = measured(anabranch=figure(1.0), numpy=figure(2.0, 2.0), jax=figure(1.5, 1.5))
    checked = verdict({"peer": ["numpy", "jax"], "least": 1}, results)
    assert (checked["best"], checked["value"]) == ("jax", 1.5)
    results["work"]["cases"]["one"]["peers"]["jax"] = {"reason": "not installed"}
    assert verdict({"peer": ["numpy", "jax"], "least": 1}, results)["best"] == "numpy"


def test_another_of_our_columns():
    results = measured(anabranch=figure(9.0), anabranch_raw=figure(2.0), casadi=figure(3.0, 0.3))
    checked = verdict({"peer": "casadi", "least": 1, "ours": "anabranch_raw"}, results)
    assert checked["value"] == 1.5


@pytest.mark.parametrize(
    ("results", "why"),
    [
        ({}, "not run"),
        (measured(jax=figure(1.0)), "not run"),
        (measured(anabranch={"reason": "differs"}, jax=figure(1.0)), "differs"),
        (measured(anabranch=figure(1.0)), "not run"),
        (measured(anabranch=figure(1.0), jax={"reason": "not installed"}), "not installed"),
    ],
)
def test_what_was_not_measured_says_why(results, why):
    checked = verdict({"peer": "jax", "least": 4}, results)
    assert (checked["verdict"], checked["why"]) == ("not measured", why)
    assert "factor" not in checked


def test_of_several_cases_the_worst_is_told():
    row = {"anabranch": figure(1.0)}
    ratios = {"a": 3.0, "b": 1.0, "c": 9.0}
    cases = {name: {"peers": row | {"jax": figure(r, r)}} for name, r in ratios.items()}
    bar = {"workload": "work", "case": ["a", "b", "c", "d"], "peer": "jax", "least": 2}
    (checked,) = bars.check([bar], {"work": {"cases": cases}})
    told = {key: checked[key] for key in ("verdict", "worst", "factor", "met", "measured")}
    assert told == {"verdict": "missed", "worst": "b", "factor": 0.5, "met": 2, "measured": 3}
    (checked,) = bars.check([bar], {})
    assert (checked["verdict"], checked["why"]) == ("not measured", "not run")


def names_of(workload):
    """The cases under which results are saved."""
    if workload.kind == "fresh":
        return {f"{case}: {figure}" for case in workload.cases for figure in workload.figures}
    return set(workload.cases)


def test_each_bar_of_the_file_can_be_measured():
    for bar in bars.read():
        workload = harness.load(bar["workload"])
        cases = [bar["case"]] if isinstance(bar["case"], str) else bar["case"]
        of_other_machines = {c for c in cases if c.endswith("2 threads")}
        assert {*cases} - of_other_machines <= names_of(workload), bar
        assert ("least" in bar) != ("most" in bar)
        peers = [bar["peer"]] if isinstance(bar.get("peer"), str) else bar.get("peer", [])
        assert {*peers, bar.get("ours", "anabranch")} <= workload.peers.keys(), bar


def test_each_figure_has_a_unit():
    for name in harness.WORKLOADS:
        assert set(harness.load(name).figures) <= fresh.UNITS.keys()
