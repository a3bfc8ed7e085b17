"""Modules of IR text as machine code, which is kept on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.backends.native import disk, machine
from anabranch.core.digest import key_of
from anabranch.core.late import LateModule

if TYPE_CHECKING:
    from anabranch.backends.native import target
else:
    target = LateModule("anabranch.backends.native.target")


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
