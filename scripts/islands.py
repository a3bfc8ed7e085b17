"""Which operations run in the reference, inside programs of machine code, and why.

    python scripts/islands.py

Every sample of every operation, with its floating inputs and its indices in every dtype, and its
gradient where it has one, as passes leave them. `docs/native.md` keeps the table.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import anabranch as ab
from anabranch.backends.native.expand import expanded
from anabranch.backends.native.program import Program
from anabranch.core.dtype import is_floating
from anabranch.core.registry import registered_ops
from anabranch.testing.cases import Case, cases, floating, outputs_of

KINDS = ("float64", "float32", "float16", "int64", "int8", "uint8", "uint64", "bool", "complex128")
VECTOR_BYTES = 64
MOST = 20  # names that a row lists
Found = dict[tuple[str, str], list[tuple[str, str, str]]]


def cast(x: Any, kind: str) -> Any:
    """An input in another dtype; whole and positive in those of integers."""
    dtype = np.dtype(kind)
    if dtype.kind in "fc":
        return x.astype(dtype)
    x = np.clip(np.nan_to_num(x), -9, 9)
    return (x > 0 if kind == "bool" else np.ceil(np.abs(x))).astype(dtype)


def typed(case: Case) -> Iterator[tuple[Any, ...]]:
    """The inputs in every dtype, floating ones and all integers in turn."""
    for letters in ("f", "iu"):
        slots = [i for i, x in enumerate(case.xs) if x.dtype.kind in letters]
        for kind in KINDS if slots else ():
            if letters == "iu" and np.dtype(kind).kind not in "iu":
                continue
            with np.errstate(all="ignore"):
                yield tuple(cast(x, kind) if i in slots else x for i, x in enumerate(case.xs))


def graphs(op: ab.Op) -> Iterator[tuple[str, str, Any]]:
    """What is computed of a sample, in which dtype, and the graph of it."""
    for case in cases(op, draws=1):
        for xs in typed(case):
            with contextlib.suppress(ab.AnabranchError), np.errstate(all="ignore"):
                dtypes = [x.dtype for x in xs]
                kind = next((d for d in dtypes if d.kind != "i"), dtypes[0] if dtypes else None)
                yield "value", str(kind), graph(case.at(xs), by=())
                if case.smooth and all(is_floating(dtypes[slot]) for slot in case.smooth):
                    for slot in case.smooth:
                        yield f"gradient by input {slot}", str(kind), graph(case.at(xs), by=(slot,))


def graph(case: Case, by: Sequence[int]) -> Any:
    """The op itself, or the cotangents of some of its inputs, as passes leave it."""
    g = ab.Graph(case.op.name)
    xs = [g.parameter(f"x{i}", x.shape, x.dtype) for i, x in enumerate(case.xs)]
    ys = outputs_of(g.add_node(case.op, xs, **case.attrs))
    if by:
        ys = floating(ys)
        cts = [g.parameter(f"ct{i}", y.shape, y.dtype) for i, y in enumerate(ys)]
        ys = tuple(
            slope
            for y, ct in zip(ys, cts, strict=True)
            for slope in ab.gradients(y, [xs[slot] for slot in by], ct)
        )
    return g.compile(list(ys), backend="reference").program.optimised


def islands(ops: Iterable[ab.Op]) -> tuple[Found, int, int]:
    """By what runs in the reference and why: where it came up; and how many programs there are."""
    found: Found = defaultdict(list)
    count = whole = 0
    for op in ops:
        for way, kind, made in graphs(op):
            count += 1
            program = Program(expanded(made), VECTOR_BYTES)
            whole += not program.islands
            for island in program.islands:
                found[island.node.op.name, island.reason].append((op.name, way, kind))
    return found, count, whole


def table() -> str:
    """The list of islands as Markdown: a row for each reason, with the operations it holds of."""
    found, count, whole = islands(op for op in registered_ops() if op.arity != 0)
    reasons: dict[str, dict[str, int]] = defaultdict(dict)
    for (name, why), rows in found.items():
        reason = re.sub(r"^complex\d+ has", "complex values have", why)
        reasons[reason][name] = reasons[reason].get(name, 0) + len(rows)
    lines = [
        f"Of {count:,} programs, {whole:,} have no call back.",
        "",
        "| why | calls back | of |",
        "|---|---|---|",
    ]
    for reason, names in sorted(reasons.items(), key=lambda row: -sum(row[1].values())):
        shown = ", ".join(f"`{name}`" for name in sorted(names))
        if len(names) > MOST:
            shown = f"{len(names)} operations"
        lines.append(f"| {reason} | {sum(names.values()):,} | {shown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
