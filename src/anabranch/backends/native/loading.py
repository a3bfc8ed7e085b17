"""From object files to addresses in this process.

Object files of the kind that LLVM writes for 64-bit x86 on ELF systems are put into memory here:
sections side by side, and addresses where the files ask for them. That takes a tenth of a
millisecond, and LLVM need not be loaded for it. Whatever is of another kind LLVM links itself.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.late import LateModule
from anabranch.core.record import record

if TYPE_CHECKING:
    from anabranch.backends.native import target
else:
    target = LateModule("anabranch.backends.native.target")

# Kinds of sections, their flags, special places of symbols, and ways to write an address.
_BITS, _SYMBOLS, _RELOCATIONS, _ZEROS, _SHORT_RELOCATIONS, _UNWINDING = 1, 2, 4, 8, 9, 0x70000001
_WRITE, _ALLOCATED, _THREAD = 1, 2, 0x400
_NOWHERE, _ABSOLUTE, _RESERVED = 0, 0xFFF1, 0xFF00
_WHOLE, _NEAR, _CALL, _FAR = 1, 2, 4, 24
_LOCAL = 0
_HEAD = b"\x7fELF\x02\x01\x01"
_X86_64 = 62
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<i8"),
     ("size", "<i8")]
)  # fmt: skip
_RELOCATION = np.dtype([("place", "<i8"), ("kind", "<u4"), ("symbol", "<u4"), ("more", "<i8")])


class Loaded:
    """Machine code in memory, which stays as long as this object does.

    It offers the functions in `names`, and may call those in `imports`, which have addresses, and
    those of the C library.
    """

    def __init__(
        self,
        objects: Sequence[bytes],
        names: Sequence[str],
        imports: Mapping[str, int] | None = None,
    ) -> None:
        self._held: Any
        try:
            self._held, found = _placed(objects, imports or {})
        except (_ForeignError, OSError):
            self._held = target.Linked(objects, names, imports or {})
            found = self._held.addresses
        self.addresses: Mapping[str, int] = {name: found[name] for name in names}

    def keep_for_good(self) -> None:
        """Stay until the process ends, also behind the end of the interpreter."""
        keep_for_good(self)
        if not isinstance(self._held, mmap.mmap):
            keep_for_good(target.linker())  # which would take all machine code with it


def keep_for_good(held: Any) -> None:
    """Let this stay until the process ends, also behind the end of the interpreter."""
    keep = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))
    keep(held)


class _ForeignError(Exception):
    """An object file has something that is not known here."""


@record
class _Section:
    """A row of the table of sections."""

    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class _File:
    """An object file: its sections, its symbols, and where they go."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if data[:7] != _HEAD or struct.unpack_from("<HH", data, 16) != (1, _X86_64):
            raise _ForeignError
        (start,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
        self.sections = [
            _Section(kind, flags, offset, size, link, info, max(alignment, 1))
            for _, kind, flags, _, offset, size, link, info, alignment, _ in struct.iter_unpack(
                "<IIQQQQIIQQ", data[start : start + 64 * count]
            )
        ]
        tables = [one for one in self.sections if one.kind == _SYMBOLS]
        if len(tables) != 1:
            raise _ForeignError
        self.symbols = np.frombuffer(data, _SYMBOL, tables[0].size // 24, tables[0].offset)
        self._names = self.sections[tables[0].link].offset
        self.bases = np.zeros(count, np.int64)  # of the sections that are loaded; 0: not loaded

    def is_loaded(self, section: _Section) -> bool:
        """Whether a section belongs into memory; what unwinds the stack nobody asks for."""
        if not section.flags & _ALLOCATED or section.kind == _UNWINDING:
            return False
        if section.kind not in (_BITS, _ZEROS) or section.flags & _THREAD:
            raise _ForeignError
        return True

    def name(self, symbol: int) -> str:
        start = self._names + int(self.symbols["name"][symbol])
        return self.data[start : self.data.index(b"\0", start)].decode()

    def values(self, known: Mapping[str, int]) -> np.ndarray[Any, Any]:
        """The address of each symbol; what stands nowhere in the file is looked up by name."""
        section = self.symbols["section"]
        is_own = section < _RESERVED
        if not np.all(is_own | (section == _ABSOLUTE)):
            raise _ForeignError
        bases = self.bases[np.where(is_own, section, 0)]
        values: np.ndarray[Any, Any] = self.symbols["value"] + np.where(is_own, bases, 0)
        for symbol in np.flatnonzero(section == _NOWHERE)[1:]:  # the first is none
            name = self.name(int(symbol))
            values[symbol] = known[name] if name in known else _of_the_process(name)
        return values

    def offered(self) -> dict[str, int]:
        """The addresses of what other files may use."""
        section, info = self.symbols["section"], self.symbols["info"]
        found = np.flatnonzero((info >> 4 != _LOCAL) & (section != _NOWHERE))
        return {
            self.name(int(i)): int(self.bases[section[i]] + self.symbols["value"][i])
            for i in found
            if section[i] < _RESERVED
        }


def _placed(
    objects: Sequence[bytes], imports: Mapping[str, int]
) -> tuple[mmap.mmap, dict[str, int]]:
    """Memory with these files, and the addresses of what they offer."""
    if not _is_known_here():
        raise _ForeignError
    files = [_File(data) for data in objects]
    places, fixed, size = _laid_out(files)
    # Private: a child process that is forked gets data of its own.
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    offered: dict[str, int] = {}
    for file, own in zip(files, places, strict=True):
        for i, place in own.items():
            section = file.sections[i]
            file.bases[i] = start + place
            if section.kind == _BITS:
                content = file.data[section.offset : section.offset + section.size]
                memory[place : place + section.size] = content
        found = file.offered()
        if not found.keys().isdisjoint(offered):
            raise _ForeignError
        offered |= found
    known = {**imports, **offered}
    for file in files:
        _write_addresses(file, known, memory, start)
    if _process().mprotect(ctypes.c_void_p(start), ctypes.c_size_t(fixed), _READ_AND_RUN):
        raise OSError("memory cannot be made executable")
    return memory, offered


_READ_AND_RUN = 0x1 | 0x4


def _laid_out(files: Sequence[_File]) -> tuple[list[dict[int, int]], int, int]:
    """Where each section of each file goes, where what may be written to begins, and all bytes."""
    places: list[dict[int, int]] = [{} for _ in files]
    end = fixed = 0
    for writable in (0, _WRITE):
        for file, own in zip(files, places, strict=True):
            for i, section in enumerate(file.sections):
                if file.is_loaded(section) and section.flags & _WRITE == writable:
                    if section.alignment > mmap.PAGESIZE:
                        raise _ForeignError
                    own[i] = -(-end // section.alignment) * section.alignment
                    end = own[i] + section.size
        end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
        fixed = fixed or end
    return places, fixed, end


def _write_addresses(file: _File, known: Mapping[str, int], memory: mmap.mmap, start: int) -> None:
    values = file.values(known)
    for section in file.sections:
        is_wanted = section.kind in (_RELOCATIONS, _SHORT_RELOCATIONS)
        base = int(file.bases[section.info]) if is_wanted else 0
        if not base:
            continue
        if section.kind == _SHORT_RELOCATIONS:
            raise _ForeignError
        wanted = np.frombuffer(file.data, _RELOCATION, section.size // 24, section.offset)
        for kind in sorted(set(wanted["kind"].tolist())):
            some = wanted[wanted["kind"] == kind]
            places, found = some["place"] + base, values[some["symbol"]] + some["more"]
            if kind in (_NEAR, _CALL, _FAR):
                found = found - places
            elif kind != _WHOLE:
                raise _ForeignError
            size = 4 if kind in (_NEAR, _CALL) else 8
            if size == 4 and np.any(found != found.astype(np.int32)):
                raise _ForeignError
            # Addresses stand anywhere: each byte of the memory begins an element here.
            length = len(memory) - size + 1
            every = np.ndarray(length, f"<i{size}", memory, strides=(1,))
            every[places - start] = found


def _of_the_process(name: str) -> int:
    """A function of the C library, or of whatever else this process has loaded."""
    function = getattr(_process(), name, None)
    if function is None:
        raise _ForeignError
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


@functools.lru_cache(maxsize=1)
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@functools.lru_cache(maxsize=1)
def _is_known_here() -> bool:
    machine = platform.machine().lower()
    return sys.platform == "linux" and machine in ("x86_64", "amd64") and sys.maxsize > 2**32
