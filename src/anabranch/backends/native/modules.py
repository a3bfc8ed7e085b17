"""Modules of IR text as machine code, which is kept on disk."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

Written = tuple[str, Sequence[str]]  # IR, and what its table must hold
Fixed = tuple[str, Callable[[], str]]  # a module of which there is one in each process

_recent: dict[str, bytes] = {}  # by key
_made_before: dict[str, bytes] = {}  # by text, what nobody has asked for yet


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
    found = {text: code for text, key in keys.items() if (code := _found(key, store)) is not None}
    missing = [text for text in dict.fromkeys(texts) if text not in found]
    if missing:
        found |= zip(missing, emission.emitted(missing), strict=True)
        _keep({keys[text]: found[text] for text in missing if text in keys}, store)
    return tuple(found[text] for text in texts)


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
        return _made(ir) or object_code(ir), slots
    found = store.read(key)
    if found is not None:
        disk.counts.found += 1
        return found[1], marshal.loads(found[0])
    ir, slots = write()
    code = _made(ir) or emission.emitted([ir])[0]
    if machine.is_still(source):
        store.write(key, [marshal.dumps(list(slots)), code])
    return code, slots


def fixed_code(name: str, write: Callable[[], str]) -> bytes:
    """The same for a module of which there is one in each process."""
    return described_code(_description(name), lambda: (write(), ()))[0]


@contextmanager
def made_meanwhile(fixed: Sequence[Fixed]) -> Iterator[None]:
    """Other threads, where there are any, make these while the block runs, for who asks next."""
    missing = []
    if get_num_threads() > 1:
        missing = [write() for name, write in fixed if not _is_on_disk(_description(name))]
    if not missing:
        yield
        return
    made = emission.Emission(missing, is_awaited=False)
    try:
        yield
    finally:  # no thread goes on behind the block
        _made_before.update(zip(missing, made.finished(), strict=True))


def _made(ir: str) -> bytes | None:
    return _made_before.pop(ir, None)


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
