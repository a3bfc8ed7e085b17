"""The error function and its kin."""

from __future__ import annotations

import math

import numpy as np

from anabranch.backends.native import coefficients as fitted
from anabranch.backends.native.circular import Circular
from anabranch.backends.native.emit import I64, Val
from anabranch.backends.native.functions import Parts, in_float64, on_floats
from anabranch.ops.special import tables


class ErrorFunctions(Circular):
    """Functions of one number, each at most 2 units in the last place off."""

    def _erf_rest(self, x: Val) -> Val:
        """erf(x) - x for small x."""
        z = self.multiply(x, x)
        return self.multiply(x, self.polynomial(z, self.table(x, "ERF")))

    def _erfc_positive(self, a: Val) -> Val:
        """erfc(a) from ERF_END on: the bell curve times a function that changes slowly."""
        a = self.at_most(a, self.bell_end(a))
        turned, r, s = self.exp_of_square(a, True)
        one, turn = self._c(a, 1.0), self._c(a, fitted.ERFCX_TURN)
        d, lost = self.any_sum_parts(a, turn)
        w = self.divide(one, d)
        w_rest = self.fma(self.negative(w), lost, self.fma(self.negative(w), d, one))
        w_rest = self.multiply(w, w_rest)
        twice = self._c(a, -2 * fitted.ERFCX_TURN)
        u, u_rest = self.any_sum_parts(one, self.multiply(w, twice))  # w times a power of two
        u_rest = self.fma(w_rest, twice, u_rest)
        value, value_rest = self._erfcx(u, u_rest)
        slow, slow_rest = self.product_parts(w, value)
        slow_rest = self.fma(w, value_rest, self.fma(w_rest, value, slow_rest))
        rest = self.fma(slow, s, self.fma(slow_rest, r, slow_rest))
        rest = self.fma(slow, r, rest)
        return self.times_power_below(self.add(slow, rest), turned)

    def _erfcx(self, u: Val, u_rest: Val) -> Parts:
        """The polynomial at u + u_rest, its first steps without error."""
        cs, start = self.table(u, "ERFCX"), self.table(u, "ERFCX_START")
        slope = self.polynomial(u, [cs[1], 2 * cs[2], 3 * cs[3]])  # near enough
        value, rest = self.polynomial(u, cs[len(start) :]), self._c(u, 0.0)
        for head, tail in reversed(start):
            product, lost = self.product_parts(u, value)
            lost = self.fma(u, rest, self.add(lost, self._c(u, tail)))
            value, rest = self.any_sum_parts(self._c(u, head), product)
            rest = self.add(rest, lost)
        return value, self.fma(slope, u_rest, rest)

    @on_floats
    def erf(self, x: Val) -> Val:
        a = self.absolute(x)
        small = self.add(x, self._erf_rest(x))
        # 1 - erfc(a): what is taken away is small, and need not be as exact as erfc is.
        one = self._c(x, 1.0)
        w = self.divide(
            one, self.add(self.at_most(a, self.bell_end(a)), self._c(x, fitted.ERF_TURN))
        )
        u = self.fma(w, self._c(x, -2 * fitted.ERF_TURN), one)
        bell = self.multiply(self.exp_neg_square(x), w)
        large = self.fma(self.negative(bell), self.polynomial(u, self.table(x, "ERF_TAIL")), one)
        return self.select(self.below(a, fitted.TAIL_START), small, self.copysign(large, x))

    @on_floats
    def erfc(self, x: Val) -> Val:
        a = self.absolute(x)
        one = self._c(x, 1.0)
        difference, lost = self.sum_parts(one, self.negative(x))
        small = self.add(difference, self.subtract(lost, self._erf_rest(x)))
        tail = self._erfc_positive(a)
        large = self.select(self.below(x, 0.0), self.subtract(self._c(x, 2.0), tail), tail)
        return self.select(self.below(a, fitted.ERF_END), small, large)

    @in_float64
    def erfinv(self, x: Val) -> Val:
        a = self.absolute(x)
        z = self.multiply(x, x)
        head, rest = self.single("erfinv", z)
        small = self.multiply(x, self.add(head, rest))
        # 1 - |x| is exact here, and the inverse is smooth in its logarithm.
        length = self.negative(self.log(self.subtract(self._c(x, 1.0), a)))
        parts = self.binned(("erfinv_tail",), length, length)
        tail = self.copysign(self.add(*parts), x)
        return self.first_of(
            (self.below(a, 0.5), small),
            (self.below(a, 1.0), tail),
            (self.equal(a, self._c(x, 1.0)), self.copysign(self._c(x, math.inf), x)),
            otherwise=self._c(x, math.nan),
        )

    # The polynomials of the references, in float64

    def single(self, name: str, x: Val) -> Parts:
        """A single polynomial at x, as head and rest."""
        found = tables.entry(name)
        rest = self.polynomial(x, found["coefficients"])
        return self._c(x, found["head"]), self.fma(rest, x, self._c(x, found["tail"]))

    def binned(self, names: tuple[str, ...], place: Val, x: Val, ahead: Val | None = None) -> Parts:
        """The polynomial of the bin of `place`, which is about x + ahead, as head and rest.

        Tables of several names must follow each other.
        """
        found = [tables.entry(name) for name in names]
        rows = [
            [center, head, tail, *coefficients]
            for entry in found
            for center, head, tail, coefficients in zip(
                *(entry[key] for key in ("centers", "heads", "tails", "coefficients")), strict=True
            )
        ]
        length = max(map(len, rows))
        rows = [row + [0.0] * (length - len(row)) for row in rows]
        row = self._bin(place, found[0]["low"], found[0]["bins_per_octave"], len(rows))
        center, head, tail, *coefficients = self.gathered("_".join(names), rows, row)
        d = self.subtract(x, center if ahead is None else self.subtract(center, ahead))
        return head, self.fma(self._paired(d, coefficients), d, tail)

    def _bin(self, place: Val, low: float, per_octave: int, count: int) -> Val:
        shift = 52 - (per_octave.bit_length() - 1)
        first = int(np.float64(low).view(np.int64)) >> shift
        row = self.integer("sub", self.integer("ashr", self.bits(place), shift), first)
        row = self.select(self.less(row, self.number(0, I64)), self.number(0, I64), row)
        last = self.number(count - 1, I64)
        return self.select(self.greater(row, last), last, row)
