"""The comparison with peers: every function that both have, at every sample, to second order.

`disagreements(peer)` is the table that `docs/conventions.md` explains row by row; run as a program,
this file prints it.
"""

import importlib.util
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

import anabranch as ab
from anabranch.core.bind import bind
from anabranch.core.registry import lookup
from anabranch.testing.cases import cases

PEERS = ("torch", "autograd")
ORDERS = ("value", "1st", "2nd")
# Vectors of these are unique up to a sign that the LAPACK at hand decides.
UNIQUE = {"linalg.eigh": (0,), "linalg.svd": (1,)}
inf, nan = np.inf, np.nan
POINTS = [-inf, -1e3, -3.0, -1.0, -0.7, -0.0, 0.0, 0.4, 1.0, 3.0, 6.0, 1e3, inf, nan]
ROWS = [
    *([0.3, -1.2, 2.0], [1.0, 2.0, 2.0], [0.1, 0.1, 0.1], [0.7], [0.0, 0.0]),
    *([-inf, 1.0, 2.0], [-inf, -inf], [inf, 1.0, 2.0], [nan, 1.0, 2.0]),
]
PAIRS = [(0.0, 0.0), (0.0, 2.0), (0.0, inf), (1.5, 0.5), (2.0, 0.0), (1.0, 2.0), (nan, 1.0)]
FEEDS = {  # what composed functions are tried with, for they have no samples
    "softmax log_softmax logsumexp mean var std median ptp normalize": [(row,) for row in ROWS],
    "huber smooth_l1 mse mae": PAIRS,
    "binary_cross_entropy": [(x, y) for x in (-inf, 0.0, 3.0, inf) for y in (0.0, 0.3, 1.0)],
    "cosine_similarity": [([1.0, 2.0], [0.5, -1.0]), ([0.0, 0.0], [1.0, 2.0])],
    "clip": [(x, -1.0, 1.0) for x in (-2.0, -1.0, 0.5, 1.0, inf, nan)],
}


@dataclass(frozen=True)
class Example:
    """One application of a function: ours, its arrays, and the places that have a derivative."""

    name: str
    ours: Callable[..., Any]
    xs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    smooth: tuple[int, ...] = ()
    draw: bool = False

    @property
    def where(self) -> str:
        """The point, short: its numbers if it is small, else that it was drawn."""
        if self.draw:
            return "drawn"
        shown = [f"{x:.6g}" if np.ndim(x) == 0 else str(np.asarray(x).tolist()) for x in self.xs]
        extra = [f"{k}={v}" for k, v in self.attrs.items() if k in ("n", "p", "dtype")]
        return f"({', '.join([*shown, *extra])})".replace("'", "")


def examples(name: str) -> list[Example]:
    """Every sample of an op, golden and drawn; for a composed function those of `FEEDS`."""
    try:
        op = lookup(name)
    except Exception:
        function = attrgetter(name)(ab)
        fed = next((rows for names, rows in FEEDS.items() if name in names.split()), None)
        rows = [(x,) for x in POINTS] if fed is None else fed
        made = [tuple(np.array(x, np.float64) for x in row) for row in rows]
        return [Example(name, function, xs, smooth=tuple(range(len(xs)))) for xs in made]
    return [
        Example(
            name,
            lambda *xs, case=case: bind(case.op, *xs, **case.attrs),
            case.xs,
            case.attrs,
            case.smooth,
            case.sample.is_drawn,
        )
        for case in cases(op)
    ]


def outputs(name: str, found: Any) -> list[Any]:
    results = list(found) if isinstance(found, tuple | list) else [found]
    return [results[i] for i in UNIQUE.get(name, range(len(results)))]


def weights(shape: Any, seed: int) -> Any:
    """Numbers between 1/2 and 2, the same for everybody."""
    return np.random.default_rng([seed, *shape]).uniform(0.5, 2.0, shape)


def by_us(one: Example) -> list[Any]:
    """[values, first, second]: ours."""
    values = [np.asarray(y) for y in outputs(one.name, one.ours(*(x[()] for x in one.xs)))]
    floats = [i for i, y in enumerate(values) if y.dtype == np.float64]
    if not one.smooth or not floats:
        return [values, [], []]

    def total(*smooth: Any) -> Any:
        xs = list(one.xs)
        for slot, x in zip(one.smooth, smooth, strict=True):
            xs[slot] = x
        ys = outputs(one.name, one.ours(*xs))
        return sum(ab.sum(ys[i] * weights(ys[i].shape, i)) for i in floats)

    slots = tuple(range(len(one.smooth)))
    first = ab.grad(total, slots)

    def along(*smooth: Any) -> Any:
        return sum(ab.sum(g * weights(g.shape, 7 + i)) for i, g in enumerate(first(*smooth)))

    primals = [one.xs[slot] for slot in one.smooth]
    return [values, list(first(*primals)), list(ab.grad(along, slots)(*primals))]


def by_torch(one: Example, function: Callable[..., Any]) -> list[Any]:
    """[values, first, second], PyTorch's; None from where it refuses."""
    import torch

    xs = [torch.tensor(x, requires_grad=slot in one.smooth) for slot, x in enumerate(one.xs)]
    ys = outputs(one.name, function(*xs, **one.attrs))
    values = [y.numpy(force=True) for y in ys]
    floats = [(i, y) for i, y in enumerate(ys) if y.dtype == torch.float64]
    if not one.smooth or not floats:
        return [values, [], []]
    leaves = [xs[slot] for slot in one.smooth]

    def pulled(total: Any) -> list[Any]:
        if not total.requires_grad:
            return [torch.zeros_like(x) for x in leaves]
        found = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]

    total = sum((y * torch.tensor(weights(tuple(y.shape), i))).sum() for i, y in floats)
    result: list[Any] = [values, None, None]
    try:
        first = pulled(total)
        result[1] = [g.numpy(force=True) for g in first]
        parts = [
            (g * torch.tensor(weights(tuple(g.shape), 7 + i))).sum() for i, g in enumerate(first)
        ]
        result[2] = [g.numpy(force=True) for g in pulled(sum(parts))]
    except (RuntimeError, NotImplementedError):
        pass
    return result


def by_autograd(one: Example, function: Callable[..., Any]) -> list[Any]:
    """[values, first, second], autograd's; None from where it refuses."""
    import autograd
    import autograd.numpy as anp

    values = [np.asarray(y) for y in outputs(one.name, function(*one.xs, **one.attrs))]
    floats = [i for i, y in enumerate(values) if y.dtype == np.float64]
    if not one.smooth or not floats:
        return [values, [], []]

    def total(*smooth: Any) -> Any:
        xs = list(one.xs)
        for slot, x in zip(one.smooth, smooth, strict=True):
            xs[slot] = x
        ys = outputs(one.name, function(*xs, **one.attrs))
        return sum(anp.sum(ys[i] * weights(ys[i].shape, i)) for i in floats)

    slots = tuple(range(len(one.smooth)))
    first = autograd.grad(total, slots)

    def along(*smooth: Any) -> Any:
        return sum(anp.sum(g * weights(g.shape, 7 + i)) for i, g in enumerate(first(*smooth)))

    primals = [one.xs[slot] for slot in one.smooth]
    result: list[Any] = [values, None, None]
    try:
        result[1] = [np.asarray(g) for g in first(*primals)]
        result[2] = [np.asarray(g) for g in autograd.grad(along, slots)(*primals)]
    except (NotImplementedError, TypeError, ValueError, AttributeError, KeyError):
        pass
    return result


def meets(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether arrays agree to ten digits, NaN with NaN and infinities with their like."""
    return len(ours) == len(theirs) and all(
        np.shape(a) == np.shape(b)
        and np.allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-13, equal_nan=True)
        for a, b in zip(ours, theirs, strict=True)
    )


@contextmanager
def quiet() -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def functions(peer: str) -> dict[str, Callable[..., Any]]:
    """The peer's functions, by our names."""
    file = Path(__file__).with_name("functions.py")
    spec = importlib.util.spec_from_file_location("peers_functions", file)
    table = importlib.util.module_from_spec(spec)
    sys.modules["peers_functions"] = table
    spec.loader.exec_module(table)
    if peer == "torch":
        import torch

        return table.torch_functions(torch)
    import autograd.numpy as anp
    from autograd.scipy import special

    return table.autograd_functions(anp, special)


@dataclass
class Comparison:
    """What one function of a peer gave: how often each order agreed, and where it did not."""

    agreed: Counter[str] = field(default_factory=Counter)
    differ: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    refused: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def text(self) -> str:
        """Where they part, order by order, as the page prints it; empty where nowhere."""
        parts = []
        for order in ORDERS:
            if order in self.differ:
                parts.append(f"{order} at {', '.join(dict.fromkeys(self.differ[order]))}")
            if order in self.refused and not self.agreed[order]:
                parts.append(f"no {order}")
            elif order in self.refused:
                parts.append(f"no {order} at {', '.join(dict.fromkeys(self.refused[order]))}")
        return "; ".join(parts)


def compare(peer: str, name: str, function: Callable[..., Any]) -> Comparison:
    """Every example of a function, by us and by the peer."""
    made = Comparison()
    way = by_torch if peer == "torch" else by_autograd
    with quiet():
        for one in examples(name):
            try:
                theirs = way(one, function)
            except NotImplementedError:  # the table says that they have nothing like it
                continue
            for order, a, b in zip(ORDERS, by_us(one), theirs, strict=True):
                if b is None:
                    made.refused[order].append(one.where)
                elif not meets(a, b):
                    made.differ[order].append(one.where)
                elif a:
                    made.agreed[order] += 1
    return made


if __name__ == "__main__":
    for peer in sys.argv[1:] or PEERS:
        for name, function in functions(peer).items():
            found = compare(peer, name, function)
            print(f"{peer:9} {name:25} {sum(found.agreed.values()):5} agree  {found.text}")
