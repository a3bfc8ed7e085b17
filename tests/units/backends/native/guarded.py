"""Run kernels of one kind with all their memory up against unreadable pages.

`python guarded.py KIND [every]` names each case before it runs, so that the last line tells which
one touched what is not its own.
"""

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np

import anabranch as ab
from anabranch.backends.base import Wanted
from anabranch.backends.native import blocks as blocks_of_products
from anabranch.backends.native import calls, products
from anabranch.backends.native.executable import NativeExecutable
from anabranch.backends.native.expand import expanded
from anabranch.backends.native.program import Program
from anabranch.backends.native.writer import Writer
from anabranch.backends.reference import ReferenceExecutable
from anabranch.core.bind import bind

PAGE = mmap.PAGESIZE
# All up to two vectors of 16 and what is left of a third, then around whole ones.
EVERY = (*range(36), 47, 48, 49, 63, 64, 65, 70)
SOME = (0, 1, 2, 7, 9, 16, 17, 33, 50, 63, 70)
ALIGNMENT = 64  # of the workspace
VECTOR_BYTES = 64
_libc = ctypes.CDLL(None, use_errno=True)
_held: list[mmap.mmap] = []

F64, F32, F16, I64, I8, BOOL = (
    np.dtype(name) for name in ("float64", "float32", "float16", "int64", "int8", "bool")
)
FLOATS = (F64, F32, F16)
ALL = (F64, F32, F16, I8)
Inputs = list[np.ndarray[Any, Any]]
Case = tuple[Callable[..., Any], Inputs]


def guarded(size: int, at_end: bool, alignment: int = 1) -> int:
    """The address of so many bytes that end, or begin, where a page begins that has no access."""
    pages = -(-size // PAGE) or 1
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    _held.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (start, start + (pages + 1) * PAGE):
        if _libc.mprotect(ctypes.c_void_p(page), PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    inside = start + PAGE
    return inside + (pages * PAGE - size) // alignment * alignment if at_end else inside


def array_at(address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape))
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype, count).reshape(shape)


def run(
    graph: ab.Graph, executable: NativeExecutable, inputs: Inputs, at_end: bool
) -> list[np.ndarray[Any, Any]]:
    """The results of a program whose arguments, results and workspace are guarded."""
    addresses = []
    for one in (*inputs, *executable._constants):
        address = guarded(one.nbytes, at_end)
        array_at(address, one.shape, one.dtype)[...] = one
        addresses.append(address)
    results = []
    for edge in graph.outputs:
        size = edge.aval.size * edge.aval.dtype.itemsize
        address = guarded(size, at_end)
        results.append(array_at(address, edge.aval.shape, edge.aval.dtype))
        addresses.append(address)
    workspace = guarded(executable.code.workspace, at_end, ALIGNMENT)
    table = (ctypes.c_void_p * len(addresses))(*addresses)
    entry = executable._load().addresses["entry"]
    calls.unlocked()(entry, table, workspace, executable._context.address)
    return results


def values(rng: np.random.Generator, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
    return np.asarray(rng.normal(size=shape) * 3).astype(dtype)


def places(rng: np.random.Generator, shape: Any, below: int) -> np.ndarray[Any, Any]:
    return rng.integers(-below, max(below, -below + 1), size=shape if below else 0)


# The kinds: for a length and a dtype, functions and their arguments


def elementwise(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    x = values(rng, n, dtype)
    yield lambda x, y: (x + y, ab.maximum(x, y) * x, x > y), [x, values(rng, n, dtype)]
    yield lambda x, y: x + y, [values(rng, (3, n), dtype), values(rng, (3, 1), dtype)]
    yield lambda x: ab.where(x > 0, x, -x), [x]


def reduction(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    x = values(rng, (3, n), dtype)
    yield lambda x: (ab.sum(x, axis=1), ab.sum(x, axis=0), ab.sum(x)), [x]
    yield lambda x: (ab.max(x, axis=0), ab.prod(x * 0 + 1), ab.any(x > 0, axis=0)), [x]
    yield lambda x: (ab.min(x, axis=0), ab.all(x > 0, axis=1)), [x]


def moves(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    x = values(rng, (3, n), dtype)
    yield lambda x: (x.T, x[::-1], x[:, ::-1], x[1], x[:, ::2]), [x]
    yield lambda x: (x.T.reshape(-1), ab.broadcast_to(x, (2, *x.shape))), [x]


def product(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    a, b = values(rng, (5, n), dtype), values(rng, (n, 4), dtype)
    yield lambda a, b: a @ b, [a, b]
    yield lambda a, b: a.T @ b.T, [a, values(rng, (4, 5), dtype)]
    yield lambda a, b: a @ b, [values(rng, (n, 3), dtype), values(rng, (3, n), dtype)]
    yield lambda a, b: a @ b, [values(rng, (2, 2, n), dtype), values(rng, n, dtype)]


def finished(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    """Products that are made, and finished, block by block; small ones too."""
    x, w, row, full = (values(rng, s, dtype) for s in ((15, 9), (9, n + 1), n + 1, (15, n + 1)))
    with patch.object(products, "BLOCKED_FROM", 0.0):
        yield lambda x, w, row, full: (ab.tanh(x @ w + row), (x @ w) * full), [x, w, row, full]


def packed(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    """Products of small matrices that are packed as large ones are, whichever way they lie."""
    a, b, wide = (values(rng, shape, dtype) for shape in ((15, 9), (9, n + 1), (9, 2 * n + 2)))
    with (
        patch.object(products, "BLOCKED_FROM", 0.0),
        patch.multiple(blocks_of_products, PACKED_B_FROM=-1, FEW=0, FEW_STRAIGHT=0),
    ):
        yield lambda a, b: a @ b, [a, b]
        yield lambda a, b: a.T @ b.T, [a.T.copy(), b.T.copy()]
        yield lambda a, b: a[:, ::2] @ b[::2], [a, b]
        yield lambda a, b: a @ b[:, ::2], [a, wide]


def assembling(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    x, y = values(rng, (2, n), dtype), values(rng, (2, 3), dtype)
    yield lambda x, y: (ab.concatenate([x, y, x], 1), ab.concatenate([x, x * 2])), [x, y]
    yield lambda x: ab.pad(x, [(1, 0), (2, 3)]), [x]
    yield lambda x: ab.stack([x, x + 1], axis=-1), [x]
    yield lambda x: x.at[:, ::2].set(x[:, ::2] * 2), [x]
    if dtype in FLOATS:
        yield lambda x: ab.grad(lambda v: ab.sum(v[:, 1:] * v[:, 1:]))(x), [x]
        yield lambda x: ab.grad(lambda v: ab.sum(v[:, ::-2] * 3))(x), [x]


def gather(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    x, i = values(rng, (n, 3), dtype), places(rng, 7, n)
    yield lambda x, i: (ab.take(x, i, axis=0), ab.take(x[:, 0], i)), [x, i]
    yield lambda x, i: ab.take(x, i, axis=1), [values(rng, (2, 5), dtype), places(rng, n, 5)]
    far = rng.integers(-2 * n - 2, 2 * n + 2, size=9)
    yield lambda x, i: ab.gather(x, i, mode="fill", fill_value=1), [x, far]
    if n:
        yield lambda x, i: ab.gather(x, i, mode="wrap"), [x, far]
        yield lambda x, i: ab.gather(x, i, mode="clip"), [x, far.astype(np.int16)]
        yield lambda x, i: ab.gather(x, i, mode="wrap"), [x, far.astype(np.uint64)]


def scatter(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    x, i = values(rng, (n, 3), dtype), places(rng, 7, n)
    u = values(rng, (len(i), 3), dtype)
    ops = (ab.scatter_add, ab.scatter_set, ab.scatter_max, ab.scatter_min, ab.scatter_multiply)
    for op in ops:
        yield lambda x, i, u, op=op: op(x, i, u), [x, i, u]
    far = rng.integers(-2 * n - 2, 2 * n + 2, size=9)
    drop = [x, far, values(rng, (9, 3), dtype)]
    yield lambda x, i, u: ab.scatter_add(x, i, u, mode="drop"), drop
    yield lambda x, i, u: ab.scatter_add(x, i, u, mode="drop"), [x, far.astype(np.uint64), drop[2]]


def blocks(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    x, size = values(rng, (3, n), dtype), n // 2
    start = np.int64(rng.integers(0, n - size + 1))
    yield lambda x, s: ab.dynamic_slice(x, (1, s), (2, size)), [x, start]
    u = values(rng, (1, size), dtype)
    yield lambda x, u, s: ab.dynamic_update_slice(x, u, (2, s)), [x, u, start]


def labels(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    i = rng.integers(0, 5, size=n)
    yield lambda i: ab.one_hot(i, 5, dtype), [i]
    yield lambda i: ab.one_hot(i, n + 1, dtype), [rng.integers(0, n + 1, size=3)]
    yield lambda i: ab.index_repeats((i,), (5,)), [i]


def scans(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    x = values(rng, (3, n), dtype)
    joins = (ab.cumsum, ab.cumprod, ab.cummax, ab.cummin)
    for op in (*joins, ab.cumlogsumexp) if dtype in FLOATS else joins:
        yield lambda x, op=op: (op(x, axis=1), op(x, axis=0, reverse=True)), [x]
    yield lambda x: ab.linear_recurrence(x, x, axis=1, reverse=True), [x]
    if n:
        yield lambda x: (ab.argmax(x, axis=0), ab.argmin(x, axis=1), ab.argmax(x)), [x]
        yield lambda x: (ab.argmax(x, axis=1), ab.argmax(x)), [np.sort(x)]  # the last one is it


def order(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    x = values(rng, (2, n), dtype)
    yield lambda x: (ab.sort(x), ab.argsort(x, axis=0, descending=True), ab.argsort(x)), [x]
    a = np.sort(values(rng, n, dtype))
    yield lambda a, v: ab.searchsorted(a, v, side="right"), [a, values(rng, 5, dtype)]


def random(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    key = np.asarray(ab.random.key(n))
    yield lambda k: ab.random.bits(k, (n,)), [key]
    yield lambda k: (ab.random.uniform(k, (n,)), ab.random.bits(k, (n,), np.uint64)), [key]
    yield lambda k: ab.random.randint(k, -4, 9, (n,), np.int32), [key]
    yield lambda k: ab.random.split(k, n + 1), [key]
    yield lambda i: bind("random.words", i), [rng.integers(-9, 9, size=(2, n))]


def windows(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    x = values(rng, (2, 3, n + 3), dtype)
    yield lambda x: ab.max_pool(x, 3, stride=2, padding=1), [x]
    yield lambda x: ab.sliding_windows(x, (2,), stride=2), [x]
    if dtype in FLOATS:
        w = values(rng, (4, 3, 3), dtype)
        yield lambda x, w: ab.conv(x, w, padding=1), [x, w]
        yield lambda x, w: ab.grad(lambda x, w: ab.sum(ab.conv(x, w) ** 2), (0, 1))(x, w), [x, w]


def whole(rng: Any, n: int, dtype: Any) -> Iterator[Case]:
    """Products of integers, which are sums."""
    a, b = values(rng, (5, n), dtype), values(rng, (n, 4), dtype)
    yield lambda a, b: a @ b, [a, b]
    yield lambda a, b: a.T @ b, [a, values(rng, (5, n), dtype)]
    yield lambda a, b: a @ b, [values(rng, n, dtype), b]
    x, w = values(rng, (2, 3, n + 3), dtype), values(rng, (4, 3, 3), dtype)
    yield lambda x, w: ab.conv(x, w, padding=1), [x, w]


KINDS: dict[str, tuple[Callable[..., Iterator[Case]], tuple[Any, ...]]] = {
    rule.__name__: (rule, dtypes)
    for rule, dtypes in (
        (elementwise, ALL), (reduction, ALL), (moves, (*ALL, BOOL)), (product, (F64, F32)),
        (assembling, (*ALL, BOOL)), (gather, ALL), (scatter, ALL), (blocks, ALL),
        (labels, (F64, I8, BOOL)), (scans, ALL), (order, ALL), (random, (F64,)),
        (windows, (F64, F32)), (finished, (F64, F32)),
        (packed, (F64, F32)), (whole, (I64, I8)),
    )
}  # fmt: skip


def graph_of(f: Callable[..., Any], inputs: Inputs) -> Any:
    return ab.compile(f, passes=()).graph(*inputs)


def made_of(length: int = 33) -> set[Any]:
    """The kernels, with how they join, the reductions, and the writers that the cases ask for."""
    used: set[Any] = set()
    start = Writer.__init__

    def noted(writer: Writer, declared: set[str]) -> None:
        used.add(type(writer))
        start(writer, declared)

    Writer.__init__ = noted  # type: ignore[method-assign]
    try:
        for rule, dtypes in KINDS.values():
            for f, inputs in rule(np.random.default_rng(0), length, dtypes[0]):
                schedule = Program(expanded(graph_of(f, inputs)), VECTOR_BYTES).schedule
                nodes = schedule.graph.order(schedule.graph.outputs)
                used |= {node.op.lower for node in nodes if node.kind == "op"}
    finally:
        Writer.__init__ = start  # type: ignore[method-assign]
    return used


def main(kind: str, lengths: Iterable[int]) -> None:
    rule, dtypes = KINDS[kind]
    for dtype in dtypes:
        for n in lengths:
            for number, (f, inputs) in enumerate(rule(np.random.default_rng(n), n, dtype)):
                graph = graph_of(f, inputs)
                wanted = ReferenceExecutable(graph).run(inputs)
                executable = NativeExecutable(Wanted(graph))
                for at_end in (True, False):
                    print(f"{kind} {number}, length {n}, {dtype}, at_end={at_end}", flush=True)
                    found = run(graph, executable, inputs, at_end)
                    for mine, its in zip(found, wanted, strict=True):
                        compare(mine, np.asarray(its))
                _held.clear()


def compare(mine: np.ndarray[Any, Any], its: np.ndarray[Any, Any]) -> None:
    assert mine.dtype == its.dtype, (mine.dtype, its.dtype)
    wide = np.float64 if its.dtype.kind not in "biu" else its.dtype
    unit = {F16: 2e-2, F32: 1e-4}.get(its.dtype, 1e-9)
    np.testing.assert_allclose(mine.astype(wide), its.astype(wide), rtol=unit, atol=unit)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main(sys.argv[1], EVERY if "every" in sys.argv else SOME)
