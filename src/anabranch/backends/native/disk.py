"""Generated code on disk: bytes under a key, in a directory that only the user can write to.

What is read here is machine code that will run, so a directory or a file that belongs to somebody
else, or that others may write to, is refused. An entry carries a checksum over its key and its
content; one that does not fit is dropped and made anew. Entries appear whole, by renaming, so
processes may share the directory. When it grows past its bound, what was not used for longest goes.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import sys
import time
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from anabranch.core.digest import SIZE, digest
from anabranch.core.late import LateModule
from anabranch.core.locks import Lock
from anabranch.core.source import warn

if TYPE_CHECKING:
    import pathlib
    import tempfile
    from pathlib import Path
else:
    pathlib = LateModule("pathlib")
    tempfile = LateModule("tempfile")

DIRECTORY, BOUND = "ANABRANCH_CACHE_DIR", "ANABRANCH_CACHE_BYTES"
_MOST = 256 * 2**20
_MAGIC = b"anabranch code 2\n"
_SUFFIX, _UNFINISHED = ".code", ".part"
_ABANDONED = 3600.0  # seconds after which an unfinished file has nobody who finishes it
_SHRUNK = 0.8  # of the bound, when it has been passed
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Counts(types.SimpleNamespace):
    """What a process has done so far.

    Attributes:
        emitted: modules that LLVM made machine code of.
        found: pieces of machine code that were found on disk.
    """

    emitted: int
    found: int


counts = Counts(emitted=0, found=0)


class Store:
    """The entries of one directory.

    Attributes:
        bound: how many bytes they may take together.
    """

    def __init__(self, directory: str | Path, bound: int) -> None:
        self._directory = os.fspath(directory)
        self.bound = bound
        self._is_refused = False
        self._lock = Lock()

    @property
    def directory(self) -> Path:
        """Where they lie."""
        return pathlib.Path(self._directory)

    def holds(self, key: str) -> bool:
        """Whether something was written under a key."""
        return os.path.exists(self._path(key))

    def read(self, key: str) -> list[bytes] | None:
        """What was written under a key; None if that is not there, damaged or not to be trusted."""
        path = self._path(key)
        if self._is_refused or not os.path.exists(path) or not self._is_trusted():
            return None
        try:
            content = _unpacked(key, _read(path))
        except OSError:
            return None
        with contextlib.suppress(OSError):
            if content is None:
                os.unlink(path)
            else:
                os.utime(path)  # it was of use just now
        return content

    def write(self, key: str, parts: Sequence[bytes]) -> None:
        """Keep these under a key, where that is possible."""
        self.write_all({key: parts})

    def write_all(self, entries: Mapping[str, Sequence[bytes]]) -> None:
        """The same for several keys, after which the directory is looked through once."""
        packed = {self._path(key): _packed(key, parts) for key, parts in entries.items()}
        fitting = {path: data for path, data in packed.items() if len(data) <= self.bound // 2}
        if self._is_refused or not fitting or not self._is_trusted(make=True):
            return
        try:
            with self._lock:
                for path, data in fitting.items():
                    self._put(path, data)
                self._shrink(fitting.keys())
        except OSError as error:
            self._refuse(f"cannot be written ({error.strerror or error})")

    def clear(self) -> int:
        """Remove all entries; gives how many there were."""
        with self._lock:
            return sum(_remove(path) for path, _, _ in self._entries())

    def size(self) -> int:
        """The bytes of all entries."""
        return sum(size for _, size, _ in self._entries())

    def _path(self, key: str) -> str:
        return os.path.join(self._directory, f"{key}{_SUFFIX}")

    def _put(self, path: str, data: bytes) -> None:
        handle, name = tempfile.mkstemp(_UNFINISHED, dir=self._directory)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(name, path)
        except OSError:
            _remove(name)
            raise

    def _shrink(self, newest: Collection[str]) -> None:
        """Remove what was not used for longest, if the entries, other processes' too, are many."""
        entries = sorted(self._entries(), key=lambda entry: (entry[0] in newest, entry[2]))
        size = sum(size for _, size, _ in entries)
        if size <= self.bound:
            return
        for path, length, _ in entries:
            if size <= self.bound * _SHRUNK:
                break
            size -= length * _remove(path)

    def _entries(self) -> Iterator[tuple[str, int, float]]:
        """Path, bytes and time of last use of each; what nobody will finish goes on the way."""
        try:
            found = list(os.scandir(self._directory))
        except OSError:
            return
        for entry in found:
            with contextlib.suppress(OSError):
                known = entry.stat(follow_symlinks=False)
                if entry.name.endswith(_SUFFIX):
                    yield entry.path, known.st_size, known.st_mtime
                elif entry.name.endswith(_UNFINISHED) and (
                    time.time() - known.st_mtime > _ABANDONED
                ):
                    _remove(entry.path)

    def _is_trusted(self, make: bool = False) -> bool:
        """Whether the directory is the user's alone; if not, that is said once."""
        try:
            if make:
                os.makedirs(self._directory, 0o700, exist_ok=True)
            found = os.stat(self._directory)
        except OSError as error:
            return self._refuse(f"cannot be used ({error.strerror or error})")
        reason = _against(found)
        return True if reason is None else self._refuse(reason)

    def _refuse(self, reason: str) -> bool:
        """Use the directory no more, and say why; gives False."""
        self._is_refused = True
        _warn(f"the cache of compiled code, {self._directory}, {reason}; code is compiled anew")
        return False


def store() -> Store | None:
    """The store that the environment asks for; None where it is switched off."""
    named = os.environ.get(DIRECTORY)
    if named == "":
        return None
    try:
        bound = int(os.environ.get(BOUND, _MOST))
    except ValueError:
        _warn(f"{BOUND} must be a number of bytes, not {os.environ[BOUND]!r}")
        bound = _MOST
    directory = named or _users_own()
    if directory is None or bound <= 0:
        return None
    wanted = (directory, bound)
    if wanted not in _stores:
        _stores[wanted] = Store(directory, bound)
    return _stores[wanted]


_stores: dict[tuple[str, int], Store] = {}
_told: set[str] = set()


def _warn(text: str) -> None:
    if text not in _told:
        _told.add(text)
        warn(text)


def _users_own() -> str | None:
    """Where this user's caches lie on this system; None where there is no home."""
    home = os.path.expanduser("~")
    if home == "~":
        return None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(base, "anabranch", "cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "anabranch")
    named = os.environ.get("XDG_CACHE_HOME")  # which must be absolute to count
    base = named if named and os.path.isabs(named) else os.path.join(home, ".cache")
    return os.path.join(base, "anabranch")


# Bytes


def _read(path: str) -> bytes:
    """The content of a file that is the user's alone; nothing of any other."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        is_good = stat.S_ISREG(found.st_mode) and _against(found) is None
        return file.read() if is_good else b""


def _against(found: os.stat_result) -> str | None:
    """Why a file or directory is not to be trusted; None where it is."""
    if not hasattr(os, "geteuid"):  # where it lies in the user's profile, which is closed to others
        return None
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    return "can be written to by others" if found.st_mode & _OTHERS else None


def _packed(key: str, parts: Sequence[bytes]) -> bytes:
    lengths = struct.pack(f"<{len(parts) + 1}Q", len(parts), *map(len, parts))
    body = b"".join([lengths, *parts])
    return _MAGIC + _checksum(key, body) + body


def _unpacked(key: str, data: bytes) -> list[bytes] | None:
    """The parts of an entry; None if it is damaged or another's."""
    start = len(_MAGIC) + SIZE
    body = data[start:]
    if data[:start] != _MAGIC + _checksum(key, body):
        return None
    (count,) = struct.unpack_from("<Q", body)
    lengths = struct.unpack_from(f"<{count}Q", body, 8)
    parts, place = [], 8 * (count + 1)
    for length in lengths:
        parts.append(body[place : place + length])
        place += length
    return parts


def _checksum(key: str, body: bytes) -> bytes:
    made = digest(key.encode())
    made.update(body)
    return bytes(made.digest())


def _remove(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True
