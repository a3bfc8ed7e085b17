"""`einsum`: sums of products over named axes, made of matrix products."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any, NamedTuple

from anabranch.composed.naming import composed
from anabranch.composed.subscripts import Label, Labels, from_sublists, lengths_of, parsed
from anabranch.core.aval import aval_of
from anabranch.core.dtype import promote
from anabranch.errors import ArgumentError
from anabranch.ops.elementwise import astype
from anabranch.ops.index import slice_
from anabranch.ops.layout import permute, reshaped
from anabranch.ops.linalg import matmul
from anabranch.ops.reduce import sum_
from anabranch.ops.rules import shape_of


class Factor(NamedTuple):
    """A value and the label of each of its axes; no label stands twice."""

    value: Any
    labels: Labels

    def arranged(self, labels: Sequence[Label]) -> Factor:
        """The same with its axes in this order."""
        order = [self.labels.index(label) for label in labels]
        if order == list(range(len(order))):
            return self
        return Factor(permute(self.value, order), tuple(labels))

    def summed(self, keep: Collection[Label]) -> Factor:
        """Sums over the axes whose labels nobody wants."""
        axes = tuple(i for i, label in enumerate(self.labels) if label not in keep)
        if not axes:
            return self
        return Factor(sum_(self.value, axes), tuple(x for x in self.labels if x in keep))

    @property
    def lengths(self) -> dict[Label, int]:
        return dict(zip(self.labels, shape_of(self.value), strict=True))


@composed
def einsum(*operands: Any, optimize: Any = True) -> Any:
    """Sums of products of operands over named axes, in NumPy's notation.

    `einsum("ij,jk->ik", x, y)` is the matrix product. A letter that stands twice in a term takes
    the diagonal; one that is missing in the result is summed over; without `->` the result has the
    letters that stand once, in alphabetical order. `...` stands for axes that are broadcast. An
    axis of length 1 fits any other length.

    Args:
        operands: the subscripts, then the values; or `x, [0, 1], y, [1, 2], [0, 2]`, where lists of
            numbers name the axes.
        optimize: how more than two operands are paired: True by their cost, False from left to
            right; else what `opt_einsum` takes, such as `"optimal"` or a list of pairs.

    The result has the promoted dtype of the operands, also where small integers are summed.

    Raises:
        DomainError: `[bad-subscripts]`.
        ShapeError: `[shape-mismatch]`, which names the letter.
        ArgumentError: `[bad-argument]` for an unknown `optimize`.

    Example:
        >>> import numpy as np
        >>> import anabranch as ab
        >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
        >>> ab.einsum("ij,j->i", x, np.array([1.0, 10.0]))
        array([21., 43.])
        >>> float(ab.einsum("ii", x))
        5.0
    """
    if operands and isinstance(operands[0], str):
        subscripts, values = operands[0], list(operands[1:])
    else:
        subscripts, values = from_sublists(operands)
    shapes = [shape_of(value) for value in values]
    inputs, output = parsed(subscripts, shapes)
    lengths = lengths_of(inputs, shapes)
    factors = [
        _prepared(value, labels, lengths) for value, labels in zip(values, inputs, strict=True)
    ]
    result = contracted(factors, output, _path(factors, output, optimize))
    dtype, is_weak = promote([(a.dtype, a.weak) for a in map(aval_of, values)])
    return result if is_weak or aval_of(result).dtype == dtype else astype(result, dtype)


def contracted(
    factors: Sequence[Factor], output: Labels, path: Sequence[Sequence[int]] = ()
) -> Any:
    """The sum of products, its axes as in `output`.

    Each step of the path names factors to multiply, by their places; the product comes last.
    Whatever the path leaves over is multiplied from left to right.
    """
    left = list(factors)
    for step in (*path, None):
        places = range(len(left)) if step is None else step
        taken = [left.pop(place) for place in sorted(places, reverse=True)]
        while len(taken) > 1:
            x, y = taken.pop(), taken.pop()
            others = (label for factor in (*left, *taken) for label in factor.labels)
            taken.append(_product(x, y, {*output, *others}))
        left += taken
    return left[0].summed(output).arranged(output).value


def _product(x: Factor, y: Factor, wanted: Collection[Label]) -> Factor:
    """The product of two, summed over the labels that nobody else wants."""
    x, y = x.summed({*wanted, *y.labels}), y.summed({*wanted, *x.labels})
    shared = [label for label in x.labels if label in y.labels]
    batch = [label for label in shared if label in wanted]
    inner = [label for label in shared if label not in wanted]
    rows = [label for label in x.labels if label not in shared]
    columns = [label for label in y.labels if label not in shared]
    lengths = {**x.lengths, **y.lengths}
    outer, m, k, n = ([lengths[label] for label in part] for part in (batch, rows, inner, columns))
    if inner:
        left = reshaped(x.arranged([*batch, *rows, *inner]).value, (*outer, prod(m), prod(k)))
        right = reshaped(y.arranged([*batch, *inner, *columns]).value, (*outer, prod(k), prod(n)))
        value = reshaped(matmul(left, right), (*outer, *m, *n))
    else:
        left = reshaped(x.arranged([*batch, *rows]).value, (*outer, *m, *[1] * len(n)))
        right = reshaped(y.arranged([*batch, *columns]).value, (*outer, *[1] * len(m), *n))
        value = left * right
    return Factor(value, (*batch, *rows, *columns))


def _prepared(value: Any, labels: Labels, lengths: dict[Label, int]) -> Factor:
    """An operand as a factor: diagonals taken, axes that are broadcast left away."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            value, labels = _diagonal(value, labels, label)
    shape = shape_of(value)
    kept = [i for i, label in enumerate(labels) if shape[i] == lengths[label]]
    value = reshaped(value, tuple(shape[i] for i in kept))
    return Factor(value, tuple(labels[i] for i in kept))


def _diagonal(value: Any, labels: Labels, label: Label) -> tuple[Any, Labels]:
    """The first two axes of this label made one, which comes last."""
    first = labels.index(label)
    second = labels.index(label, first + 1)
    others = [i for i in range(len(labels)) if i not in (first, second)]
    moved = permute(value, (*others, first, second))
    *outer, n, _ = shape_of(moved)
    diagonal = slice_(reshaped(moved, (*outer, n * n)), (..., slice(None, None, n + 1)))
    return diagonal, (*(labels[i] for i in others), label)


def _path(factors: Sequence[Factor], output: Labels, optimize: Any) -> Any:
    """Which factors to multiply one after another, in the form of `opt_einsum`."""
    if optimize is False or len(factors) < 3:
        return ()
    if not isinstance(optimize, bool | str):
        steps = list(optimize)
        return steps[1:] if steps[:1] == ["einsum_path"] else steps
    import opt_einsum  # type: ignore[import-untyped]  # noqa: PLC0415  # for many operands only

    symbols: dict[Label, str] = {}
    for factor in factors:
        for label in factor.labels:
            symbols.setdefault(label, opt_einsum.get_symbol(len(symbols)))
    terms = ["".join(map(symbols.__getitem__, labels)) for labels in (f.labels for f in factors)]
    text = f"{','.join(terms)}->{''.join(map(symbols.__getitem__, output))}"
    shapes = [shape_of(factor.value) for factor in factors]
    try:
        path, _ = opt_einsum.contract_path(
            text, *shapes, shapes=True, optimize="auto" if optimize is True else optimize
        )
    except KeyError:
        raise ArgumentError(
            "bad-argument", f"einsum: opt_einsum knows no way {optimize!r}", hint='optimize="auto"'
        ) from None
    return path
