"""Exponentials and what is made of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anabranch.backends.native import coefficients as fitted
from anabranch.backends.native.emit import F64, Val
from anabranch.backends.native.functions import WORDS, Functions, Parts, on_floats
from anabranch.core.dtype import DType

_UP, _DOWN = 64, 32  # what is added to the exponents of small and of large powers of two


class Halved(NamedTuple):
    """Of exp(-2a) = 2**n (1 + part): what tanh(a) and its slope have in common.

    Attributes:
        part: exp of the reduced argument, less 1.
        power: 4 * 2**n.
        top: exp(-2a) - 1, in two parts.
        q, rest: 1 / (exp(-2a) + 1) = q (1 + rest).
    """

    part: Val
    power: Val
    top: Parts
    q: Val
    rest: Val


class Exponentials(Functions):
    """Functions of one number, each at most 2 units in the last place off."""

    def _reduced(self, x: Val) -> tuple[Val, Val]:
        """n and r with exp(x) = 2**n exp(r), |r| hardly above log(2)/2.

        n comes as an integer that stands where a float has its exponent; the sum with a number
        whose last bits have no fraction rounds it and puts it into these bits.
        """
        high, low = self.table(x, "LOG_2")
        digits = np.finfo(x.dtype).nmant
        turn = self._c(x, 1.5 * 2.0**digits)
        turned = self.fma(x, self._c(x, 1 / math.log(2)), turn)
        n = self.subtract(turned, turn)
        r = self.fma(n, self._c(x, -high), x)
        r = self.fma(n, self._c(x, -low), r)
        return self.integer("shl", self.bits(turned), digits), r

    def _exp_of_parts(self, x: Val, more: Val) -> tuple[Val, Val, Val]:
        """n, r and rest with exp(x + more) = 2**n (1 + r + rest): to some digits more than x has.

        x is at most 0; n is that of `_reduced`.
        """
        x = self.at_least(x, -746.0 if x.dtype == F64 else -105.0)
        n, _ = self._reduced(x)
        high, low = self.table(x, "LOG_2")
        steps = self.convert(self.integer("ashr", n, np.finfo(x.dtype).nmant), x.dtype)
        r = self.fma(steps, self._c(x, -high), x)  # exact
        r, lost = self.any_sum_parts(r, self.multiply(steps, self._c(x, -low)))
        part = self.multiply(self.multiply(r, r), self._expm1_polynomial(r))
        factor = self.add(self._c(x, 1.0), self.add(r, part))
        return n, r, self.fma(self.add(lost, more), factor, part)

    def _expm1_reduced(self, r: Val) -> Val:
        """exp(r) - 1 for a reduced argument."""
        return self.fma(self.multiply(r, r), self._expm1_polynomial(r), r)

    def _expm1_polynomial(self, r: Val) -> Val:
        """(exp(r) - 1 - r) / r**2."""
        return self.polynomial(r, [0.5, *self.table(r, "EXP")])

    def _power(self, n: Val, dtype: DType, more: int = 0) -> Val:
        """2**(n + more), a normal number, for an n from `_reduced`."""
        one = int(np.ones((), dtype).view(WORDS[dtype]))
        return self.from_bits(self.integer("add", n, one + (more << np.finfo(dtype).nmant)), dtype)

    def _times_power(self, part: Val, n: Val) -> Val:
        """(1 + part) 2**n for every n from `_reduced`, rounded once even if it is subnormal.

        First so much is added to the exponent that it stays one, then that is taken back.
        """
        word, digits = n.dtype, np.finfo(part.dtype).nmant
        one = int(np.ones((), part.dtype).view(WORDS[part.dtype]))
        is_negative = self.integer("ashr", n, 8 * word.itemsize - 1)  # all bits, or none
        added = self.integer("and", is_negative, (_UP + _DOWN) << digits)
        added = self.integer("sub", added, _DOWN << digits)
        power = self.from_bits(self.integer("add", n, self.integer("add", added, one)), part.dtype)
        back = self.from_bits(self.integer("sub", self.number(one, word), added), part.dtype)
        return self.multiply(self.fma(power, part, power), back)

    def _raised(self, n: Val, dtype: DType) -> tuple[Val, int]:
        """2**(n + k), a normal number, and k, for an n that is at most 0."""
        k = 512 if dtype == F64 else 64
        return self._power(n, dtype, k), k

    def times_power_below(self, x: Val, n: Val) -> Val:
        """x 2**n for an n that is at most 0 and an x that is about 1, rounded once."""
        power, k = self._raised(n, x.dtype)
        return self.multiply(self.multiply(x, power), self._c(x, 2.0**-k))

    def exp2_of_parts(self, x: Parts) -> Val:
        """2**x for an x in two parts that is small enough for `scaled`."""
        value, rest, n = self.exp2_parts(x)
        return self.scaled(self.add(value, rest), n)

    def exp2_parts(self, x: Parts) -> tuple[Val, Val, Val]:
        """value, rest and n with 2**x = (value + rest) 2**n."""
        n = self.call("roundeven", x[0], x[0])
        f = self.add(self.subtract(x[0], n), x[1])
        r = self.multiply(f, self._c(f, math.log(2)))
        return (*self.sum_parts(self._c(r, 1.0), self._expm1_reduced(r)), n)

    @on_floats
    def exp(self, x: Val) -> Val:
        low, high = (-746.0, 710.0) if x.dtype == F64 else (-105.0, 89.0)
        n, r = self._reduced(self.clamped(x, low, high))
        return self._times_power(self._expm1_reduced(r), n)

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
        half = self._power(n, x.dtype, -1)
        rest = self.subtract(half, self._c(x, 0.5))
        result = self.multiply(self._c(x, 2.0), self.fma(half, part, rest))
        small = self.below(self.absolute(x), 1e-300 if x.dtype == F64 else 1e-37)
        return self.select(small, x, result)  # and -0 stays -0

    @on_floats
    def exp_neg_square(self, x: Val) -> Val:
        n, r, s = self.exp_of_square(self.at_most(self.absolute(x), self.bell_end(x)), True)
        return self.times_power_below(self.add(self.add(r, s), self._c(x, 1.0)), n)

    @on_floats
    def exp_square(self, x: Val) -> Val:
        top = 27.0 if x.dtype == F64 else 9.5
        n, r, s = self.exp_of_square(self.at_most(self.absolute(x), top), False)
        return self._times_power(self.add(r, s), n)

    def bell_end(self, x: Val) -> float:
        """From here on exp(-x*x) is 0, and so is erfc(x)."""
        return 28.0 if x.dtype == F64 else 10.5

    def exp_of_square(self, x: Val, is_negative: bool) -> tuple[Val, Val, Val]:
        """n, r and s with exp(x*x), or exp(-x*x), = 2**n (1 + r + s), s the smaller.

        x*x rounded would cost many units in the last place.
        """
        square, lost = self.product_parts(x, x)
        n, r = self._reduced(self.negative(square) if is_negative else square)
        more = self.multiply(self.multiply(r, r), self._expm1_polynomial(r))
        rest = self.fma(lost, self.add(r, more), lost)
        return n, r, self.subtract(more, rest) if is_negative else self.add(more, rest)

    # Hyperbolic functions

    def _hyperbolic(self, x: Val, sign: float) -> Val:
        """(exp(x) + sign exp(-x)) / 2 for x from 0 on; half of it first, which cannot overflow."""
        n, r = self._reduced(self.at_most(x, 710.6 if x.dtype == F64 else 89.5))
        part = self._expm1_reduced(r)
        power = self._power(n, x.dtype, -2)
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

    def _halved(self, x: Val) -> Halved:
        """What tanh(x), its slope and sigmoid(2x) are made of, once in a loop that has several."""
        low = -748.0 if x.dtype == F64 else -107.0
        a = self.copysign(x, self._c(x, -1.0))
        n, r = self._reduced(self.at_least(self.add(a, a), low))
        part = self._expm1_reduced(r)
        raised, k = self._raised(n, x.dtype)
        one, two = self._c(x, 1.0), self._c(x, 2.0)
        power = self.multiply(raised, self._c(x, 2.0**-k))
        less = self.subtract(power, one)
        top = self.fma(power, part, less)
        top_rest = self.fma(power, part, self.subtract(less, top))
        bottom = self.add(top, two)
        lost = self.add(self.subtract(top, self.subtract(bottom, two)), top_rest)
        q = self.divide(one, bottom)
        minus = self.negative(q)
        rest = self.fma(minus, lost, self.fma(minus, bottom, one))
        return Halved(
            part, self.multiply(raised, self._c(x, 2.0 ** (2 - k))), (top, top_rest), q, rest
        )

    @on_floats
    def tanh(self, x: Val) -> Val:
        # -expm1(-2a) / (expm1(-2a) + 2) for a = |x|
        h = self._halved(x)
        quotient, rest = self.product_parts(h.top[0], h.q)
        rest = self.fma(h.top[1], h.q, rest)
        return self.copysign(self.add(quotient, self.fma(quotient, h.rest, rest)), x)

    @on_floats
    def sigmoid(self, x: Val) -> Val:
        # 1 / (1 + exp(-|x|)), times that exponential below 0; the slope asks for x/2 as well.
        h = self._halved(self.multiply(self._c(x, 0.5), x))
        more = self.fma(h.rest, self.add(h.part, self._c(x, 1.0)), h.part)
        low = self.multiply(self._c(x, 0.25), self.fma(h.q, more, h.q))
        high = self.fma(h.q, h.rest, h.q)
        return self.select(self.below(x, 0.0), self.multiply(low, h.power), high)

    @on_floats
    def sech_squared(self, x: Val) -> Val:
        # 4 exp(-2a) / (1 + exp(-2a))**2; the power of two comes last, so that a subnormal result
        # is rounded once.
        h = self._halved(x)
        square, rest = self.product_parts(h.q, h.q)
        more = self.fma(self.add(h.rest, h.rest), self.add(h.part, self._c(x, 1.0)), h.part)
        value = self.add(square, self.fma(square, more, rest))
        return self.multiply(value, h.power)
