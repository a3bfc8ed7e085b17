"""Python's search for circles of garbage, put off while a large graph is built that has none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No search in this block, unless another thread wants one; it would go through all nodes.

    What is made here is freed by counting. Who has switched the search off keeps it off.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
