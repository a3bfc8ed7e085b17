"""Machine code for several modules of IR text, made on as many threads as programs may use.

`llvmlite` lets one thread at a time into LLVM. What takes long, emitting code, works on a module in
a context of its own with a machine of its own, and nothing else, so it is called without that lock.
Where LLVM's function is not found where it should be, modules are emitted one after the other.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding as llvm

from anabranch.backends.native import disk, target, threads

WORTH = 100  # lines of IR, for which it is not worth while to start a thread


def emitted(texts: Sequence[str]) -> list[bytes]:
    """Machine code for each module, made now; the same whatever the number of threads."""
    return Emission(texts, is_awaited=True).finished()


class Emission:
    """Modules that other threads begin to emit at once, as far as there are any.

    Who wants the code takes part until all is done; that it is `is_awaited` says that somebody will
    at once.
    """

    def __init__(self, texts: Sequence[str], is_awaited: bool) -> None:
        target.host()
        self._texts = texts
        self._codes = [b""] * len(texts)
        self._errors: list[BaseException] = []
        self._waiting = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        self._emit = _without_lock()
        count = sum(text.count("\n") > WORTH for text in texts) - is_awaited
        count = min(threads.get_num_threads() - 1, count) if self._emit else 0
        self._others = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        for other in self._others:
            other.start()

    def finished(self) -> list[bytes]:
        """The machine code of each."""
        try:
            self._work()
        finally:
            for other in self._others:
                other.join()
        if self._errors:
            try:
                raise self._errors[0]
            finally:
                self._errors.clear()  # which lead to this object again
        return self._codes

    def _work(self) -> None:
        machine = target.target_machine() if self._emit else None
        while not self._errors:
            try:
                i = self._waiting.pop()  # the longest first
            except IndexError:
                return
            text = self._texts[i]
            try:
                self._codes[i] = self._emit(machine, text) if self._emit else target.emitted(text)
            except BaseException as error:  # told by the thread that asked
                self._errors.append(error)


@functools.lru_cache(maxsize=1)
def _without_lock() -> Callable[[Any, str], bytes] | None:
    """Emits one module with a machine that no other thread uses; None where that cannot be."""
    try:
        library = ctypes.CDLL(llvm.ffi.lib._name)
        emit, start, size, free, free_text = (
            library[f"LLVMPY_{word}"]
            for word in (
                *("TargetMachineEmitToMemory", "GetBufferStart", "GetBufferSize"),
                *("DisposeMemoryBuffer", "DisposeString"),
            )
        )
    except (AttributeError, OSError):
        return None
    emit.restype = start.restype = ctypes.c_void_p
    size.restype = ctypes.c_size_t
    free.restype = free_text.restype = None

    def emitted_by(machine: Any, text: str) -> bytes:
        error = ctypes.c_void_p()
        with target.parsed(text, machine) as module:
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
