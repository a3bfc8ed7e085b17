"""`check_gradients`: a function's gradient against central differences, input by input."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anabranch.core.aval import aval, aval_of
from anabranch.core.bind import located
from anabranch.core.entry import boundary
from anabranch.core.sample import normal
from anabranch.errors import ArgumentError, GradientCheckError
from anabranch.testing.comparison import Comparison, meets
from anabranch.testing.differences import Array, base_step, one_sided, plateau, sizes, unit
from anabranch.testing.problem import Argnums, Line, Problem
from anabranch.testing.readings import Side, readings
from anabranch.testing.report import GradientReport, GradientRow

_AWAY = 20  # steps by which a point is moved off a kink
_BESIDE = 2.0**-10  # how far from the point its gradient is looked at, by the size of the point
_SHOWN = 3  # kinks that a report describes one by one
Index = tuple[int, ...]


@boundary
def check_gradients(
    f: Callable[..., Any],
    *args: Any,
    argnums: Argnums = None,
    names: Sequence[str] | None = None,
    method: str = "auto",
    directions: int = 5,
    sample: int | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    seed: int = 0,
    max_elements: int = 2_000,
    raise_on_failure: bool = True,
) -> GradientReport:
    """Compare the gradient of a function with central differences at these arguments.

    Each element a of the gradient and its difference n must satisfy
    |a - n| <= atol + rtol * scale with scale = max(|a|, |n|). Where f has several result elements,
    the gradient is that of a fixed random combination of them. Narrow floats are moved in float64,
    while their gradient is the one that f's users get. At a kink, seen by its two one-sided
    slopes, any value between the slopes passes, and the point is checked again 20 steps away.

    Args:
        f: takes arrays, numbers or containers of them, and returns the same.
        args: where to check. Floating leaves are differentiated, others held fixed.
        argnums: arguments to differentiate, by position or name; all by default.
        names: what the report calls the arguments' leaves.
        method: `"elements"`, `"directions"`, or by default the first up to `max_elements` in all.
            A direction takes exactly 2 evaluations of f, whatever the size of the input.
        directions: how many random directions for each input.
        sample: by elements, but of an input with more than so many of them only these, drawn.
        atol: by default the rounding error that a difference of this f can have.
        rtol: by default 1e-6, more where f or an argument is narrower than float64.
        eps: the step; by default 2**-17 times the size of the element in float64.
        seed: of everything drawn.
        max_elements: above this the check by elements is refused.
        raise_on_failure: False returns the report also when something is wrong.

    Returns:
        A report with one row for each input; `str(report)` is a table.

    Raises:
        GradientCheckError: `[wrong-gradient]` with the report in the message and in
            `details["report"]`.
        ArgumentError: `[too-many-elements]` for `method="elements"`, `[nothing-to-check]`,
            `[bad-argument]` for a method that there is not, or a sample of less than 1.
        DTypeError: `[integer-gradient]` for an integer argument in `argnums`.

    Example:
        >>> import anabranch as ab, numpy as np
        >>> report = ab.check_gradients(lambda x: ab.sum(x * x), np.array([1.0, -3.0]))
        >>> report.ok, report.rows[0].name, report.rows[0].verdict
        (True, 'x', 'pass')
    """
    if method not in ("auto", "elements", "directions"):
        raise ArgumentError(
            "bad-argument", f'method is "auto", "elements" or "directions", not {method!r}'
        )
    if sample is not None and (sample < 1 or method == "directions"):
        raise ArgumentError(
            "bad-argument", f"sample is a number of elements from 1, by elements, not {sample!r}"
        )
    rng = np.random.default_rng(seed)
    problem = Problem(f, args, argnums, rng)
    if names is not None:
        problem.names = [str(name) for name, _ in zip(names, problem.points, strict=True)]
    most = math.inf if sample is None else sample
    size = int(sum(min(point.size, most) for point in problem.points))
    method = method if sample is None else "elements"
    if method == "elements" and size > max_elements:
        raise located(_too_many(problem.name, size, max_elements))
    by_elements = method == "elements" or (method == "auto" and size <= max_elements)
    check = _Check(problem, problem.gradient(), atol, rtol, eps, directions, sample, rng)
    rows = [
        check.by_elements(i) if by_elements else check.by_directions(i)
        for i in range(len(problem.points))
    ]
    blamed = () if all(row.verdict == "pass" for row in rows) else problem.suspects()
    report = GradientReport(
        problem.name, problem.outputs, tuple(rows), problem.evaluations, tuple(blamed),
        tuple(readings(check.sides)),
    )  # fmt: skip
    if raise_on_failure and not report.ok:
        raise located(_failure(report))
    return report


def _at(index: Index) -> str:
    """` at [2, 0]`, and nothing of a number that is the only one."""
    return f" at {list(index)}" if index else ""


def _too_many(name: str, size: int, limit: int) -> ArgumentError:
    return ArgumentError(
        "too-many-elements",
        f"{name} has {size:,} elements to check, {2 * size:,} evaluations; the limit is {limit:,}",
        hint='method="directions" takes 2 evaluations for each direction',
    )


def _failure(report: GradientReport) -> GradientCheckError:
    text = str(report).removeprefix(report.sentence).strip("\n")
    return GradientCheckError("wrong-gradient", f"{report.sentence}\n\n{text}", report=report)


@dataclass
class _Check:
    """The checks of one problem's inputs, with the options they share."""

    problem: Problem
    gradient: list[Array]
    atol: float | None
    rtol: float | None
    eps: float | None
    directions: int
    sample: int | None
    rng: np.random.Generator
    sides: list[Side] = field(default_factory=list)

    def by_elements(self, position: int) -> GradientRow:
        """Every element of one input, by itself; or those that are drawn."""
        shape = self.problem.points[position].shape
        indices = self._drawn(shape)
        found = self._elements(position, indices)
        size = self.problem.points[position].size
        if len(indices) < size:  # that something is misplaced is seen in the whole only
            found.notes.append(f"{len(indices):,} of {size:,} elements compared, drawn")
            return self._row(position, found, "elements")
        row = self._row(position, found, "elements")
        pair = (found.analytic.reshape(shape), found.numeric.reshape(shape))
        self.sides.append(Side(row.name, *pair, row.ok))
        return row

    def _drawn(self, shape: Index) -> list[Index]:
        """The indices that are checked, in order."""
        size = math.prod(shape)
        if self.sample is None or self.sample >= size:
            return list(np.ndindex(shape))
        flat = np.sort(self.rng.choice(size, self.sample, replace=False))
        return [tuple(map(int, np.unravel_index(i, shape))) for i in flat]

    def by_directions(self, position: int) -> GradientRow:
        """Random directions within one input, at two evaluations each."""
        found = self._along(position, self.gradient[position])
        if not found.passes.all():
            self.problem.measure_noise(position, self._step())
            found = self._along(position, self.gradient[position], is_patient=True)
            spread = self._unsteadiness(position) * self._sizes(self.problem.points[position])
            found.atol += float(np.linalg.norm(spread))
        if not found.passes.all():
            self._locate(position, found)
        return self._row(position, found, "directions")

    def _along(self, position: int, gradient: Array, is_patient: bool = False) -> Comparison:
        """Random directions, each at one step; the patient take several and keep the best."""
        problem, slope = self.problem, self._steady_slope if is_patient else self._slope
        point, wide = problem.points[position], gradient.astype(np.float64)
        if problem.is_narrow:
            problem.value(position, point)  # tells in which dtype f itself works
        number = self.directions if point.size else 0
        pairs = [slope(position, wide, self._direction(point)) for _ in range(number)]
        analytic, numeric = np.array(pairs).reshape(-1, 2).T.copy()
        # The terms of a sum that nearly cancels are what rounding is a fraction of.
        terms = float(np.linalg.norm(wide * self._sizes(point)))
        return Comparison(analytic, numeric, *self._tolerance(position, self._step(), terms))

    def _direction(self, point: Array) -> Array:
        return normal(*point.shape).make(self.rng) * self._sizes(point)

    def _slope(self, position: int, gradient: Array, v: Array) -> tuple[float, float]:
        """The derivative along v: by the gradient, and by a difference."""
        point, h = self.problem.points[position], self._step()
        above = self.problem.value(position, point + h * v)
        below = self.problem.value(position, point - h * v)
        return float(np.sum(gradient * v)), (above - below) / (2 * h)

    def _steady_slope(self, position: int, gradient: Array, v: Array) -> tuple[float, float]:
        """The same, where the difference depends least on its step."""
        point = self.problem.points[position]

        def value(h: float) -> float:
            return self.problem.value(position, point + h * v)

        if self.eps is not None:
            return self._slope(position, gradient, v)
        numeric = plateau(value, 0.0, self._step(), self.problem.rounding)
        return float(np.sum(gradient * v)), numeric

    def _locate(self, position: int, found: Comparison) -> None:
        """Halve the input towards the disagreement, and tell a kink from a fault."""
        point = self.problem.points[position]
        index = self._narrowed(position)
        element = self._elements(position, [index])
        found.notes = [f"directions disagree most by {list(index)}", *element.notes]
        found.worst = index
        if element.verdict == "wrong":
            found.denied.add(0)
        away = _AWAY * self._step() * self._sizes(point)
        moved = point + away * self.rng.choice((-1.0, 1.0), point.shape)
        with self.problem.moved(position, moved) as there:
            if element.passes.all() and self._along(position, there).passes.all():
                found.is_kinked = True
                found.worst = None
                found.notes.append(f"a kink: directions agree {_AWAY} steps away")

    def _narrowed(self, position: int) -> Index:
        point, wide = self.problem.points[position], self.gradient[position].astype(np.float64)
        v = self._direction(point)
        within = np.arange(point.size)
        while within.size > 1:
            halves = np.array_split(within, 2)
            gaps = []
            for half in halves:
                part = np.zeros(point.size)
                part[half] = v.ravel()[half]
                analytic, numeric = self._slope(position, wide, part.reshape(point.shape))
                gaps.append(np.nan_to_num(abs(analytic - numeric), nan=np.inf))
            within = halves[int(np.argmax(gaps))]
        return tuple(map(int, np.unravel_index(within[0], point.shape)))

    def _elements(self, position: int, indices: list[Index]) -> Comparison:
        problem, point = self.problem, self.problem.points[position]
        lines = [Line(problem, position, index) for index in indices]
        base = problem.value(position, point) if lines else 0.0
        size = self._sizes(point)
        h = self._step() * np.array([size[i] for i in indices])
        ends = [(line(line.x + s), line(line.x - s)) for line, s in zip(lines, h, strict=True)]
        above, below = np.array(ends).reshape(-1, 2).T
        analytic = np.array([self.gradient[position][i] for i in indices], np.float64)
        largest = float(np.max(np.abs(analytic), initial=0.0, where=np.isfinite(analytic)))
        smallest = float(np.min(h, initial=np.inf))
        tolerance = self._tolerance(position, smallest, largest)
        found = Comparison(analytic, (above - below) / (2 * h), *tolerance)
        bend = np.abs(above - 2 * base + below) / h  # how far the one-sided slopes are apart
        slope = np.maximum(np.abs(above - base), np.abs(base - below)) / h
        is_smooth = bend <= 1e-3 * slope + 8 * found.atol  # false for NaN
        suspects = np.flatnonzero(~(found.passes & is_smooth)).tolist()
        if suspects:
            problem.measure_noise(position, self._step())
            found.atol, found.rtol = self._tolerance(position, smallest, largest)
            found.atol += float(np.max(self._unsteadiness(position), initial=0.0))
        for i in suspects:
            self._examine(found, i, lines[i], float(h[i]), float(bend[i]), float(slope[i]))
        if len(found.kinks) > _SHOWN:
            found.notes.append(f"{len(found.kinks)} kinks in all")
        for i in found.kinks:
            self._check_away(found, i, lines[i], float(h[i]))
        if not found.passes.all():
            errors = np.where(found.passes, -1.0, np.nan_to_num(found.errors, nan=np.inf))
            found.worst = indices[int(np.argmax(errors))]
        return found

    def _examine(
        self, found: Comparison, i: int, line: Line, h: float, bend: float, slope: float
    ) -> None:
        """Is there a kink, or did the step not suit? Otherwise the difference stands."""
        step = min(h / 16, self._step() * abs(line.x) or h)
        left, right = one_sided(line, line.x, step)
        noise = 8 * self.problem.rounding / step
        slack = noise + 1e-3 * max(abs(left), abs(right))
        # A smooth bend shrinks to a sixteenth, a jump makes slopes grow; NaN is a domain's edge.
        is_jump = max(abs(left), abs(right)) > max(8 * slope, noise) and step < h
        if not is_jump and abs(right - left) <= max(np.nan_to_num(bend) / 4, slack):
            if not found.passes[i] and self.eps is None:
                found.numeric[i] = plateau(line, line.x, h, self.problem.rounding)
            return
        analytic = found.analytic[i]
        found.kinks[i] = left, right
        low, high = min(left, right) - slack, max(left, right) + slack
        if not is_jump and (analytic < low or analytic > high):
            found.denied.add(i)
        if len(found.kinks) <= _SHOWN or i in found.denied:
            found.notes.append(
                f"{'jump' if is_jump else 'kink'}{_at(line.index)}:"
                f" slopes {left:.4g} and {right:.4g}, analytic {analytic:.4g}"
            )

    def _check_away(self, found: Comparison, i: int, line: Line, h: float) -> None:
        """The same element with the point moved off its kink."""
        moved = line.point.copy()
        moved[line.index] += _AWAY * h * self.rng.choice((-1.0, 1.0))
        with self.problem.moved(line.position, moved) as gradient:
            there = Line(self.problem, line.position, line.index)
            numeric = plateau(there, there.x, h / 4, self.problem.rounding)
            analytic = float(gradient[line.index])
            if np.isfinite(numeric) and not meets(analytic, numeric, found.atol, found.rtol):
                found.denied.add(i)
                found.notes.append(
                    f"{_AWAY} steps off the kink{_at(line.index)}:"
                    f" analytic {analytic:.4g}, numeric {numeric:.4g}"
                )

    def _step(self) -> float:
        return base_step(self.problem.work_unit) if self.eps is None else self.eps

    def _sizes(self, point: Array) -> Array:
        return sizes(point) if self.eps is None else np.ones(point.shape)

    def _tolerance(self, position: int, h: float, largest: float) -> tuple[float, float]:
        """(atol, rtol) for differences with step h of gradients up to `largest`."""
        work, own = self.problem.work_unit, unit(self.problem.dtypes[position])
        rounding = 4 * self.problem.rounding / h + 16 * own * largest
        atol = rounding if self.atol is None else self.atol
        rtol = max(1e-6, 32 * own, 4 * work ** (2 / 3)) if self.rtol is None else self.rtol
        return atol, rtol

    def _unsteadiness(self, position: int) -> Array:
        """How far the gradient moves when its point is off by 16 units of its last place.

        In a minimum its terms cancel, and this is what their rounding leaves. A kink beside the
        point moves it too, but to one side only. What the user allows is not added to.
        """
        point = self.problem.points[position]
        if self.atol is not None:
            return np.zeros(point.shape)
        changes = []
        for step in (_BESIDE, -_BESIDE):
            with self.problem.moved(position, point + step * self._sizes(point)) as there:
                changes.append(np.abs(there.astype(np.float64) - self.gradient[position]))
        least = np.minimum(*changes)
        size = 16 * unit(self.problem.dtypes[position]) / _BESIDE
        return np.where(np.isfinite(least), least * size, 0.0)

    def _row(self, position: int, found: Comparison, method: str) -> GradientRow:
        problem, gradient = self.problem, self.gradient[position]
        point = aval(problem.points[position].shape, problem.dtypes[position])
        analytic, numeric = found.summary
        return GradientRow(
            name=problem.names[position],
            shape=str(point),
            gradient_shape=str(aval_of(gradient)),
            analytic=analytic,
            numeric=numeric,
            absolute=float(np.max(found.errors, initial=0.0)),
            relative=found.relative,
            atol=found.atol,
            rtol=found.rtol,
            scale=found.scale,
            differing=int(np.count_nonzero(~found.passes)),
            compared=len(found.analytic),
            method=method,
            verdict=found.verdict,
            worst=found.worst,
            notes=tuple(found.notes),
        )
