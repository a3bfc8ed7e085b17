"""Machine code for modules of IR text, made on as many threads as programs may use.

`llvmlite` lets one thread at a time into LLVM. What takes long, emitting code, works on a module in
a context of its own with a machine of its own, and nothing else, so it is called without that lock.
Where LLVM's function is not found where it should be, modules are emitted one after the other.

A module can begin to be emitted while others are still written: threads take the longest of those
that wait, and end when there is none; who needs one takes part until it is there.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llvmlite import binding as llvm

from anabranch.backends.native import disk, target, threads

WORTH = 100  # lines of IR, for which it is not worth while to start a thread
AHEAD = 2  # modules that are parsed before a thread asks for them, for each thread


class Job:
    """A module that becomes machine code as soon as a thread is free, or when it is asked for.

    Whoever drops it before somebody has begun does not want it any more.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.made: bytes | None = None
        self.error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.made is not None or self.error is not None


def emitted(texts: Sequence[str]) -> list[bytes]:
    """Machine code for each module, made now; the same whatever the number of threads."""
    return finished(begun(texts, is_awaited=True))


def begun(texts: Sequence[str], is_awaited: bool = False) -> list[Job]:
    """Jobs for modules, which other threads begin at once, as far as there are any.

    `is_awaited` says that this thread will take part at once.
    """
    return _crew.begun(texts, is_awaited)


def finished(jobs: Sequence[Job]) -> list[bytes]:
    """The machine code of each, as soon as all are made.

    Raises:
        RuntimeError: where a text is not a legal module, which is a fault of its emitter.
    """
    return _crew.finished(jobs)


class _Entry:
    """A job that waits, and its module if that is parsed.

    A job may be freed in a circle of objects, where a module could outlive what it lies in.
    """

    def __init__(self, job: Job) -> None:
        self.job = weakref.ref(job)
        self.module: Any = None


class _Crew:
    """Threads, and the jobs that wait for them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Entry] = []
        self._busy: dict[Job, int] = {}  # and the thread that is at it
        self._others: list[threading.Thread] = []
        self._machines: list[Any] = []  # at rest

    def begun(self, texts: Sequence[str], is_awaited: bool) -> list[Job]:
        target.host()
        jobs = [Job(text) for text in texts]
        others = self._wanted(jobs, is_awaited) if _without_lock() else 0
        entries = [_Entry(job) for job in jobs]
        if others:
            self._parse(entries[: AHEAD * others - self._ready()])
        with self._changed:
            self._waiting += entries
        # A thread has begun its work before its start is over: it need not wait for Python's lock.
        self._others = [other for other in self._others if other.is_alive()]
        for _ in range(others - len(self._others)):
            self._start()
        return jobs

    def _wanted(self, jobs: Sequence[Job], is_awaited: bool) -> int:
        """How many threads have something to do."""
        with self._changed:
            long = [job for job in (*self._known(), *jobs) if job.text.count("\n") > WORTH]
        return max(min(threads.get_num_threads() - 1, len(long) - is_awaited), 0)

    def _known(self) -> list[Job]:
        """The jobs that wait; what nobody wants any more goes."""
        found = [(entry, entry.job()) for entry in self._waiting]
        for entry, job in found:
            if job is None and entry.module is not None:
                entry.module.close()
        self._waiting = [entry for entry, job in found if job is not None]
        return [job for _, job in found if job is not None]

    def _ready(self) -> int:
        with self._changed:
            return sum(entry.module is not None for entry in self._waiting)

    def _parse(self, entries: Sequence[_Entry]) -> None:
        """Leave nothing but LLVM's work to threads: who runs Python lets them seldom in between."""
        with self._machine() as machine:
            for entry in entries:
                if (job := entry.job()) is not None:
                    with contextlib.suppress(RuntimeError):  # told by who asks for it
                        entry.module = target.parsed(job.text, machine)

    def _start(self) -> None:
        other = threading.Thread(target=self._work)
        # It may fail where the interpreter ends, or the system has no more of them.
        with contextlib.suppress(RuntimeError):
            other.start()
            self._others.append(other)

    def _work(self) -> None:
        """What another thread does: all that waits."""
        while (found := self._next()) is not None:
            self._make(*found)
            del found

    def finished(self, jobs: Sequence[Job]) -> list[bytes]:
        for job in jobs:
            while not job.is_done:
                if (other := self._next(jobs)) is not None:
                    self._make(*other)
                else:
                    self._await(job)
            if job.error is not None:
                self._tell(job)
        return [job.made or b"" for job in jobs]

    def _await(self, job: Job) -> None:
        with self._changed:
            me = threading.get_ident()
            left = [one for one, who in self._busy.items() if who == me]  # as it was stopped
            for one in left:
                del self._busy[one]
                self._waiting.append(_Entry(one))
            if not (job.is_done or self._waiting):
                self._changed.wait()

    def _tell(self, job: Job) -> None:
        error, job.error = job.error, None
        with self._changed:  # who asks again is told again
            self._waiting.append(_Entry(job))
        try:
            raise error or AssertionError
        finally:
            del error  # whose frames lead to this one

    def _next(self, first: Sequence[Job] = ()) -> tuple[Job, Any] | None:
        """The longest that waits, of these if there is one, and its module if that is parsed.

        It is nobody else's from now on.
        """
        with self._changed:
            found = self._known()
            wanted = [job for job in found if job in first] or found
            if not wanted:
                return None
            job = max(wanted, key=lambda job: len(job.text))
            entry = self._waiting.pop(found.index(job))
            self._busy[job] = threading.get_ident()
            return job, entry.module

    def _make(self, job: Job, module: Any) -> None:
        """The code of a job, or why there is none."""
        try:
            with self._machine() as machine:
                emit = _without_lock()
                if emit is None:
                    job.made = target.emitted(job.text)
                else:
                    job.made = emit(machine, module or target.parsed(job.text, machine))
        except Exception as error:  # raised where the job is asked for, on another thread perhaps
            job.error = error.with_traceback(None)  # whose frames lead to the job
        finally:
            with self._changed:
                self._busy.pop(job, None)
                if not job.is_done:  # somebody wants to stop
                    self._waiting.append(_Entry(job))
                self._changed.notify_all()

    @contextlib.contextmanager
    def _machine(self) -> Iterator[Any]:
        """One that no other thread uses."""
        try:
            machine = self._machines.pop()
        except IndexError:
            machine = target.target_machine()
        try:
            yield machine
        finally:
            self._machines.append(machine)

    def hold(self) -> None:
        """Take every lock there is here."""
        self._changed.acquire()
        if (lock := _library_lock()) is not None:
            lock.__enter__()

    def let_go(self) -> None:
        if (lock := _library_lock()) is not None:
            lock.__exit__(None, None, None)
        self._changed.release()

    def left_by(self, gone: _Crew) -> None:
        """Take over the jobs of a process that this one is a copy of, without its threads."""
        self._waiting = [*gone._waiting, *map(_Entry, gone._busy)]
        _lost.append(gone)  # with what those threads were working on


_crew = _Crew()
_lost: list[_Crew] = []


def _begin_anew() -> None:
    global _crew
    gone, _crew = _crew, _Crew()
    _crew.left_by(gone)


def _hold() -> None:
    """Let no other thread hold a lock when this process is copied: the copy would never get it."""
    _crew.hold()


def _let_go(is_copy: bool = False) -> None:
    _crew.let_go()
    if is_copy:
        _begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold,
        after_in_parent=_let_go,
        after_in_child=functools.partial(_let_go, is_copy=True),
    )


def _library_lock() -> Any:
    """What lets one thread at a time into LLVM; None where llvmlite hides it."""
    lock = getattr(llvm.ffi.lib, "_lock", None)
    return lock if hasattr(lock, "__enter__") else None


@functools.lru_cache(maxsize=1)
def _without_lock() -> Callable[[Any, Any], bytes] | None:
    """Emits one module with a machine that no other thread uses; None where that cannot be."""
    try:
        name = llvm.ffi.lib._name
        emit = ctypes.CDLL(name)["LLVMPY_TargetMachineEmitToMemory"]
        start, size, free, free_text = (  # too short to let other threads run Python meanwhile
            ctypes.PyDLL(name)[f"LLVMPY_{word}"]
            for word in ("GetBufferStart", "GetBufferSize", "DisposeMemoryBuffer", "DisposeString")
        )
    except (AttributeError, OSError):
        return None
    emit.restype = start.restype = ctypes.c_void_p
    size.restype = ctypes.c_size_t
    free.restype = free_text.restype = None

    def emitted_by(machine: Any, module: Any) -> bytes:
        error = ctypes.c_void_p()
        with module:
            buffer = ctypes.c_void_p(emit(machine, module, 1, ctypes.byref(error)))
        if buffer.value is None:
            said = ctypes.string_at(error.value or 0).decode("utf-8", "replace")
            free_text(error)
            raise RuntimeError(said)
        try:
            code = ctypes.string_at(start(buffer), size(buffer))
        finally:
            free(buffer)
        disk.counts.emitted += 1
        return code

    return emitted_by
