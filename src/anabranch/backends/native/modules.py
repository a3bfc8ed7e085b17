"""Modules of IR text as machine code, which is kept on disk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

_recent: dict[str, bytes] = {}
_handed_on: dict[str, bytes] = {}  # what was made before somebody asked for it


def object_code(ir: str) -> bytes:
    """Machine code for a module of IR text, from the disk if it was made before.

    Raises:
        RuntimeError: where the text is not a legal module, which is a fault of its emitter.
    """
    return object_codes([ir], [ir])[0]


def object_codes(texts: Sequence[str], kept: Collection[str]) -> tuple[bytes, ...]:
    """The same for several, of which those in `kept` are looked up on disk, and kept there."""
    found = _Making(texts, kept, is_awaited=True).finished()
    return tuple(found[text] for text in texts)


@contextmanager
def made_meanwhile(texts: Sequence[str]) -> Iterator[None]:
    """Other threads, where there are any, make these while the block runs, for those who ask next.

    Without other threads nothing is made before somebody asks.
    """
    if not texts or get_num_threads() == 1:
        yield
        return
    making = _Making(texts, texts, is_awaited=False)
    yield
    for text, code in making.finished().items():
        if (key := making.keys.get(text)) is not None:
            _handed_on[key] = code


class _Making:
    """Modules of which those are emitted that are not found."""

    def __init__(self, texts: Sequence[str], kept: Collection[str], is_awaited: bool) -> None:
        self._store, identity = disk.store(), machine.identity()
        self.keys = {text: key_of("module", text, *identity) for text in kept} if identity else {}
        found = ((text, _found(key, self._store)) for text, key in self.keys.items())
        self._codes = {text: code for text, code in found if code is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in self._codes]
        self._missing = missing
        self._emission = emission.Emission(missing, is_awaited) if missing else None

    def finished(self) -> Mapping[str, bytes]:
        """The machine code of each."""
        if self._emission is not None:
            self._codes |= zip(self._missing, self._emission.finished(), strict=True)
        kept = {self.keys[one]: self._codes[one] for one in self._missing if one in self.keys}
        if kept:
            _keep(kept, self._store)
        return self._codes


def _found(key: str, store: disk.Store | None) -> bytes | None:
    if key in _handed_on:
        return _handed_on.pop(key)
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
