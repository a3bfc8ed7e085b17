"""Exponentials and what is made of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from anabranch.backends.native import coefficients as fitted
from anabranch.backends.native.emit import F64, Val
from anabranch.backends.native.functions import WORDS, Functions, Parts, on_floats
from anabranch.core.dtype import DType

_DIGITS = {8: 52, 4: 23}  # by size, those of a float behind the point


class Halved(NamedTuple):
    """Of exp(-2a) = p (1 + v) / (1 + u): what tanh(a), its slope and sigmoid have in common.

    Attributes:
        turned: bits whose last ones are the exponent of 4 p.
        u, v: c - r and c + r for 2a = -log(p) - 2r, with r coth(r) = 1 + c.
        square: r * r.
        top: (1 + u) - p (1 + v), in two parts.
        q, rest: 1 / ((1 + u) + p (1 + v)) = q (1 + rest).
    """

    turned: Val
    u: Val
    v: Val
    c: Val
    square: Val
    top: Parts
    q: Val
    rest: Val


class Exponentials(Functions):
    """Functions of one number, each at most 2 units in the last place off."""

    def _reduced(self, x: Val) -> tuple[Val, Val]:
        """n and r with exp(x) = 2**n exp(r), |r| hardly above log(2)/2.

        n comes as an integer that stands where a float has its exponent.
        """
        turned, r = self._turned(x, 1.0, 0)
        return self._as_exponent(turned), r

    def _turned(self, x: Val, times: float, more: int) -> tuple[Val, Val]:
        """Bits that end with n + more, and r, with exp(times x) = 2**n exp(times r).

        |r| is hardly above log(2)/2 / times, which is a power of two. The sum with a number whose
        last bits have no fraction rounds n and puts it into these bits.
        """
        high, low = self.table(x, "LOG_2")
        turn = self._c(x, 1.5 * 2.0 ** np.finfo(x.dtype).nmant + more)
        turned = self.fma(x, self._c(x, times / math.log(2)), turn)
        n = self.subtract(turned, turn)
        r = self.fma(n, self._c(x, -high / times), x)
        return self.bits(turned), self.fma(n, self._c(x, -low / times), r)

    def _as_exponent(self, n: Val) -> Val:
        """The last bits of an integer where a float has its exponent."""
        return self.integer("shl", n, _DIGITS[n.dtype.itemsize])

    def _two_exponents(self, turned: Val) -> tuple[Val, Val]:
        """The last bits as a sum of two halves, each where a float has its exponent."""
        half = self._as_exponent(self.integer("lshr", turned, 1))
        return half, self.integer("sub", self._as_exponent(turned), half)

    def _raised_by(self, x: Val, exponent: Val) -> Val:
        """x times a power of two; both are normal numbers."""
        return self.from_bits(self.integer("add", self.bits(x), exponent), x.dtype)

    def _exp_of_parts(self, x: Val, more: Val) -> tuple[Val, Val, Val]:
        """Bits, r and rest with exp(x + more) = 2**n (1 + r + rest): some digits more than x has.

        x is at most 0; the bits end with n.
        """
        x = self.at_least(x, -746.0 if x.dtype == F64 else -105.0)
        turned, _ = self._turned(x, 1.0, 0)
        n = self._as_exponent(turned)
        high, low = self.table(x, "LOG_2")
        steps = self.convert(self.integer("ashr", n, np.finfo(x.dtype).nmant), x.dtype)
        r = self.fma(steps, self._c(x, -high), x)  # exact
        r, lost = self.any_sum_parts(r, self.multiply(steps, self._c(x, -low)))
        part = self.multiply(self.multiply(r, r), self._expm1_polynomial(r))
        factor = self.add(self._c(x, 1.0), self.add(r, part))
        return turned, r, self.fma(self.add(lost, more), factor, part)

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

    def _times_power(self, part: Val, turned: Val) -> Val:
        """(1 + part) 2**n for every n that `turned` ends with, rounded once even if subnormal."""
        first, second = (
            self._raised_by(self._c(part, 1.0), half) for half in self._two_exponents(turned)
        )
        return self.multiply(self.fma(first, part, first), second)

    def times_power_below(self, x: Val, turned: Val, less: int = 0) -> Val:
        """x 2**n, rounded once; x is near 1, n at most 2, and `turned` ends with n + less."""
        k = 512 if x.dtype == F64 else 64
        power = self._power(self._as_exponent(turned), x.dtype, k)
        return self.multiply(self.multiply(x, power), self._c(x, 2.0 ** -(k + less)))

    def exp2_of_parts(self, x: Parts) -> Val:
        """2**x for an x in two parts that is small enough for `scaled`."""
        part, n = self._exp2_reduced(x)
        return self.scaled(self.add(part, self._c(part, 1.0)), n)

    def exp2_in_parts(self, x: Parts) -> tuple[Val, Val, Val]:
        """value, rest and n with 2**x = (value + rest) 2**n."""
        part, n = self._exp2_reduced(x)
        return (*self.sum_parts(self._c(part, 1.0), part), n)

    def _exp2_reduced(self, x: Parts) -> tuple[Val, Val]:
        """part and n with 2**x = (1 + part) 2**n."""
        n = self.call("roundeven", x[0], x[0])
        f = self.add(self.subtract(x[0], n), x[1])
        return self._expm1_reduced(self.multiply(f, self._c(f, math.log(2)))), n

    @on_floats
    def exp(self, x: Val) -> Val:
        low, high = (-746.0, 710.0) if x.dtype == F64 else (-105.0, 89.0)
        turned, r = self._turned(self.clamped(x, low, high), 1.0, 0)
        return self._times_power(self._expm1_reduced(r), turned)

    @on_floats
    def exp2(self, x: Val) -> Val:
        low, high = (-1080.0, 1025.0) if x.dtype == F64 else (-152.0, 129.0)
        return self.exp2_of_parts((self.clamped(x, low, high), self._c(x, 0.0)))

    @on_floats
    def expm1(self, x: Val) -> Val:
        low, high = (-60.0, 710.0) if x.dtype == F64 else (-30.0, 89.0)
        clamped = self.clamped(x, low, high)
        n, r = self._reduced(clamped)
        square = self.multiply(r, r)
        part, lost = self.sum_parts(r, self.multiply(square, self._expm1_polynomial(r)))
        # 2**n (1 + part) - 1, with half the power, which is a number for every n; of a part that
        # is rounded, much would be left where n is 1 and the part negative
        half = self._power(n, x.dtype, -1)
        rest = self.subtract(half, self._c(x, 0.5))
        total, more = self.sum_parts(rest, self.multiply(half, part))
        total = self.add(total, self.fma(half, lost, more))
        result = self.multiply(self._c(x, 2.0), total)
        small = self.below(self.absolute(x), 1e-300 if x.dtype == F64 else 1e-37)
        return self.select(small, x, result)  # and -0 stays -0

    @on_floats
    def exp_neg_square(self, x: Val) -> Val:
        turned, r, s = self.exp_of_square(self.at_most(self.absolute(x), self.bell_end(x)), True)
        return self.times_power_below(self.add(self.add(r, s), self._c(x, 1.0)), turned)

    @on_floats
    def exp_square(self, x: Val) -> Val:
        top = 27.0 if x.dtype == F64 else 9.5
        turned, r, s = self.exp_of_square(self.at_most(self.absolute(x), top), False)
        return self._times_power(self.add(r, s), turned)

    def bell_end(self, x: Val) -> float:
        """From here on exp(-x*x) is 0, and so is erfc(x)."""
        return 28.0 if x.dtype == F64 else 10.5

    def exp_of_square(self, x: Val, is_negative: bool) -> tuple[Val, Val, Val]:
        """Bits, r and s with exp(x*x), or exp(-x*x), = 2**n (1 + r + s), s the smaller.

        The bits end with n. x*x rounded would cost many units in the last place.
        """
        square, lost = self.product_parts(x, x)
        turned, r = self._turned(self.negative(square) if is_negative else square, 1.0, 0)
        more = self.multiply(self.multiply(r, r), self._expm1_polynomial(r))
        rest = self.fma(lost, self.add(r, more), lost)
        return turned, r, self.subtract(more, rest) if is_negative else self.add(more, rest)

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
        """What tanh(x), its slope and sigmoid(2x) are made of, once in a loop that has several.

        exp(2r) = (r coth(r) + r) / (r coth(r) - r), and r coth(r) needs half as many terms as exp.
        """
        low = -374.0 if x.dtype == F64 else -53.5
        a = self.at_least(self.copysign(x, self._c(x, -1.0)), low)
        turned, r = self._turned(a, 2.0, 2)
        square = self.multiply(r, r)
        c = self.multiply(square, self.horner(square, self.table(x, "COTH")))
        u, v = self.subtract(c, r), self.add(c, r)
        one, p = self._c(x, 1.0), self._quarter_or_zero(turned, x.dtype)
        less, part = self.subtract(one, p), self.fma(self.negative(p), v, u)
        top = self.add(less, part)
        top_rest = self.subtract(part, self.subtract(top, less))
        part = self.fma(p, v, u)
        bottom = self.add(self.add(one, p), part)
        lost = self.subtract(part, self.subtract(self.subtract(bottom, one), p))
        q = self.divide(one, bottom)
        minus = self.negative(q)
        rest = self.fma(minus, lost, self.fma(minus, bottom, one))
        return Halved(turned, u, v, c, square, (top, top_rest), q, rest)

    def _quarter_or_zero(self, turned: Val, dtype: DType) -> Val:
        """2**(n - 2) for what the bits end with, at most 2; 0 where it is no normal number."""
        power = np.asarray(0.25, dtype).view(WORDS[dtype])
        bits = self.integer("add", self._as_exponent(turned), int(power))
        zero = self.number(0, bits.dtype)
        return self.from_bits(self.select(self.less(bits, zero), zero, bits), dtype)

    @on_floats
    def tanh(self, x: Val) -> Val:
        h = self._halved(x)
        top, top_rest = h.top
        more = self.multiply(h.q, self.fma(top, h.rest, top_rest))
        return self.copysign(self.fma(top, h.q, more), x)

    @on_floats
    def sigmoid(self, x: Val) -> Val:
        # (1 + u) q, or p (1 + v) q below 0; the slope asks for x/2 as well.
        h = self._halved(self.multiply(self._c(x, 0.5), x))
        is_low = self.below(x, 0.0)
        part = self.select(is_low, h.v, h.u)
        turned = self.select(is_low, h.turned, self.number(2, h.turned.dtype))
        more = self.fma(h.rest, self.add(part, self._c(x, 1.0)), part)
        return self.times_power_below(self.fma(h.q, more, h.q), turned, 2)

    @on_floats
    def sech_squared(self, x: Val) -> Val:
        # 4 p (1 + u) (1 + v) q**2; the power of two comes last, so that a subnormal result is
        # rounded once.
        h = self._halved(x)
        product = self.fma(h.c, self.add(h.c, self._c(x, 2.0)), self.negative(h.square))
        more = self.add(product, self.add(h.rest, h.rest))
        value = self.fma(h.q, h.q, self.multiply(h.q, self.multiply(h.q, more)))
        return self.times_power_below(value, h.turned, 0)
