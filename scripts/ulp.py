"""How far functions in machine code are off: the worst error found, in units of the last place.

    python scripts/ulp.py [--count 1000000] [--jobs 2] [--resume FILE] [name ...]

Points are random bit patterns, and as many random numbers where the function changes most; mpmath
is the judge. Where a number format of more digits can sort the points (long double of 64 digits
those of float64, the reference in float64 those of float32), mpmath judges the worst, and goes on
until none that is left can be worse; else it judges all. It is faster where gmpy2 is installed.

Results are printed as they come, and progress goes to stderr. With `--resume` they are kept in a
file, and what stands there is not tried again. `docs/native.md` keeps the table.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

import anabranch as ab
from anabranch.core.registry import lookup
from truth import FUNCTIONS, Array, Function

WORST = 300  # points that mpmath judges at a time, of those that were sorted
CHUNK = 10_000  # of those that were not
MARGIN = 0.01  # units that the sorting may be off
IS_EXTENDED = np.finfo(np.longdouble).nmant >= 63
DTYPES = (np.float64, np.float32)
Worst = tuple[float, tuple[float, ...]]  # an error, and where it is
EDGES = [
    *(0.0, -0.0, 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, -1e-300, 1e-38, 1e-45),
    *(0.5, 1.0, -1.0, 2.0, 0.625, -0.625, 0.8125, 0.7071067811865476, 1.4142135623730951),
    *(0.9999999999999999, 1.0000000000000002, 709.782712893384, 710.0, 710.4758, -745.1, -745.2),
    *(-708.4, 88.7, 89.4159, -103.9, 17.0, 19.06, 36.04, -36.7, 37.5, 40.0, -40.0, 26.5, 27.2),
    *(math.pi / 4, math.pi / 2, math.pi, 355.0, 2.0**44, 2.0**45, 2.0**46, 1e22, 1e300, -1e308),
    *(6381956970095103.0 * 2.0**797, 1e-8, -1e-8, 1e-16, 2e-17, 3.4e38, 1.7e308, -372.4, 52.9),
    *(-53.5, 0.4142135623730951, 2.414213562373095, 2.0**28, 1023.9999, -1074.5, 1e-5, 4.0, 16.0),
    # where errors of erfc were largest, and what comes closest to multiples of pi
    *(1.3189189434051514, 6.840081691741943, 26.413635721681942, 12.640543186671096),
    *(411557987.0, 1783366216531.0, 5371151992734.0, 21053343141.0),
]


def compiled(name: str, *xs: Array, **attrs: Any) -> Any:
    """An op in machine code, for such arrays."""
    g = ab.Graph(name)
    nodes = [g.parameter(f"x{i}", x.shape, x.dtype) for i, x in enumerate(xs)]
    run: Any = g.compile(g.add_node(lookup(name), nodes, **attrs), backend="native", passes=())
    assert not run.program.executable.program.islands, f"{name} is no machine code"
    return run


def native(name: str, *xs: Array, **attrs: Any) -> Array:
    """An op in machine code."""
    return compiled(name, *xs, **attrs)(*xs)


def points(name: str, dtype: Any, count: int, seed: int) -> tuple[Array, ...]:
    """Edges, random bits, and random numbers where the function changes most."""
    rng = np.random.default_rng(seed)
    function = FUNCTIONS[name]
    word = np.uint64 if dtype == np.float64 else np.uint32

    def bits(n: int) -> Array:
        return rng.integers(0, np.iinfo(word).max, n, word, endpoint=True).view(dtype)

    half = count // 2
    with np.errstate(all="ignore"):
        edges = np.array(EDGES).astype(dtype)
        if function.operands is not None:
            a, b = np.meshgrid(edges, edges)
            known = [rng.permutation(a.reshape(-1))[:half], rng.permutation(b.reshape(-1))[:half]]
            drawn = function.operands(dtype, half, rng)
            return tuple(
                np.concatenate([k, bits(half), d]) for k, d in zip(known, drawn, strict=True)
            )
        sizes = rng.choice([-1, 1], half // 2) * 10.0 ** rng.uniform(-8, 3, half // 2)
        shares = [half // 2 // len(function.ranges)] * len(function.ranges)
        drawn = [rng.uniform(*r, n) for r, n in zip(function.ranges, shares, strict=True)]
        return (np.concatenate([edges, bits(half), *(d.astype(dtype) for d in (sizes, *drawn))]),)


def ranked(name: str, xs: Array, found: Array) -> tuple[Array, Array] | None:
    """All places, the largest error first, and the errors by more digits; None without such."""
    function = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        if function.extended is not None and IS_EXTENDED:
            near = function.extended(*(x.astype(np.longdouble) for x in xs))
        elif found.dtype == np.float32:
            near = lookup(name).ref(*(x.astype(np.float64) for x in xs), **function.attrs)
        else:
            return None
        rounded = near.astype(found.dtype)
        error = np.abs(found.astype(near.dtype) - near) / np.spacing(np.abs(rounded))
        same = (found == rounded) | np.isnan(found)  # NaN is right, or found by the sample
        error = np.where(np.isfinite(error), error, np.where(same, 0, np.inf)).astype(np.float64)
    order = np.argsort(-error, kind="stable")
    return order, error[order]


def batches(name: str, xs: Array, found: Array) -> Iterator[tuple[float, Array]]:
    """Places for mpmath to judge, and how large an error can be there and in what follows."""
    found_rank = ranked(name, xs, found)
    if found_rank is None:
        for start in range(0, len(found), CHUNK):
            yield math.inf, np.arange(start, min(start + CHUNK, len(found)))
        return
    yield math.inf, np.arange(0, len(found), max(len(found) // WORST, 1))  # who sorts may err
    order, error = found_rank
    for start in range(0, len(found), WORST):
        yield float(error[start]) + MARGIN, order[start : start + WORST]


def error_at(function: Function, x: Sequence[Any], value: Any) -> float:
    """The error of one result; infinite where it is NaN or infinite and should not be."""
    exact = function.near(value, *x) if function.near else function.truth(*x)  # type: ignore[misc]
    if exact is None or not isinstance(exact, mp.mpf) or mp.isnan(exact):
        return 0.0
    dtype = type(value)
    with np.errstate(all="ignore"):
        rounded = dtype(float(exact))
        unit = dtype(float(exact if function.unit is None else function.unit(exact, *x)))
        size = np.spacing(np.abs(unit))
    if not np.isfinite(rounded) or not np.isfinite(value):
        return 0.0 if rounded == value else math.inf
    return float(abs(mp.mpf(float(value)) - exact) / mp.mpf(float(size)))


def judged(name: str, xs: Array, found: Array) -> Worst:
    """The worst error by mpmath."""
    function = FUNCTIONS[name]
    result: Worst = (0.0, ())
    with mp.workprec(function.digits):
        for i, value in enumerate(found):
            x = [mp.mpf(float(operand[i])) for operand in xs]
            if all(map(mp.isfinite, x)):
                result = max(result, (error_at(function, x, value), tuple(map(float, x))))
    return result


def worst(
    name: str,
    dtype: Any,
    count: int,
    seed: int = 1,
    pool: Any = None,
    jobs: int = 1,
    says: bool = False,
) -> Worst:
    """The largest error, and where it is; the processes of the pool judge a batch each."""
    xs = points(name, dtype, count, seed)
    found = native(name, *xs, **FUNCTIONS[name].attrs)
    result: Worst = (0.0, ())
    waiting, done, tried = batches(name, xs, found), 0, map if pool is None else pool.map
    while group := [batch for _, batch in zip(range(jobs), waiting, strict=False)]:
        if result[0] >= group[0][0]:
            break  # nothing that is left can be worse
        parts = [([x[places] for x in xs], found[places]) for _, places in group]
        result = max(result, *tried(judged, [name] * jobs, *zip(*parts, strict=True)))
        done += sum(len(places) for _, places in group)
        if says:
            told = f"{name} {np.dtype(dtype)}: {done:,} of {len(found):,} judged, {result[0]:.2f}"
            print(told, file=sys.stderr, flush=True)
    return result


def lines(name: str, dtype: Any) -> int:
    """How many lines of IR the module for one vector of the function has."""
    xs = [np.ones(8, dtype)] * (1 if FUNCTIONS[name].operands is None else 2)
    run = compiled(name, *xs, **FUNCTIONS[name].attrs)
    return run.program.executable.program.ir.count("\n")  # type: ignore[no-any-return]


class Kept:
    """Results in a file of lines of JSON, which outlast an interruption."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self._known = {tuple(key): tuple(value) for key, value in map(json.loads, lines)}

    def worst(self, name: str, dtype: Any, count: int, pool: Any, jobs: int) -> Worst:
        """The worst error, tried now or read."""
        key = (name, np.dtype(dtype).name, count)
        if key not in self._known:
            self._known[key] = worst(name, dtype, count, pool=pool, jobs=jobs, says=True)
            if self._path is not None:
                with self._path.open("a") as file:
                    file.write(json.dumps([key, self._known[key]]) + "\n")
        error, place = self._known[key]
        return error, tuple(place)


def main(words: list[str] | None = None) -> int:
    """Print the table; 1 where a bound does not hold."""
    parser = argparse.ArgumentParser(description="The worst errors of functions in machine code.")
    parser.add_argument("--count", type=int, default=10_000, help="points for each function")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep results there")
    parser.add_argument("names", nargs="*", default=list(FUNCTIONS))
    options = parser.parse_args(words)
    kept, broken = Kept(options.resume), 0
    print("| function | float64 | float32 | bound | lines of IR |\n|---|---|---|---|---|")
    with ExitStack() as stack:
        pool = None  # one process is this one
        if options.jobs > 1:
            made = ProcessPoolExecutor(options.jobs, get_context("spawn"))
            pool = stack.enter_context(made)
        for name in options.names or FUNCTIONS:
            errors = [
                kept.worst(name, dtype, options.count, pool, options.jobs)[0] for dtype in DTYPES
            ]
            bound = FUNCTIONS[name].bound
            broken += max(errors) > bound
            shown = [f"`{name}`", *(f"{error:.2f}" for error in errors), f"{bound:g}"]
            shown.append(str(lines(name, np.float64)))
            print(f"| {' | '.join(shown)} |", flush=True)
    return int(broken > 0)


if __name__ == "__main__":
    raise SystemExit(main())
