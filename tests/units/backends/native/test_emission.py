"""Modules of a program: what programs share, and threads that emit them."""

import contextlib
import gc
import os
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import emission, modules, target
from anabranch.backends.native.division import Division
from anabranch.backends.native.program import Program

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(96, 80)), RNG.normal(size=(80, 48))

# A module that is worth a thread.
LONG = "\n".join(["define void @f() {", *["  call void @f()"] * 200, "  ret void", "}", ""])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    ab.compile(lambda a, b: ab.tanh(a @ b), backend="native")(A, B)  # what a process makes once
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def threads() -> object:
    """Sets the number of threads for this test."""
    before = ab.get_num_threads()
    yield ab.set_num_threads
    ab.set_num_threads(before)


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> object:
    """An llvmlite that does not say where its library is."""
    emission._without_lock.cache_clear()
    hidden = SimpleNamespace(ffi=SimpleNamespace(lib=object()))
    monkeypatch.setattr(emission, "llvm", hidden)
    assert emission._without_lock() is None
    yield
    emission._without_lock.cache_clear()


def compiled(f: object) -> Program:
    return ab.compile(f, backend="native").program(A, B).executable.program  # type: ignore


def counted(work: object) -> tuple[int, int]:
    """Modules that are emitted and pieces that are found on disk meanwhile."""
    counts = ab.cache.counts()
    before = counts.emitted, counts.found
    work()  # type: ignore[operator]
    counts = ab.cache.counts()
    return counts.emitted - before[0], counts.found - before[1]


# What programs share


def test_a_program_emits_no_tile_that_another_one_has_emitted(here: Path) -> None:
    first = ab.compile(lambda a, b: ab.tanh(a @ b), backend="native")
    second = ab.compile(lambda a, b: ab.sum((a @ b.T.T) * 3.0, axis=0), backend="native")
    emitted, found = counted(lambda: first(A, B))
    shared = first.program(A, B).executable.program.shared
    assert shared and emitted == len(shared) + 2  # with the program's own and the way into it
    assert found == 0
    results = []
    assert counted(lambda: results.append(second(A, B))) == (2, len(shared))
    np.testing.assert_allclose(results[0], (A @ B * 3.0).sum(axis=0), rtol=1e-12)
    assert len(list(here.glob("*.code"))) == len(shared) + 2 * 2


def test_without_a_disk_a_process_remembers_what_programs_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANABRANCH_CACHE_DIR", "")
    monkeypatch.setattr(modules, "_recent", {})
    ab.compile(lambda a, b: ab.tanh(a @ b), backend="native")(A, B)
    other = ab.compile(lambda a, b: ab.exp(a @ b), backend="native")
    assert counted(lambda: other(A, B)) == (1, 0)  # the way into it is the same one, too
    monkeypatch.setattr(modules, "REMEMBERED", 1)
    first = set(modules._recent)
    ab.compile(lambda a, b: a.T @ a, backend="native")(A, B)
    assert modules._recent
    assert not first & modules._recent.keys()


def test_products_in_blocks_share_what_drives_them_whatever_their_sizes() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(130, 140)), rng.normal(size=(140, 150))

    def f(a, b):
        narrow = a.astype(np.float32) @ b.astype(np.float32)
        return ab.tanh(a @ b + 1.0), narrow.T @ a.astype(np.float32), narrow

    made = ab.compile(f, backend="native")
    program = made.program(a, b).executable.program
    drivers = [text for text in program.shared if "@drive_blocks(" in text]
    assert [set(_defined(text)) for text in drivers] == [
        {"drive_blocks", "multiply_blocks", "pack_blocks"}
    ]
    for found, wanted in zip(made(a, b), ab.compile(f)(a, b), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    # 130 rows are tiles of two heights, which one loop finishes
    finishing = [name for name in _defined(program.ir) if "_finish_" in name]
    assert len(finishing) == len({name.rpartition("_")[2] for name in finishing}) > 0


def test_tiles_are_the_same_functions_for_all_strides() -> None:
    def tiles(f: object) -> set[str]:
        names = {name for text in compiled(f).shared for name in _defined(text)}
        return {name for name in names if name.startswith("tile")}

    wanted = tiles(lambda a, b: a @ b)
    assert wanted
    assert tiles(lambda a, b: ab.flip(a, 1) @ b) == wanted
    assert tiles(lambda a, b: a @ ab.flip(b, 0)) == wanted
    assert tiles(lambda a, b: a @ ab.reshape(b.T * 1.5, (48, 80)).T) == wanted


def test_what_is_shared_names_nothing_of_the_program() -> None:
    def f(a, b):
        return ab.sum(ab.sin(ab.cos(ab.tanh(a @ b))) ** 1.5)

    graph = ab.compile(ab.value_and_grad(f, (0, 1)), backend="native").graph(A, B)
    program = Program(graph, target.host().vector_bytes)
    own = set(_defined(program.ir)) - {n for text in program.shared for n in _defined(text)}
    assert own
    for text in program.shared:
        assert len(_defined(text)) in (1, 3)  # three drive products in blocks
        assert not any(f"@{name}(" in text for name in own)


def _defined(ir: str) -> list[str]:
    heads = [line for line in ir.splitlines() if line.startswith("define")]
    return [head.partition("@")[2].partition("(")[0] for head in heads]


def test_modules_grow_with_what_was_written_before_and_no_further() -> None:
    division = Division()
    for i in range(4_000):
        division.add("\n".join([f"define void @f{i}() {{", *["  ;"] * 100, "}"]), ())
    division.close()
    division.close()  # nothing is open
    lines = [text.count("\n") for text in division.modules]
    assert lines[0] < 700
    assert 5_000 < max(lines) < 10_500
    assert len(lines) < 150
    assert division.shared() == []


def test_modules_hold_the_constants_and_remarks_that_their_functions_name() -> None:
    """Each of them, one that other programs have, too, as well as one of this program."""
    needs = {
        '!0 = !{!"branch_weights", i32 1, i32 9}',
        "@six = internal constant double 6.0",
        "define internal double @half(double %x) noinline {\nstart:\n"
        "  %c = fcmp olt double %x, 0.0\n  br i1 %c, label %a, label %b, !prof !0\n"
        "a:\n  br label %b\nb:\n"
        "  %s = load double, ptr @six\n  %y = fmul double %x, %s\n  ret double %y\n}",
    }
    text = "define double @f(double %x) {\n  %y = call double @half(double %x)\n  ret double %y\n}"
    division = Division()
    division.add(text, needs)
    division.close()
    (own,), (shared,) = division.modules, division.shared()
    assert own.count("declare double @half(double)") == 1
    assert "declare" not in shared
    for module in (own, shared):
        assert target.emitted(module)
        assert ("@six =" in module, "!0 =" in module) == (True, True)


# Threads


def long_program() -> Program:
    def f(a, b):
        for k in range(12):
            a = ab.exp(ab.sin(a) * float(k + 1)) / ab.sum(a, axis=0)
        return a @ b

    return compiled(f)


@pytest.mark.slow
def test_objects_do_not_depend_on_the_number_of_threads(threads, monkeypatch) -> None:
    texts = long_program().modules
    assert len(texts) > 3
    used: list[int] = []
    real = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: (used.append(1), real(self))[1])
    wanted = [target.emitted(text) for text in texts]
    for count, started in ((1, 0), (2, 1), (3, 2)):
        threads(count)
        used.clear()
        assert emission.emitted(texts) == wanted
        assert len(used) == started


def test_one_module_starts_no_thread(monkeypatch, threads) -> None:
    threads(4)
    monkeypatch.setattr(threading, "Thread", None)
    assert emission.emitted([LONG]) == [target.emitted(LONG)]
    short = "define void @f() {\n  ret void\n}\n"
    assert emission.emitted([short] * 3 + [LONG]) == [
        target.emitted(x) for x in [short] * 3 + [LONG]
    ]
    assert emission.emitted([]) == []


@pytest.mark.slow
def test_modules_are_emitted_one_by_one_where_llvmlite_hides_its_library(
    locked, threads, monkeypatch
) -> None:
    threads(2)
    texts = long_program().modules
    monkeypatch.setattr(threading, "Thread", None)
    assert emission.emitted(texts) == [target.emitted(text) for text in texts]


def test_a_text_that_is_no_module_is_told_by_the_thread_that_asked(threads) -> None:
    threads(2)
    good, bad = LONG, LONG.replace("ret void", "ret i32 1")
    for texts in ([good, bad, good], [bad], [bad, bad]):
        with pytest.raises(RuntimeError, match="ret"):
            emission.emitted(texts)
    before = threading.active_count()
    assert len(emission.emitted([good, good])) == 2
    _wait_for_threads()
    assert threading.active_count() <= before


def test_equal_modules_are_emitted_once(here: Path) -> None:
    text = "define double @f(double %x) {\n  ret double %x\n}\n"
    results = []
    assert counted(lambda: results.append(modules.object_codes([text, text], []))) == (1, 0)
    assert results[0] == (target.emitted(text),) * 2


# Meanwhile


def test_what_was_begun_is_not_made_again(here: Path, threads) -> None:
    threads(2)
    fixed = [("f", lambda: LONG)]
    modules.begin_fixed(fixed)
    modules.begin_fixed(fixed)
    assert counted(lambda: modules.fixed_code(*fixed[0]))[1] == 0
    assert counted(lambda: modules.fixed_code(*fixed[0])) == (0, 1)  # it was kept on disk
    modules.begin_fixed(fixed)  # so nothing is made
    assert not modules._begun


def test_one_thread_makes_nothing_before_it_is_asked_for(here: Path, threads) -> None:
    threads(1)
    wanted = [("g", lambda: "define void @g() {\n  ret void\n}\n")]
    assert counted(lambda: modules.begin_fixed(wanted)) == (0, 0)
    assert counted(lambda: modules.fixed_code(*wanted[0])) == (1, 0)


def test_modules_of_a_program_are_begun_while_others_are_written(monkeypatch) -> None:
    graph = long_program().schedule.graph
    told: list[str] = []
    at: list[int] = []
    real = Program._step

    def step(self: Program, step: object) -> list[str]:
        at.append(len(told))
        return real(self, step)  # type: ignore[arg-type]

    monkeypatch.setattr(Program, "_step", step)
    program = Program(graph, target.host().vector_bytes, closed=told.append)
    assert told == program.modules[: len(told)]
    assert set(program.modules[len(told) :]) == set(program.shared)
    assert at[0] == 0 < at[-1] < len(told)


def test_the_way_in_is_emitted_beside_the_program(here: Path, threads, monkeypatch) -> None:
    """When it is written, nobody has waited for the program yet."""
    threads(2)
    asked: list[str] = []
    real = modules.Making.codes

    def codes(self: modules.Making, texts: list[str]) -> tuple[bytes, ...]:
        asked.append("call" if "@call(" in texts[0] else "program")
        return real(self, texts)

    monkeypatch.setattr(modules.Making, "codes", codes)
    f = ab.compile(lambda a, b: ab.tanh(a @ b) * 2.5, backend="native")
    np.testing.assert_allclose(f(A, B), np.tanh(A @ B) * 2.5)
    assert asked == ["call", "program"]
    asked.clear()
    ab.compile(lambda a, b: ab.tanh(a @ b) * 3.5, backend="native").program(A, B)
    assert asked == ["program"]  # which is whole, where nobody said that he would call it


def test_a_dropped_job_is_not_done(threads) -> None:
    threads(1)
    kept, dropped = emission.begun([LONG, LONG + "\n"])
    assert not kept.is_done
    del dropped
    before = ab.cache.counts().emitted
    assert emission.finished([kept]) == [target.emitted(LONG)]
    assert ab.cache.counts().emitted == before + 2


def test_a_module_is_closed_when_its_job_was_dropped_in_a_circle(threads, monkeypatch) -> None:
    """The garbage collector could free what a module lies in before the module."""
    threads(2)
    monkeypatch.setattr(emission._Crew, "_start", lambda self: None)
    jobs = emission.begun([LONG, LONG])
    modules_ = [entry.module for entry in emission._crew._waiting]
    assert all(modules_)
    circle: list[object] = [jobs]
    circle.append(circle)
    del jobs, circle
    gc.collect()
    assert emission.emitted([LONG]) == [target.emitted(LONG)]
    assert all(module.closed for module in modules_)


def test_who_asks_again_is_told_again(threads) -> None:
    threads(1)
    jobs = emission.begun([LONG.replace("ret void", "ret i32 1")])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="ret"):
            emission.finished(jobs)


def test_a_stop_leaves_the_job_to_be_done(threads, monkeypatch) -> None:
    threads(1)
    jobs = emission.begun([LONG])

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(emission, "_without_lock", lambda: stop)
        with pytest.raises(KeyboardInterrupt):
            emission.finished(jobs)
    assert emission.finished(jobs) == [target.emitted(LONG)]


def test_a_job_that_a_stop_left_half_begun_is_done(threads) -> None:
    threads(1)
    jobs = emission.begun([LONG])
    assert emission._crew._next() is not None  # and there it was stopped
    assert emission.finished(jobs) == [target.emitted(LONG)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_copy_of_the_process_takes_over_what_was_begun(threads, monkeypatch) -> None:
    threads(1)
    jobs = emission.begun([LONG, LONG + "\n"])
    crew = emission._crew
    assert crew._next() == (jobs[1], None)  # as if a thread were at it
    emission._begin_anew()
    try:
        assert emission._crew is not crew
        assert emission.finished(jobs) == [target.emitted(LONG)] * 2
    finally:
        emission._lost.clear()


def test_a_process_is_copied_while_no_other_thread_is_in_the_library() -> None:
    """The copy would never get its lock."""
    lock = emission._library_lock()
    assert lock is not None
    got: list[bool] = []

    def attempt() -> None:
        got.append(lock._lock.acquire(blocking=False))
        if got[-1]:
            lock._lock.release()

    def by_another_thread() -> bool:
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        return got.pop()

    emission._hold()
    assert not by_another_thread()
    emission._let_go()
    assert by_another_thread()


def test_a_refused_module_leaves_nothing_to_the_garbage_collector(threads) -> None:
    """Which could free a context before the module in it."""
    threads(2)
    bad = LONG.replace("ret void", "ret i32 1")
    jobs = emission.begun([bad, bad], is_awaited=True)
    left = [weakref.ref(job) for job in jobs]
    gc.disable()
    try:
        with contextlib.suppress(RuntimeError):
            emission.finished(jobs)
        del jobs
        _wait_for_threads()
        assert [job() for job in left] == [None, None]
    finally:
        gc.enable()


def _wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
