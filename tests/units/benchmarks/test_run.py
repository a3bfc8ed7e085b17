"""What runs the benchmarks: peers that differ or hang, environments, and runs that go on."""

import json
import time
from argparse import Namespace

import pytest

import fresh
import harness
import processes
import rounds
import run
import table
import worker

REPLIES = {
    "anabranch": {"result": {"z": [1.0]}},
    "jax": {"result": {"z": [1.0 + 1e-9]}},
    "torch": {"result": {"z": [2.0]}},
    "micrograd": {"reason": "not installed"},
}


def test_peers_that_differ_are_not_measured():
    row = rounds.compared(REPLIES, 1e-6)
    assert row["anabranch"] == row["jax"] == {}
    assert row["torch"]["reason"].startswith("differs from jax.jit by ")
    assert row["micrograd"]["reason"] == "not installed"


def test_we_are_judged_by_anothers_numbers():
    wrong = {"anabranch": {"result": {"z": [3.0]}}, "jax": {"result": {"z": [1.0]}}}
    row = rounds.compared(wrong, 1e-6)
    assert row["jax"] == {} and "differs" in row["anabranch"]["reason"]
    row = rounds.compared({**wrong, "numpy": {"result": {"z": [3.0]}}}, 1e-6)
    assert row["anabranch"] == {} and "differs from NumPy" in row["jax"]["reason"]


def test_a_nan_is_no_agreement():
    replies = {"numpy": {"result": {"z": [1.0]}}, "jax": {"result": {"z": [float("nan")]}}}
    assert "differs" in rounds.compared(replies, 1e-6)["jax"]["reason"]


def test_rows_hold_figures_and_ratios_to_ours():
    row = rounds.told({"anabranch": {}, "jax": {}}, {"anabranch": [1.0, 2.0], "jax": [3.0, 6.0]})
    assert row["anabranch"].pop("least") == 1.0
    assert row["anabranch"] == {"median": 1.5, "low": 1.25, "high": 1.75, "rounds": 2}
    assert row["jax"]["ratio"]["median"] == 3.0


def test_a_busy_process_runs_while_a_case_asks_for_it():
    before = len(processes.LIVE)
    with processes.busy(True):
        (process,) = processes.LIVE - set(list(processes.LIVE)[:before])
        assert process.poll() is None
    assert process.returncode is not None and len(processes.LIVE) == before
    with processes.busy(False):
        assert len(processes.LIVE) == before


def test_cases_of_the_network_say_what_they_run_with():
    workload = harness.load("mlp")
    said = {case: (workload.threads(case), workload.crowded(case)) for case in workload.cases}
    for batch in ("batch 64", "batch 1024"):
        assert said.pop(batch) == (None, False)
        assert said.pop(f"{batch}, 1 thread") == (1, False)
        assert said.pop(f"{batch}, a busy process beside") == (None, True)
    assert not said


def test_the_environment_of_a_peer(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("OPENBLAS_L2_SIZE", "512")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    env = harness.environment("numpy")
    assert not any(name.startswith(("OPENBLAS", "PYTHONDONT")) for name in env)
    assert env["PYTHONPATH"].startswith(str(harness.HERE.parent / "src"))
    one = harness.environment("jax", threads=1, wide=False)
    assert {one[name] for name in harness.THREADS} == {"1"}
    assert one["JAX_ENABLE_X64"] == "0" and "XLA_FLAGS" in one
    kept = harness.environment("jax_cache", cache=tmp_path)
    assert kept["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "jax")
    assert kept["XDG_CACHE_HOME"] == str(tmp_path)
    assert "JAX_COMPILATION_CACHE_DIR" not in harness.environment("jax", cache=tmp_path)
    flags = harness.environment("pytensor_c", cache=tmp_path)["PYTENSOR_FLAGS"]
    assert flags == f"linker=cvm,base_compiledir={tmp_path / 'pytensor'}"


def test_a_peer_that_is_not_there_says_so(monkeypatch):
    absent = harness.Peer("none", ("no_such_module.of_ours",), "none")
    monkeypatch.setitem(harness.PEERS, "none", absent)
    assert harness.missing("none") == "not installed"
    tool = harness.Peer("none", ("numpy",), "numpy", ("no-such-tool",))
    monkeypatch.setitem(harness.PEERS, "none", tool)
    assert harness.missing("none") == "needs no-such-tool"
    assert harness.missing("numpy") is None


def test_the_loop_calls_as_a_user_would():
    seen = []
    worker.loop_for(lambda *a: seen.append(a), 2)([None] * 3, lambda *a: seen.append(a), 1, 2)
    assert seen == [(1, 2)] * 3
    worker.loop_for(seen.clear, 0)([None], seen.clear)
    assert seen == []


def test_a_process_that_takes_too_long_is_ended():
    process = processes.start(["-c", "import time; time.sleep(600)"], harness.environment("numpy"))
    reply = processes.reply_of(process, 0.05)
    assert reply["late"] and reply["error"].startswith("more than ")
    assert process.poll() is not None and process not in processes.LIVE


def test_a_process_that_dies_is_told():
    process = processes.start(["-c", "raise SystemExit(3)"], harness.environment("numpy"))
    assert processes.reply_of(process, 60) == {"error": "the process died (3)"}


def reply(first):
    figures = ("next call", "peak memory", "memory of later steps")
    took = {"first result": first, "from process start": 10.0 + first}
    return {"numbers": {"z": [1.0]}, **took, **dict.fromkeys(figures, first)}


def test_figures_of_first_and_second_starts():
    found = fresh.figures_of([reply(0.0)], [reply(1.0), reply(2.0)])
    assert found["first result, empty caches"] == [0.0]
    assert found["first result, second start"] == [1.0, 2.0]
    assert found["from process start, second start"] == [11.0, 12.0]
    assert found["next call"] == found["peak memory"] == [1.0, 2.0]
    assert fresh.figures_of([reply(3.0)], [])["peak memory"] == [3.0]


def starts(monkeypatch, first, until=None):
    """How the processes of a peer run whose first result takes so long, and what is told."""
    seen, saved = [], {}

    def one(name, workload, peer, case, cache, modules):
        cache.mkdir(parents=True, exist_ok=True)
        kind = "filled" if any(cache.iterdir()) else "empty"
        (cache / "kept").write_text("", encoding="utf-8")
        imported = modules.read_text(encoding="utf-8").split() if modules.exists() else None
        seen.append((kind, imported))
        return reply(first + len(seen)) | {"modules": [f"{kind}_part"]}

    monkeypatch.setattr(fresh, "one", one)
    workload = harness.Workload("w", ["a"], kind="fresh", figures=tuple(fresh.UNITS))
    workload.peer("numpy")(lambda _: "none")
    end = time.monotonic() + (60 if until is None else until)

    def save(case, unit, row):
        saved[case] = row["numpy"]

    fresh.run("w", workload, ["a"], ["numpy"], 9, lambda: end, save)
    return seen, saved


COLD, LATER = ("empty", ["empty_part"]), ("filled", ["filled_part"])


def test_processes_that_are_measured_import_what_one_before_them_did(monkeypatch):
    seen, saved = starts(monkeypatch, 0.0)
    assert seen == [("empty", None), COLD, COLD, ("filled", None), LATER, LATER, LATER]
    assert saved["a: first result, empty caches"]["median"] == 2.5
    assert saved["a: first result, second start"]["median"] == 6.0
    assert saved["a: next call"]["rounds"] == 3


def test_first_results_that_take_long_are_measured_as_they_are(monkeypatch):
    seen, saved = starts(monkeypatch, fresh.TWICE)
    assert seen == [("empty", None), ("filled", None)]
    assert saved["a: first result, second start"]["median"] == fresh.TWICE + 2
    seen, saved = starts(monkeypatch, fresh.ONCE)
    assert seen == [("empty", None)]
    told = saved["a: first result, second start"]
    assert told["reason"] == "one start took long enough"


def test_a_figure_of_each_kind_is_left_where_time_is_over(monkeypatch):
    seen, _ = starts(monkeypatch, 0.0, until=-1.0)
    assert seen == [("empty", None), COLD, ("filled", None), LATER]


def report(file, resume=False):
    made = run.Report(file, resume)
    made.begin("affine", harness.load("affine"))
    return made


def test_what_was_measured_is_kept_after_each_case(tmp_path):
    file = tmp_path / "results.json"
    first = report(file)
    row = {"anabranch": {"median": 1.0, "low": 1.0, "high": 1.0}}
    first.save("affine", "all three gradients", "us", row)
    assert json.loads(file.read_text())["workloads"]["affine"]["cases"].keys() == {
        "all three gradients"
    }
    assert report(file, resume=True).has("affine", "all three gradients", ())
    assert not report(file).has("affine", "all three gradients", ())
    assert report(file).data["workloads"]["affine"]["cases"] == {}
    one = run.Report(file, False)
    one.begin("affine", harness.load("affine"), keep=True)  # one case leaves the others
    assert "all three gradients" in one.data["workloads"]["affine"]["cases"]
    other = run.Report(file, False)
    other.begin("call", harness.load("call"))
    assert "affine" in other.data["workloads"]  # one workload alone leaves the others


def test_a_run_that_goes_on_leaves_out_what_it_has(tmp_path):
    workload = harness.load("chain")
    made = run.Report(tmp_path / "results.json", True)
    made.begin("chain", workload)
    options = Namespace(quick=False, case=None)
    assert run.cases_of("chain", workload, options, made) == workload.cases
    for figure in workload.figures:
        assert run.cases_of("chain", workload, options, made) == workload.cases
        made.save("chain", f"10,000: {figure}", "ms", {})
    assert run.cases_of("chain", workload, options, made) == ["100,000"]
    options = Namespace(quick=True, case=None)
    assert run.cases_of("chain", workload, options, made) == []


@pytest.mark.slow
def test_from_the_command_to_the_page(tmp_path, monkeypatch, capsys):
    file = tmp_path / "results.json"
    words = ["affine", "--peers", "anabranch,numpy,casadi", "--rounds", "1", "--minutes", "0.001"]
    monkeypatch.setattr("sys.argv", ["run.py", *words, "--json", str(file)])
    assert run.main() == 0
    found = json.loads(file.read_text())["workloads"]["affine"]["cases"]["all three gradients"]
    assert found["peers"]["anabranch"]["rounds"] == 1
    assert found["peers"]["numpy"]["ratio"]["median"] > 0
    assert "affine" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["table.py", str(file)])
    monkeypatch.setattr(table, "RESULTS", tmp_path / "RESULTS.md")
    assert table.main() == 0
    assert "Gradient of sum" in (tmp_path / "RESULTS.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_new_process_for_each_figure(monkeypatch, capsys):
    words = ["shared", "--peers", "anabranch,numpy", "--rounds", "1", "--minutes", "0.001"]
    monkeypatch.setattr("sys.argv", ["run.py", *words])
    assert run.main() == 0
    told = capsys.readouterr().out
    assert "1,000: first result, second start, ms: anabranch" in told
    assert "reason" not in told
