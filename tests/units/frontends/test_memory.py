"""The memory report: its parts, its total beside tracemalloc, and training that does not grow."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anabranch as ab

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
KB = 1024
ROW = np.zeros(128)  # 1 KB


def two_layers() -> tuple[ab.Tensor, ...]:
    rng = np.random.default_rng(0)
    w, v = (ab.tensor(rng.normal(size=(200, 200)), requires_grad=True) for _ in range(2))
    x = ab.tensor(rng.normal(size=(300, 200)))
    y = (ab.tanh(ab.tanh(x @ w) @ v) ** 2).sum()
    y.backward(keep="leaves")
    return y, w, v


def long_chain() -> ab.Tensor:
    y = ab.tensor(1.0, requires_grad=True)
    for _ in range(3_000):
        y = ab.sin(y) * 0.5 + y
    return y


def chain_with_gradients() -> ab.Tensor:
    y = ab.tensor(np.full(50, 0.5), requires_grad=True)
    for number in range(1_000):
        y = ab.sin(y * y) + float(number)
    y.backward(np.ones(50))
    return y


def handed_out() -> list[ab.Tensor]:
    x = ab.tensor(np.ones(5_000), requires_grad=True)
    made = [ab.exp(x * 2.0)[None, ::2]]
    _ = x.data, made[0].data
    return [*made, (made[0] * x[:2500]).sum(axis=1)]


@pytest.mark.slow
@pytest.mark.parametrize("build", [two_layers, long_chain, chain_with_gradients, handed_out])
def test_the_parts_add_up_to_what_is_allocated(
    build: Callable[[], Any], allocated: Callable[[Callable[[], Any]], tuple[Any, int]]
) -> None:
    made, size = allocated(build)
    report = ab.memory_report(*(made if isinstance(made, tuple | list) else (made,)))
    assert report.total == report.values + report.saved + report.gradients + report.overhead
    assert report.total == pytest.approx(size, rel=0.05)


def test_each_part_is_what_it_says() -> None:
    x = ab.tensor(ROW, requires_grad=True)
    h = ab.sin(x)
    y = ab.exp(h) + 1.0
    held = ab.memory_report(y)
    assert [n // KB for n in (held.values, held.saved, held.gradients)] == [2, 2, 0]
    assert (held.tensors, held.nodes) == (4, 4)
    y.backward(ROW)  # x and three computed tensors
    assert ab.memory_report(y).gradients // KB in (2, 3, 4)  # some share one array
    x.grad = None
    before = ab.memory_report(h)
    assert [n // KB for n in (before.values, before.saved)] == [2, 0]
    _ = x.data
    assert ab.memory_report(h).saved // KB == 1


def test_holding_a_list_of_losses_is_seen_as_saved_values_not_as_gradients() -> None:
    w = ab.tensor(ROW, requires_grad=True)
    losses = []
    for _ in range(10):
        loss = ab.tanh(w * w).sum()
        loss.backward(keep="leaves")
        losses.append(loss)
    held = ab.memory_report(*losses)
    assert held.saved >= 20 * KB
    assert held.gradients < 2 * KB
    assert ab.memory_report(losses[0]).saved < 3 * KB


def test_what_backward_frees_is_no_longer_held() -> None:
    x = ab.tensor(ROW, requires_grad=True)
    y = ab.tanh(ab.sin(x)).sum()
    y.backward(retain=False)
    held = ab.memory_report(y)
    assert held.saved == 0
    assert held.tensors == 1


def test_without_arguments_every_living_tensor_is_counted() -> None:
    gc.collect()
    before = ab.memory_report()
    x = ab.tensor(ROW, requires_grad=True)
    y = ab.sin(x)
    after = ab.memory_report()
    assert after.tensors == before.tensors + 2
    assert (after.values - before.values) // KB == 2
    del x, y
    assert ab.memory_report().tensors == before.tensors


def test_asking_changes_nothing() -> None:
    x = ab.tensor(ROW, requires_grad=True)
    first = ab.memory_report(x)
    assert not x.has_node
    assert (first.tensors, first.nodes) == (1, 0)
    assert ab.memory_report(x) == first


def test_the_table() -> None:
    assert str(ab.MemoryReport(8_000, 1_234_567, 16, 500, 3, 2)).splitlines() == [
        "values                       8,000 bytes",
        "saved for backward       1,234,567 bytes",
        "gradients                       16 bytes",
        "graph overhead                 500 bytes",
        "total                    1,243,083 bytes",
        "3 tensors, 2 nodes",
    ]


def test_only_tensors_are_asked() -> None:
    with pytest.raises(ab.errors.ArgumentError, match="not-a-tensor"):
        ab.memory_report(np.ones(2))  # type: ignore[arg-type]


def train(steps: int, w: ab.Tensor, x: np.ndarray) -> None:
    for _ in range(steps):
        loss = ((ab.tanh(x @ w) - 0.25) ** 2).mean()
        loss.backward()
        w.data -= 0.1 * w.grad
        w.zero_grad()


@pytest.mark.slow
def test_a_thousand_training_steps_do_not_grow() -> None:
    rng = np.random.default_rng(0)
    w = ab.tensor(rng.normal(size=(256, 256)), requires_grad=True)
    x = rng.normal(size=(8, 256))

    def allocated() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    train(2, w, x)
    tracemalloc.start()
    try:
        w = ab.tensor(w.data, requires_grad=True)
        train(300, w, x)  # Python's and NumPy's own free lists fill
        before, held = allocated(), ab.memory_report(w)
        train(1_000, w, x)
        after = allocated()
    finally:
        tracemalloc.stop()
    assert before > 1_000_000
    assert after - before < 0.01 * before
    assert ab.memory_report(w) == held
