"""Modules of IR text as machine code, which is kept on disk."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from anabranch.backends.native import disk, machine
from anabranch.core.digest import key_of
from anabranch.core.late import LateModule

if TYPE_CHECKING:
    from anabranch.backends.native import target
else:
    target = LateModule("anabranch.backends.native.target")

Written = tuple[str, Sequence[str]]  # IR, and what its table must hold


def object_code(ir: str) -> bytes:
    """Machine code for a module of IR text, from the disk if it was made before.

    Raises:
        RuntimeError: where the text is not a legal module, which is a fault of its emitter.
    """
    store, identity = disk.store(), machine.identity()
    if store is None or identity is None:
        return target.emitted(ir)
    key = key_of("module", ir, *identity)
    found = store.read(key)
    if found is not None:
        disk.counts.found += 1
        return found[0]
    code = target.emitted(ir)
    store.write(key, [code])
    return code


def described_code(described: str, write: Callable[[], Written]) -> tuple[bytes, Sequence[str]]:
    """Machine code for what a text describes, and what its table must hold.

    The module is written only if it is not on disk.
    """
    store, source, identity = disk.store(), machine.library(), machine.identity()
    if store is None or source is None or identity is None:
        ir, slots = write()
        return object_code(ir), slots
    key = key_of("described", described, source, *identity)
    found = store.read(key)
    if found is not None:
        disk.counts.found += 1
        return found[1], marshal.loads(found[0])
    ir, slots = write()
    code = target.emitted(ir)
    if machine.is_still(source):
        store.write(key, [marshal.dumps(list(slots)), code])
    return code, slots


def fixed_code(name: str, write: Callable[[], str]) -> bytes:
    """The same for a module of which there is one in each process."""
    return described_code(f"fixed {name}", lambda: (write(), ()))[0]
