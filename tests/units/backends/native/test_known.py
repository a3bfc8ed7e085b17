"""A graph whose code is on disk: what runs is the same, and no pass runs, until somebody looks."""

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.base import Wanted
from anabranch.backends.native import code, disk, machine
from anabranch.core.registry import temporary_ops
from anabranch.frontends import execution
from anabranch.passes import Rewrite, pipeline, prune

X = np.linspace(0.5, 2.0, 6)
TABLE = np.arange(6.0)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    ab.compile(lambda x: x + 1.0)(X)  # what a process makes once is made before
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that passes were run on."""
    seen: list[Any] = []
    real = pipeline.run_passes

    def noted(graph: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(graph)
        return real(graph, *args, **kwargs)

    monkeypatch.setattr(execution.pipeline, "run_passes", noted)
    return seen


def compiled(f: Any, **how: Any) -> Any:
    return ab.compile(f, backend="native", **how)


def bits(results: Any) -> list[Any]:
    leaves = results if isinstance(results, tuple | list) else [results]
    return [(type(one), np.asarray(one).dtype, np.asarray(one).tobytes()) for one in leaves]


def _donating(w: Any, v: Any, x: Any) -> Any:
    return w - 0.1 * x, v * 0.5 + x, x


HALVES = np.arange(6).astype(ml_dtypes.bfloat16)
PROGRAMS: dict[str, Any] = {
    "folded constants": lambda x: x * ab.exp(ab.square(np.arange(6.0))) + ab.sum(np.arange(3.0)),
    "a constant of the trace": lambda x: x + np.arange(6.0) * 2.0,
    "a captured array": lambda x: x * TABLE + TABLE,
    "halves": lambda x: (x.astype(ab.bfloat16) * ab.square(HALVES.copy())).astype(ab.float64),
    "literals": lambda x: (x * 1.0 + 0.0, ab.where(x > 1.0, 2.0, x), x - x),
    "an argument returned": lambda x: (x, x, x + 0.0),
    "truth and counts": lambda x: (ab.all(x > 0.0), ab.argmax(x), ab.sum(x) > 1e9),
    "a fixed result": lambda x: (ab.exp(np.zeros(3)), ab.sum(np.ones(3)), x),
    "islands": lambda x: ab.linalg.inv(ab.diag(x)[::-1]) @ x,
    "powers of a matrix": lambda x: ab.linalg.matrix_power(ab.diag(x), 3),
    "gather": lambda x: ab.take(x[::-1] * TABLE, np.array([4, 0, 2])),
    "gradients": ab.value_and_grad(lambda x: ab.sum(ab.softmax(ab.tanh(x)) * ab.sqrt(x))),
    "a part": lambda x: ab.compile(lambda y: ab.exp(y) * 2.0)(x) + 1.0,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_found_gives_the_same_bits_and_no_pass_runs(
    name: str, here: Path, runs: list[Any]
) -> None:
    f = PROGRAMS[name]

    def run(one: Any) -> Any:
        return bits(one(X))

    wanted = run(compiled(f))  # this loads the names in it, too, which its entry looks at
    first = compiled(f)
    assert run(first) == wanted
    runs.clear()
    before = ab.cache.counts()
    again = compiled(f)
    assert run(again) == wanted
    assert ab.cache.counts().emitted == before.emitted
    assert len(runs) == name.startswith("islands")  # their nodes are needed
    assert run(again) == wanted
    assert again.program(X).optimised is again.program(X).optimised
    assert str(again.graph(X)) == str(first.graph(X))
    assert str(again.explain(X)) == str(first.explain(X))
    assert [str(one) for one in again.program(X).reports] == [
        str(one) for one in first.program(X).reports
    ]


def test_a_pass_that_changes_what_a_graph_gives_is_run_each_time() -> None:
    def narrowed(graph: Any) -> Any:
        new = prune(graph).graph.duplicate()
        new.set_outputs([new.outputs[0].astype(ab.float32)])
        return Rewrite(new, {})

    wanted = Wanted(ab.trace(lambda x: x + 1.0, X), lambda graph: (narrowed(graph).graph, ()))
    assert not code._is_as_built(wanted)
    assert code._is_as_built(Wanted(ab.trace(lambda x: x + 1.0, X)))


def test_constants_of_the_graph_itself_are_not_kept_again(here: Path) -> None:
    big = np.arange(100_000.0)
    held = ab.Graph("held")
    x = held.parameter("x", big.shape, ab.float64)
    y = x * held.constant(big)
    before = ab.cache.size()
    runs = [held.compile(y, backend="native") for _ in range(2)]
    np.testing.assert_array_equal(*(run(big) for run in runs))
    assert ab.cache.size() - before < big.nbytes


def test_donated_arrays_take_the_same_results(here: Path, runs: list[Any]) -> None:
    results = []
    for _ in range(2):
        w, v = np.ones(6), np.full(6, 2.0)
        step = compiled(_donating, donate=("w", "v"))
        out = step(w, v, X)
        assert out[0] is w and out[1] is v
        assert step.program(w, v, X).donated == {0: 0, 1: 1}
        assert step.raw(w, v, X).donated == {0: 0, 1: 1}
        results.append(bits(out))
    assert results[0] == results[1]
    assert len(runs) == 1
    # Nothing is given away: that is another program.
    w = np.ones(6)
    assert compiled(_donating)(w, w, X)[0] is not w
    assert len(runs) == 2


def test_what_decides_the_passes_is_part_of_the_key(here: Path, runs: list[Any]) -> None:
    def f(x: Any) -> Any:
        return (x * 1.0 + 0.5) * (x + 0.5)

    def made(**how: Any) -> tuple[int, list[str]]:
        runs.clear()
        one = compiled(f, **how)
        one(X)
        count = len(runs)
        return count, [report.name for report in one.program(X).reports]

    default = list(pipeline.DEFAULT)
    for how, names in (
        ({}, default),
        ({"passes": ()}, []),
        ({"passes": "prune"}, ["prune"]),
        ({"passes": ("merge", "fold")}, ["merge", "fold"]),
        ({"without": "algebra"}, [one for one in default if one != "algebra"]),
        ({"without": ("fold", "algebra")}, ["prune", "merge", "prune"]),
    ):
        assert made(**how) == (1, names)
        assert made(**how) == (0, names)
    with pytest.raises(ab.ArgumentError, match="no pass is named 'nothing'"):
        made(passes="nothing")


def test_a_pass_of_a_users_own_runs_each_time(here: Path) -> None:
    factor = [2.0]

    def scaled(graph: Any) -> Any:
        rewrite = prune(graph)
        new = rewrite.graph.duplicate()
        new.set_outputs([new.outputs[0] * factor[0]])
        return Rewrite(new, dict(enumerate(new.nodes)))

    run = lambda: compiled(lambda x: x + 1.0, passes=("prune", scaled))(X)  # noqa: E731
    for factor[0] in (2.0, 3.0, 2.0):
        np.testing.assert_array_equal(run(), (X + 1.0) * factor[0])


def test_what_an_op_of_a_users_own_folds_to_is_never_taken_from_another(here: Path) -> None:
    def run(factor: float) -> Any:
        with temporary_ops():
            mine = ab.elementwise("mine", lambda x: x * factor, doc="Mine.", partials=(factor,))
            return compiled(lambda x: x + mine(np.arange(6.0) + 1.0))(X)

    for factor in (2.0, 3.0, 2.0):
        np.testing.assert_array_equal(run(factor), X + (np.arange(6.0) + 1.0) * factor)


def test_a_graph_that_has_grown_is_looked_at_as_it_was(here: Path, capsys: Any) -> None:
    def build() -> tuple[ab.Graph, Any, Any]:
        g = ab.Graph("demo")
        x = g.parameter("x", (6,), ab.float64)
        y = ab.exp(x * 1.0)
        return g, y, g.compile([y, ab.linalg.inv(ab.diag(x))], backend="native")

    _, _, first = build()
    wanted, shown = bits(first(X)), str(first.program.optimised)
    g, y, run = build()
    y.log("y")
    z = g.parameter("late", (), ab.float64)
    g.set_outputs([y * z])
    assert bits(run(X)) == wanted
    assert bits(run(X)) == wanted  # by its entry
    assert str(run.program.optimised) == shown
    assert capsys.readouterr().out == ""


def test_looking_later_sees_the_options_that_held(here: Path) -> None:
    def f(x: Any) -> Any:
        return ab.sum(ab.linalg.inv(ab.diag(x)) * ab.exp(x * 1.0))

    def make() -> Any:
        with ab.config(absorb_zero=False):
            step = compiled(ab.grad(f))
            return step.program(X), step.program(X).executable

    first, _ = make()
    shown = str(first.optimised)
    program, executable = make()
    value = executable.run([X])[0]
    np.testing.assert_array_equal(value, first.executable.run([X])[0])
    assert str(program.optimised) == shown


def test_the_text_of_a_found_program_is_that_of_its_options(here: Path) -> None:
    def make() -> Any:
        with ab.config(contract=True):
            return compiled(lambda x: x * x + 2.0).program(X).executable

    first, again = make(), make()
    assert "fma" in first.text("ir")
    assert again.text("ir") == first.text("ir")


def test_a_found_program_runs_on_the_reference_where_somebody_watches(here: Path) -> None:
    def f(x: Any) -> Any:
        return ab.log(x * 1.0)

    compiled(f)(X)
    again = compiled(f)
    again(X)
    with ab.config(domain="raise"), pytest.raises(ab.DomainError):
        again(X - 0.5)
    with ab.config(nonfinite="raise"), pytest.raises(ab.AnabranchError):
        again(X - 0.5)


def test_names_are_not_part_of_the_key_and_are_those_of_each_graph(here: Path) -> None:
    def raw_names(function: Any) -> list[str]:
        return [one.name for one in compiled(function).raw(X).parameters]

    assert raw_names(lambda first: first * 2.0) == ["first"]
    assert raw_names(lambda second: second * 2.0) == ["second"]


def test_an_attribute_that_is_another_in_each_process_is_never_filed(here: Path) -> None:
    with temporary_ops():
        held = ab.Op(
            "held",
            aval=lambda x, f: x,
            ref=lambda x, f: f(x),
            doc="Held.",
            vjp=(lambda ct, y, x, f: ct,),
        )
        run = lambda f: compiled(lambda x: held(x, f=f))(X)  # noqa: E731
        np.testing.assert_array_equal(run(np.negative), -X)
        twice = lambda x: x * 2.0  # noqa: E731
        np.testing.assert_array_equal(run(twice), X * 2.0)
        thrice = lambda x: x * 3.0  # noqa: E731
        np.testing.assert_array_equal(run(thrice), X * 3.0)
        graph = ab.trace(lambda x: held(x, f=twice), X)
    assert code._described(graph) is None


def test_a_changed_file_of_the_library_changes_the_key(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "library"
    (root / "ops" / "deep").mkdir(parents=True)
    for name in ("ops/one.py", "ops/deep/two.py", "ops/data.txt"):
        (root / name).write_text("x = 1\n")
        os.utime(root / name, (1_000, 1_000))
    seen = [machine.stamp(root, ["ops"])]

    def differs() -> bool:
        seen.append(machine.stamp(root, ["ops"]))
        return None not in seen and seen.count(seen[-1]) == 1

    os.utime(root / "ops/data.txt", (2_000, 2_000))  # decides no code
    assert machine.stamp(root, ["ops"]) == seen[0]
    os.utime(root / "ops/one.py", ns=(10**12, 10**12 + 1))
    assert differs()
    (root / "ops/deep/two.py").write_text("x = 10\n")
    os.utime(root / "ops/deep/two.py", (1_000, 1_000))
    assert differs()
    (root / "ops/deep/two.py").rename(root / "ops/deep/other.py")
    assert differs()
    assert machine.stamp(tmp_path, ["library"]) != seen[-1]
    assert machine.stamp(root, ["nothing"]) is None
    # What was changed after the process has begun may not be what the process runs.
    (root / "ops/one.py").write_text("x = 2\n")
    assert machine.stamp(root, ["ops"]) is None

    monkeypatch.setattr(machine, "library", lambda: "other files")
    before = ab.cache.counts()
    compiled(PROGRAMS["literals"])(X)
    assert ab.cache.counts().emitted > before.emitted
    monkeypatch.setattr(machine, "is_still", lambda source: False)  # they change meanwhile
    compiled(PROGRAMS["gather"])(X)
    before = ab.cache.counts()
    compiled(PROGRAMS["gather"])(X)
    assert ab.cache.counts().found == before.found


def test_the_processor_is_told_without_llvm(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    text = "processor\t: 0\nmodel\t\t: 17\ncpu MHz\t\t: {}\nflags\t\t: fpu {}\n\nprocessor\t: 1\n"
    told = []
    for speed, flags in ((2596, "avx2"), (1200, "avx2"), (2596, "avx2 avx512f")):
        file.write_text(text.format(speed, flags))
        told.append(machine._processor.__wrapped__(str(file)))
    assert told[0] == told[1] != told[2]
    assert "MHz" not in str(told)
    (tmp_path / "empty").write_text("nothing to be said")
    assert len(machine._processor.__wrapped__(str(tmp_path / "empty"))) == 3  # LLVM says it


def test_a_store_that_is_switched_off_runs_each_pass(runs: list[Any]) -> None:
    assert disk.store() is None
    for _ in range(2):
        compiled(PROGRAMS["literals"])(X)
    assert len(runs) == 2
