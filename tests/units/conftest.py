"""Instruments that several tests read: counts of steps, spies, a low recursion limit."""

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import anabranch as ab
from anabranch.core.registry import temporary_ops


class Spy:
    """An op `spy(x, y) = x * y` that counts the calls of its value and of each of its rules."""

    def __init__(self) -> None:
        self.values: list[tuple[Any, ...]] = []
        self.rules: list[tuple[int, tuple[Any, ...]]] = []
        self.op = ab.Op(
            "spy",
            aval=ab.ops.elementwise.multiply.aval,
            ref=self._value,
            vjp=(self._rule(0), self._rule(1)),
            elementwise=True,
            doc="A product that counts.",
        )

    def _value(self, x: Any, y: Any) -> Any:
        self.values.append((x, y))
        return x * y

    def _rule(self, slot: int) -> Callable[..., Any]:
        def rule(ct: Any, out: Any, x: Any, y: Any) -> Any:
            self.rules.append((slot, (ct, out, x, y)))
            return ct * (x, y)[1 - slot]

        return rule

    def __call__(self, x: Any, y: Any) -> Any:
        return self.op(x, y)


@pytest.fixture
def spy() -> Iterator[Spy]:
    with temporary_ops():
        yield Spy()


@pytest.fixture
def low_recursion_limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(before)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What dies here dies by its reference count alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
