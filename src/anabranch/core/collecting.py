"""Python's search for circles of garbage, put off while a large graph is built that has none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 1_000  # nodes from which on the searches for which they give rise take some time


@contextmanager
def uncollected(count: int) -> Iterator[None]:
    """No search in this block, which makes about so many nodes or goes through them.

    What is made here is freed by counting. Who has switched the search off keeps it off.
    """
    if count < MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
