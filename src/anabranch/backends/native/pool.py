"""Threads that share the chunks of one step of a program, in machine code.

`run(task, frame, chunks)` calls `task(frame, chunk)` once for each chunk. Whoever is free claims
the next one, the caller too, so it never waits for a thread that has not begun. Which thread does
a chunk changes nothing: what a chunk is, and how results are joined, depends on shapes only.

Threads start when they are first wanted, look out for work for a moment after each step, and then
sleep until they are woken. A caller that finds the others busy with another program's step does
its own step alone.

To wake a thread takes some microseconds. `offer` is `run` for steps that are not worth it: they are
shared with threads that look out just then. Where many of them follow close on one another, threads
are woken once, and find one step after the other while they look out.

A thread whose processor another process takes in the middle of a chunk would be waited for until it
has one again, for milliseconds. The caller, done with all else, sees that it does not run and calls
it over to its own processor; and for a while it begins steps alone, and opens those that take long.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import platform
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anabranch.backends.native import loading, modules, threads
from anabranch.core.late import LateModule
from anabranch.core.locks import Lock

if TYPE_CHECKING:
    import signal
    from importlib import resources
else:
    signal = LateModule("signal")
    resources = LateModule("importlib.resources")

LOOKOUT = 50_000  # ns for which a thread without work looks out for more
GLANCE = 10_000  # the same after a short step: it may cost no more than the step is worth
SOON = 5_000  # ns between two short steps that follow closely on one another
OFTEN = 32  # of them in a row, after which threads are woken for the next ones
MOMENT = 10_000  # ns in which a thread that has a processor has run
PATIENCE = 300_000  # ns for which a step is done alone where a thread has lost its processor lately
LEAST, MOST = 4_000_000, 128_000_000  # ns that count as lately
TRIES = 1_000  # to get at the pool when the interpreter ends

# What the code calls: in every POSIX system, and where a thread may be told its processors.
_POSIX = (
    *("pthread_create", "pthread_join", "pthread_sigmask", "sched_yield", "clock_gettime"),
    *("pthread_mutex_init", "pthread_mutex_lock", "pthread_mutex_unlock"),
    *("pthread_cond_init", "pthread_cond_wait", "pthread_cond_signal", "pthread_cond_broadcast"),
)
_PROCESSORS = (
    *("sched_getcpu", "sched_getaffinity", "pthread_setaffinity_np", "pthread_getcpuclockid"),
)
_PAUSES = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}

_ALONE = """
define void @run(ptr %task, ptr %frame, i64 %chunks) {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%following, %body]
  %goes_on = icmp slt i64 %i, %chunks
  br i1 %goes_on, label %body, label %done
body:
  call void %task(ptr %frame, i64 %i)
  %following = add i64 %i, 1
  br label %head
done:
  ret void
}

define void @offer(ptr %task, ptr %frame, i64 %chunks) {
entry:
  call void @run(ptr %task, ptr %frame, i64 %chunks)
  ret void
}
"""

# Kernels like to wake a thread on the processor of the one that wakes it, where both then take
# turns. So the caller's processor is closed to the others whenever the caller has moved, and opened
# to those that `call_over` finds without one. Threads that sleep look the same and do not mind.
_AVOID = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)

define internal void @avoid_caller() {
entry:
  %mask = alloca [128 x i8], align 16
  %here = call i32 @sched_getcpu()
  %avoided = load i32, ptr @avoided
  %same = icmp eq i32 %here, %avoided
  %far = icmp ugt i32 %here, 1023
  %fine = or i1 %same, %far
  br i1 %fine, label %out, label %moved
moved:
  store i32 %here, ptr @avoided
  %g = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %bad = icmp slt i32 %g, 0
  br i1 %bad, label %out, label %clear
clear:
  %byte = lshr i32 %here, 3
  %at = getelementptr i8, ptr %mask, i32 %byte
  %bits = load i8, ptr %at
  %place = and i32 %here, 7
  %short = trunc i32 %place to i8
  %bit = shl i8 1, %short
  %rest = xor i8 %bit, -1
  %left = and i8 %bits, %rest
  store i8 %left, ptr %at
  br label %head
head:
  %i = phi i32 [0, %clear], [%following, %body]
  %count = load i32, ptr @started
  %goes_on = icmp slt i32 %i, %count
  br i1 %goes_on, label %body, label %out
body:
  %place_of = getelementptr i64, ptr @handles, i32 %i
  %handle = load i64, ptr %place_of
  %s = call i32 @pthread_setaffinity_np(i64 %handle, i64 128, ptr %mask)
  %following = add i32 %i, 1
  br label %head
out:
  ret void
}

declare i32 @pthread_getcpuclockid(i64, ptr)
@spent = internal global [1024 x i64] zeroinitializer

define internal i64 @spent_by(i64 %handle) {
entry:
  %clock = alloca i32
  %r = call i32 @pthread_getcpuclockid(i64 %handle, ptr %clock)
  %bad = icmp ne i32 %r, 0
  br i1 %bad, label %unknown, label %known
known:
  %kind = load i32, ptr %clock
  %t = call i64 @read(i32 %kind)
  ret i64 %t
unknown:
  %n = call i64 @now()    ; it never stands still
  ret i64 %n
}

define internal void @call_over(i32 %count) {
entry:
  %mask = alloca [128 x i8], align 16
  %started = load i32, ptr @started
  br label %note
note:
  %i = phi i32 [0, %entry], [%i1, %noting]
  %more = icmp slt i32 %i, %started
  br i1 %more, label %noting, label %noted
noting:
  %handle_at = getelementptr i64, ptr @handles, i32 %i
  %handle = load i64, ptr %handle_at
  %before = call i64 @spent_by(i64 %handle)
  %before_at = getelementptr i64, ptr @spent, i32 %i
  store i64 %before, ptr %before_at
  %i1 = add i32 %i, 1
  br label %note
noted:
  %since = call i64 @now()
  br label %look
look:
  %done = load atomic i32, ptr @finished seq_cst, align 64
  %all = icmp sge i32 %done, %count
  br i1 %all, label %out, label %idle
idle:
  call void {pause}
  %time = call i64 @now()
  %passed = sub i64 %time, %since
  %enough = icmp sgt i64 %passed, {moment}
  br i1 %enough, label %move, label %look
move:
  %here = call i32 @sched_getcpu()
  %far = icmp ugt i32 %here, 1023
  br i1 %far, label %out, label %here_only
here_only:
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %byte = lshr i32 %here, 3
  %at = getelementptr i8, ptr %mask, i32 %byte
  %place = and i32 %here, 7
  %short = trunc i32 %place to i8
  %bit = shl i8 1, %short
  store i8 %bit, ptr %at
  store i32 -1, ptr @avoided
  br label %head
head:
  %k = phi i32 [0, %here_only], [%k1, %next]
  %standing = phi i32 [0, %here_only], [%stood, %next]
  %goes_on = icmp slt i32 %k, %started
  br i1 %goes_on, label %body, label %count_them
body:
  %place_of = getelementptr i64, ptr @handles, i32 %k
  %one = load i64, ptr %place_of
  %then_at = getelementptr i64, ptr @spent, i32 %k
  %then = load i64, ptr %then_at
  %now = call i64 @spent_by(i64 %one)
  %stands = icmp eq i64 %then, %now
  br i1 %stands, label %over, label %next
over:
  %s = call i32 @pthread_setaffinity_np(i64 %one, i64 128, ptr %mask)
  br label %next
next:
  %stood_one = zext i1 %stands to i32
  %stood = add i32 %standing, %stood_one
  %k1 = add i32 %k, 1
  br label %head
count_them:
  %asleep = load atomic i32, ptr @asleep seq_cst, align 64
  %lost = icmp sgt i32 %standing, %asleep
  br i1 %lost, label %draw, label %out
draw:
  call void @draw_back()
  br label %out
out:
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

_AVOID_NOTHING = """
define internal void @avoid_caller() {
entry:
  ret void
}

define internal void @call_over(i32 %count) {
entry:
  ret void
}
"""

_making = Lock()


def imports(shares: bool) -> dict[str, int]:
    """What the code of a program must be given that shares work, or that does not."""
    if not shares:
        return {}
    with _making:
        return _made()


def awaited() -> list[modules.Fixed]:
    """The module of the pool, as long as it is not loaded."""
    return [] if _made.cache_info().currsize else [_module(_known_functions())]


def _module(known: Mapping[str, int] | None) -> modules.Fixed:
    if known is None:
        return "pool, alone", lambda: _ALONE
    can_avoid = "sched_getcpu" in known
    return f"pool {can_avoid}", lambda: _text(can_avoid)


@functools.lru_cache(maxsize=1)
def _made() -> dict[str, int]:
    """Where `run` and `offer` lie, under the names that programs call them by, for good."""
    known = _known_functions()
    code = modules.fixed_code(*_module(known))
    if known is None:
        return _called(_kept(loading.Loaded([code], ["run", "offer"])))
    names = ["run", "offer", "resize", "reset"]
    loaded = _kept(loading.Loaded([code], names, known))
    resize = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int64)(loaded.addresses["resize"])
    reset = ctypes.CFUNCTYPE(None)(loaded.addresses["reset"])
    reset()
    resize(threads.get_num_threads(), 0)
    threads.when_changed(lambda count: resize(count, 0))
    os.register_at_fork(after_in_child=reset)
    atexit.register(resize, 1, TRIES)
    return _called(loaded)


def _called(loaded: Any) -> dict[str, int]:
    return {"pool": int(loaded.addresses["run"]), "offer": int(loaded.addresses["offer"])}


def _text(can_avoid: bool) -> str:
    """The module, for this machine."""
    pause = _PAUSES.get(_architecture(), "@nothing()")
    name = pause.partition("(")[0]
    declared = f"declare void {name}({'i32' if 'i32' in pause else ''})"
    if name == "@nothing":
        declared = "define internal void @nothing() {\n  ret void\n}"
    values = {
        "every": r"\FF" * 128,
        "clock": time.CLOCK_MONOTONIC,
        "lookout": LOOKOUT,
        "glance": GLANCE,
        "soon": SOON,
        "often": OFTEN,
        "moment": MOMENT,
        "patience": PATIENCE,
        "least": LEAST,
        "most": MOST,
        "pause": pause,
        "set_mask": int(signal.SIG_SETMASK),
    }
    main = resources.files(__package__).joinpath("pool.ll").read_text("utf-8")
    main += _AVOID if can_avoid else _AVOID_NOTHING
    for word, value in values.items():
        main = main.replace("{" + word + "}", str(value))
    return "\n".join([declared, main])


def _architecture() -> str:
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _known_functions() -> dict[str, int] | None:
    """Where the functions that the code calls lie; None where one is missing."""
    if sys.platform == "win32" or sys.maxsize < 2**32:
        return None
    process = ctypes.CDLL(None)
    found = {}
    for name in (*_POSIX, *_PROCESSORS):
        function = getattr(process, name, None)
        if function is not None:
            found[name] = int(ctypes.cast(function, ctypes.c_void_p).value or 0)
    if not all(name in found for name in _PROCESSORS):
        found = {name: place for name, place in found.items() if name in _POSIX}
    return found if all(name in found for name in _POSIX) else None


def _kept(loaded: Any) -> Any:
    """The same, never freed: its threads may still be asleep in it when all else is gone."""
    loaded.keep_for_good()
    return loaded
