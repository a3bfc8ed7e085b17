"""Modules of IR text as machine code, which is kept on disk."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from anabranch.backends.native import disk, machine
from anabranch.backends.native.threads import get_num_threads
from anabranch.core.digest import key_of
from anabranch.core.late import LateModule

if TYPE_CHECKING:
    from anabranch.backends.native import emission
else:
    emission = LateModule("anabranch.backends.native.emission")

REMEMBERED = 256  # modules that are kept, where there is no disk to keep them on

Written = tuple[str, Sequence[str]]  # IR, and what its table must hold
Fixed = tuple[str, Callable[[], str]]  # a module of which there is one in each process

_recent: dict[str, bytes] = {}  # by key
_begun: dict[str, emission.Job] = {}  # by text, what nobody has asked for yet


def object_code(ir: str) -> bytes:
    """Machine code for a module of IR text, from the disk if it was made before.

    Raises:
        RuntimeError: where the text is not a legal module, which is a fault of its emitter.
    """
    return object_codes([ir], [ir])[0]


def object_codes(texts: Sequence[str], kept: Collection[str]) -> tuple[bytes, ...]:
    """The same for several, of which those in `kept` are looked up on disk, and kept there."""
    making = Making()
    making.begin(texts, kept, is_awaited=True)
    return making.codes(texts)


class Making:
    """Several modules whose machine code is found on disk, or in the making."""

    def __init__(self) -> None:
        self._store, self._identity = disk.store(), machine.identity()
        self._found: dict[str, bytes] = {}
        self._jobs: dict[str, emission.Job] = {}
        self._keys: dict[str, str] = {}  # of those that are to be kept on disk

    def begin(
        self, texts: Sequence[str], kept: Collection[str] = (), is_awaited: bool = False
    ) -> None:
        """Look for those in `kept`, and let threads make what is missing, as far as there are any.

        `is_awaited` says that the caller will ask for them at once.
        """
        if self._identity:
            self._keys |= {text: key_of("module", text, *self._identity) for text in kept}
        for text in self._keys.keys() & set(kept):
            if (code := _found(self._keys[text], self._store)) is not None:
                self._found[text] = code
        known = self._found.keys() | self._jobs.keys()
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        self._jobs |= {text: _begun.pop(text) for text in missing if text in _begun}
        missing = [text for text in missing if text not in self._jobs]
        if missing:
            self._jobs.update(zip(missing, emission.begun(missing, is_awaited), strict=True))

    def codes(self, texts: Sequence[str]) -> tuple[bytes, ...]:
        """The machine code of these, which have been begun."""
        if self._jobs:
            found = zip(self._jobs, emission.finished(list(self._jobs.values())), strict=True)
            self._found.update(found)
            keys = {self._keys[text]: text for text in self._jobs if text in self._keys}
            _keep({key: self._found[text] for key, text in keys.items()}, self._store)
            self._jobs = {}
        return tuple(self._found[text] for text in texts)


def _found(key: str, store: disk.Store | None) -> bytes | None:
    if store is None:
        return _recent.get(key)
    parts = store.read(key)
    if parts is None:
        return None
    disk.counts.found += 1
    return parts[0]


def _keep(codes: Mapping[str, bytes], store: disk.Store | None) -> None:
    if store is not None:
        store.write_all({key: [code] for key, code in codes.items()})
        return
    if len(_recent) + len(codes) > REMEMBERED:
        _recent.clear()
    _recent.update(codes)


# What is described


def described_code(described: str, write: Callable[[], Written]) -> tuple[bytes, Sequence[str]]:
    """Machine code for what a text describes, and what its table must hold.

    The module is written only if it is not on disk.
    """
    store, source = disk.store(), machine.library()
    key = _key_of(described)
    if store is None or source is None or key is None:
        ir, slots = write()
        return object_code(ir), slots
    found = store.read(key)
    if found is not None:
        disk.counts.found += 1
        return found[1], marshal.loads(found[0])
    ir, slots = write()
    (code,) = object_codes([ir], [])
    if machine.is_still(source):
        store.write(key, [marshal.dumps(list(slots)), code])
    return code, slots


def fixed_code(name: str, write: Callable[[], str]) -> bytes:
    """The same for a module of which there is one in each process."""
    return described_code(_description(name), lambda: (write(), ()))[0]


def begin_fixed(fixed: Sequence[Fixed]) -> None:
    """Other threads, where there are any, make these for who asks next."""
    if get_num_threads() > 1:
        missing = [write() for name, write in fixed if not _is_on_disk(_description(name))]
        new = [text for text in missing if text not in _begun]
        if new:
            _begun.update(zip(new, emission.begun(new), strict=True))


def _description(name: str) -> str:
    return f"fixed {name}"


def _is_on_disk(described: str) -> bool:
    store, key = disk.store(), _key_of(described)
    return store is not None and key is not None and store.holds(key)


def _key_of(described: str) -> str | None:
    """What the code is filed under; None where that cannot be said."""
    source, identity = machine.library(), machine.identity()
    if source is None or identity is None:
        return None
    return key_of("described", described, source, *identity)
