"""Digests that start quickly: `hashlib` brings OpenSSL, which takes longer than all our keys."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:  # Python's own code for the same function
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b

SIZE = 32  # bytes


def digest(data: Any = b"") -> Any:
    """A BLAKE2b digest of 32 bytes (RFC 7693), to be updated and asked as those of `hashlib`.

    Example:
        >>> from anabranch.core.digest import digest
        >>> digest(b"abc").hexdigest()[:16]
        'bddd813c63423972'
    """
    return blake2b(data, digest_size=SIZE)


def key_of(*parts: str | bytes) -> str:
    """A hexadecimal digest of these parts, which are kept apart.

    Example:
        >>> from anabranch.core.digest import key_of
        >>> key_of("a", "b") == key_of("ab", ""), key_of("a", b"b") == key_of("a", "b")
        (False, True)
    """
    made = digest()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(struct.pack("<Q", len(data)))
        made.update(data)
    return str(made.hexdigest())
