"""Each workload computes what NumPy does, at a tiny size; nothing is timed here."""

import importlib
import json
import sys

import numpy as np
import pytest

import anabranch as ab
import figures
import harness
import scripts
import worker
from workloads import installed, nets, start
from workloads.scalar import rosenbrock

TINY = [(name, case) for name in harness.WORKLOADS for case in harness.load(name).tiny]


def test_each_file_is_run():
    assert sorted(harness.names()) == sorted(harness.WORKLOADS)


@pytest.mark.parametrize("name", harness.WORKLOADS)
def test_a_workload_is_complete(name):
    workload = harness.load(name)
    assert workload.cases and len(set(workload.cases)) == len(workload.cases)
    assert set(workload.quick) <= set(workload.cases)
    assert harness.OURS in workload.peers
    assert workload.kind in ("rounds", "fresh", "scripts")
    assert bool(workload.figures) == (workload.kind == "fresh")
    for case in workload.cases:
        assert workload.unit_of(case)
        assert 0 <= workload.tolerance_of(case) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case"), TINY)
def test_ours_is_equal_to_numpy(name, case):
    workload = harness.load(name)
    wanted, ours = (
        figures.numbers(workload.peers[peer](case).numbers()) for peer in ("numpy", "anabranch")
    )
    assert wanted.keys() == ours.keys()
    assert figures.disagreement(wanted, ours) <= workload.tolerance_of(case)


@pytest.mark.parametrize("case", ["z", "Rosenbrock 7"])
def test_the_raw_call_is_equal_too(case):
    peers = harness.load("scalar").peers
    wanted, raw = (figures.numbers(peers[p](case).numbers()) for p in ("numpy", "anabranch_raw"))
    assert figures.disagreement(wanted, raw) <= 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case"), TINY)
def test_the_step_that_is_timed_can_be_repeated(name, case):
    bench = harness.load(name).peers["anabranch"](case)
    before = figures.numbers(bench.numbers())
    bench.step(*bench.arguments)
    if name != "mlp":  # its steps go on learning
        assert figures.disagreement(before, figures.numbers(bench.numbers())) == 0


@pytest.mark.parametrize("case", [start.COMPILED, start.PLAIN])
@pytest.mark.parametrize("peer", ["anabranch", "numpy"])
def test_the_first_gradient_of_a_program(case, peer, capsys):
    text = start.scripts(case).get(peer)
    if text is not None:
        exec(text, {})
        assert json.loads(capsys.readouterr().out) == [64.0, 64.0, 32.0]


def test_a_program_tells_what_it_measured(tmp_path):
    said, seconds = scripts.one("print('{\"seconds\": 0.25}', flush=True)", "numpy", tmp_path, 60)
    assert (said, seconds) == ([], 0.25)
    said, seconds = scripts.one("print([1.5], flush=True)", "numpy", tmp_path, 60)
    assert said == [1.5] and seconds > 0
    assert scripts.one("raise SystemExit(1)", "numpy", tmp_path, 60)[0] is None


def test_what_is_required_is_followed():
    found = installed.required(["anabranch-is-not-there", "jsonschema"])
    assert "jsonschema" in found and "attrs" in found
    assert "anabranch-is-not-there" not in found
    assert installed.wanted("numpy>=2; python_version > '3'")
    assert not installed.wanted("pytest; extra == 'test'")
    assert installed.first_name("opt_einsum>=3.4.0") == "opt_einsum"


def test_the_size_of_ours_counts_what_it_stands_on():
    ours, numpy = (installed.figure(peer, installed.SIZE) for peer in ("anabranch", "numpy"))
    assert ours > numpy > 1
    assert installed.figure("anabranch", installed.COUNT) > 5


def test_rosenbrock_has_its_minimum_at_one():
    value, slope = ab.value_and_grad(rosenbrock)(np.ones(4))
    assert value == 0 and not slope.any()


def test_data_of_a_first_result_are_made_before_its_clock(monkeypatch):
    seen = []
    workload = harness.Workload("w", ["a"], kind="fresh", prepare=lambda _: seen.append("data"))
    workload.peer("numpy")(lambda _: seen.append("build") or "not today")
    monkeypatch.setattr(worker, "load", lambda _: workload)
    monkeypatch.setattr(worker.time, "perf_counter", lambda: seen.append("clock") or 0.0)
    assert worker.once("w", "numpy", "a") == {"reason": "not today"}
    assert seen == ["data", "clock", "build", "clock"]


def test_data_that_lie_ready_are_for_one_caller():
    nets.make("batch 3")
    first, second = nets.data("batch 3"), nets.data("batch 3")
    assert first[1] is not second[1] and np.array_equal(first[1], second[1])


def test_what_a_first_result_imports_is_told_and_can_come_before_the_clock(monkeypatch, tmp_path):
    (tmp_path / "late_part.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen = []

    def step():
        seen.append("late_part" in sys.modules)
        importlib.import_module("late_part")

    workload = harness.Workload("w", ["a"], kind="fresh")
    workload.peer("numpy")(lambda _: harness.Bench(step, lambda: step() or {}))
    monkeypatch.setattr(worker, "load", lambda _: workload)
    monkeypatch.setattr(worker, "WARM", 0.0)
    assert worker.once("w", "numpy", "a")["modules"] == ["late_part"]
    del sys.modules["late_part"]
    del seen[:]
    told = worker.once("w", "numpy", "a", ["no_such_module.of_ours", "late_part"])
    assert told["modules"] == [] and all(seen)
