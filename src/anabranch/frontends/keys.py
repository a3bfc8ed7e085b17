"""The maker of keys for random numbers."""

from __future__ import annotations

from typing import Any

from anabranch.core.bind import NUMBERS, bind
from anabranch.core.registry import register_function
from anabranch.core.values import ARRAYS
from anabranch.errors import DomainError
from anabranch.frontends.tensor import make_tensor
from anabranch.ops.random import words


def key(seed: Any) -> Any:
    """The key of a seed: its two 32-bit words, low word first, as a tensor of shape (2,).

    Equal seeds give equal keys. Take each key once: for several draws, `split` it first.

    Args:
        seed: an integer of up to 64 bits; an array or a value of a trace gives a key of its kind.

    Raises:
        DomainError: `[bad-range]` for a number of more bits.
        DTypeError: `[index-dtype]` for what is no integer.

    Example:
        >>> import anabranch as ab
        >>> ab.random.key(7)
        tensor([7, 0], dtype=uint32)
    """
    is_number = type(seed) in NUMBERS
    if type(seed) is int and not -(1 << 63) <= seed < 1 << 64:
        raise DomainError("bad-range", f"a seed has up to 64 bits, not {seed.bit_length()}")
    made = bind(words, seed)
    return make_tensor(made) if is_number and isinstance(made, ARRAYS) else made


key.__module__ = "anabranch.random"  # where users find it
register_function("random.key", key)
