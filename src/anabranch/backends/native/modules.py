"""Modules of IR text as machine code, which is kept on disk."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from anabranch.backends.native import disk, machine
from anabranch.core.digest import key_of
from anabranch.core.late import LateModule

if TYPE_CHECKING:
    from anabranch.backends.native import emission
else:
    emission = LateModule("anabranch.backends.native.emission")

REMEMBERED = 256  # modules that are kept, where there is no disk to keep them on

_recent: dict[str, bytes] = {}


def object_code(ir: str) -> bytes:
    """Machine code for a module of IR text, from the disk if it was made before.

    Raises:
        RuntimeError: where the text is not a legal module, which is a fault of its emitter.
    """
    return object_codes([ir], [ir])[0]


def object_codes(texts: Sequence[str], kept: Collection[str]) -> tuple[bytes, ...]:
    """The same for several, of which those in `kept` are looked up on disk, and kept there."""
    store, identity = disk.store(), machine.identity()
    keys = {text: key_of("module", text, *identity) for text in kept} if identity else {}
    found = {text: code for text, key in keys.items() if (code := _found(key, store))}
    missing = [text for text in dict.fromkeys(texts) if text not in found]
    if missing:
        found |= zip(missing, emission.emitted(missing), strict=True)
    for text in missing:
        if text in keys:
            _keep(keys[text], found[text], store)
    return tuple(found[text] for text in texts)


def _found(key: str, store: disk.Store | None) -> bytes | None:
    if store is None:
        return _recent.get(key)
    parts = store.read(key)
    if parts is None:
        return None
    disk.counts.found += 1
    return parts[0]


def _keep(key: str, code: bytes, store: disk.Store | None) -> None:
    if store is not None:
        store.write(key, [code])
        return
    if len(_recent) >= REMEMBERED:
        _recent.clear()
    _recent[key] = code
