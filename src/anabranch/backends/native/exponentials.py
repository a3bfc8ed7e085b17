"""Exponentials and what is made of them."""

from __future__ import annotations

import math

from anabranch.backends.native import coefficients as fitted
from anabranch.backends.native.emit import F64, Val
from anabranch.backends.native.functions import Functions, Parts, on_floats


class Exponentials(Functions):
    """Functions of one number, each at most 2 units in the last place off."""

    def _reduced(self, x: Val) -> tuple[Val, Val]:
        """n and r with exp(x) = 2**n exp(r), |r| <= log(2)/2."""
        high, low = self.table(x, "LOG_2")
        n = self.call("roundeven", x, self.multiply(x, self._c(x, 1 / math.log(2))))
        r = self.fma(n, self._c(x, -high), x)
        return n, self.fma(n, self._c(x, -low), r)

    def _expm1_reduced(self, r: Val) -> Val:
        """exp(r) - 1 for a reduced argument."""
        return self.fma(self.multiply(r, r), self.polynomial(r, self.table(r, "EXP")), r)

    def exp2_of_parts(self, x: Parts) -> Val:
        """2**x for an x in two parts that is small enough for `scaled`."""
        n = self.call("roundeven", x[0], x[0])
        f = self.add(self.subtract(x[0], n), x[1])
        r = self.multiply(f, self._c(f, math.log(2)))
        return self.scaled(self.add(self._expm1_reduced(r), self._c(r, 1.0)), n)

    @on_floats
    def exp(self, x: Val) -> Val:
        low, high = (-746.0, 710.0) if x.dtype == F64 else (-105.0, 89.0)
        n, r = self._reduced(self.clamped(x, low, high))
        return self.scaled(self.add(self._expm1_reduced(r), self._c(x, 1.0)), n)

    @on_floats
    def exp2(self, x: Val) -> Val:
        low, high = (-1080.0, 1025.0) if x.dtype == F64 else (-152.0, 129.0)
        return self.exp2_of_parts((self.clamped(x, low, high), self._c(x, 0.0)))

    @on_floats
    def expm1(self, x: Val) -> Val:
        low, high = (-60.0, 710.0) if x.dtype == F64 else (-30.0, 89.0)
        clamped = self.clamped(x, low, high)
        n, r = self._reduced(clamped)
        part = self._expm1_reduced(r)
        # 2**n (1 + part) - 1, with half the power, which is a number for every n
        half = self.power_of_two(self.integer("sub", self.whole(n), 1), x.dtype)
        rest = self.subtract(half, self._c(x, 0.5))
        result = self.multiply(self._c(x, 2.0), self.fma(half, part, rest))
        small = self.below(self.absolute(x), 1e-300 if x.dtype == F64 else 1e-37)
        return self.select(small, x, result)  # and -0 stays -0

    @on_floats
    def exp_neg_square(self, x: Val) -> Val:
        n, r, s = self.exp_of_square(self.clamped(self.absolute(x), 0.0, self.bell_end(x)), True)
        return self.scaled(self.add(self.add(r, s), self._c(x, 1.0)), n)

    @on_floats
    def exp_square(self, x: Val) -> Val:
        top = 27.0 if x.dtype == F64 else 9.5
        n, r, s = self.exp_of_square(self.clamped(self.absolute(x), 0.0, top), False)
        return self.scaled(self.add(self.add(r, s), self._c(x, 1.0)), n)

    def bell_end(self, x: Val) -> float:
        """From here on exp(-x*x) is 0, and so is erfc(x)."""
        return 28.0 if x.dtype == F64 else 10.5

    def exp_of_square(self, x: Val, is_negative: bool) -> tuple[Val, Val, Val]:
        """n, r and s with exp(x*x), or exp(-x*x), = 2**n (1 + r + s), s the smaller.

        x*x rounded would cost many units in the last place.
        """
        square, lost = self.product_parts(x, x)
        n, r = self._reduced(self.negative(square) if is_negative else square)
        more = self.multiply(self.multiply(r, r), self.polynomial(r, self.table(r, "EXP")))
        rest = self.fma(lost, self.add(r, more), lost)
        return n, r, self.subtract(more, rest) if is_negative else self.add(more, rest)

    # Hyperbolic functions

    def _hyperbolic(self, x: Val, sign: float) -> Val:
        """(exp(x) + sign exp(-x)) / 2 for x from 0 on; half of it first, which cannot overflow."""
        n, r = self._reduced(self.clamped(x, 0.0, 710.6 if x.dtype == F64 else 89.5))
        part = self._expm1_reduced(r)
        power = self.power_of_two(self.integer("sub", self.whole(n), 2), x.dtype)
        quarter = self.fma(power, part, power)
        other = self.divide(self._c(x, sign / 16), quarter)
        high, low = self.sum_parts(power, other)
        half = self.add(high, self.fma(power, part, low))
        return self.add(half, half)

    @on_floats
    def cosh(self, x: Val) -> Val:
        return self._hyperbolic(self.absolute(x), 1.0)

    @on_floats
    def sinh(self, x: Val) -> Val:
        a = self.absolute(x)
        z = self.multiply(a, a)
        small = self.fma(self.multiply(a, z), self.polynomial(z, self.table(x, "SINH")), a)
        is_small = self.below(a, fitted.SINH_END)
        return self.copysign(self.select(is_small, small, self._hyperbolic(a, -1.0)), x)

    @on_floats
    def tanh(self, x: Val) -> Val:
        a = self.absolute(x)
        bounded = self.clamped(a, 0.0, 19.5 if x.dtype == F64 else 9.5)
        power = self.exp(self.add(bounded, bounded))
        rest = self.divide(self._c(x, 2.0), self.add(power, self._c(x, 1.0)))
        large = self.subtract(self._c(x, 1.0), rest)
        z = self.multiply(a, a)
        small = self.fma(self.multiply(a, z), self.polynomial(z, self.table(x, "TANH")), a)
        result = self.select(self.below(a, 0.625), small, large)
        return self.copysign(result, x)

    @on_floats
    def sigmoid(self, x: Val) -> Val:
        power = self.exp(self.negative(self.absolute(x)))
        one = self._c(x, 1.0)
        is_low = self.less(x, self._c(x, 0.0))
        top, bottom = self.select(is_low, power, one), self.add(one, power)
        quotient = self.divide(top, bottom)
        # What the sum and the division have rounded away, put back: bottom's reciprocal is the
        # quotient or its complement, near enough for so small a term.
        lost = self.subtract(power, self.subtract(bottom, one))
        rest = self.fma(self.negative(quotient), bottom, top)
        rest = self.fma(self.negative(quotient), lost, rest)
        reciprocal = self.select(is_low, self.subtract(one, quotient), quotient)
        return self.fma(rest, reciprocal, quotient)

    @on_floats
    def sech_squared(self, x: Val) -> Val:
        twice = self.multiply(self._c(x, -2.0), self.absolute(x))
        n, r = self._reduced(self.clamped(twice, -748.0 if x.dtype == F64 else -107.0, 0.0))
        value = self.add(self._expm1_reduced(r), self._c(x, 1.0))
        power = self.scaled(value, n)
        # 4 value / (1 + power)**2, with what the sum and the square round away put back; the
        # power of two comes last, so that a subnormal result is rounded once.
        one = self._c(x, 1.0)
        sum_ = self.add(one, power)
        lost = self.subtract(power, self.subtract(sum_, one))
        square = self.multiply(sum_, sum_)
        rest = self.fma(sum_, sum_, self.negative(square))
        rest = self.fma(self.add(sum_, sum_), lost, rest)
        top = self.multiply(self._c(x, 4.0), value)
        quotient = self.divide(top, square)
        missing = self.fma(self.negative(quotient), square, top)
        missing = self.fma(self.negative(quotient), rest, missing)
        quotient = self.add(quotient, self.divide(missing, square))
        return self.scaled(quotient, n)
