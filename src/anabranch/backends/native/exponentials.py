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
_BIASES = {8: 2 * 1023, 4: 2 * 127}  # by size, the exponents of two ones
_LIFT = {8: 512, 4: 64}  # by size, a power of two that takes small results out of the subnormals


class Halved(NamedTuple):
    """Of exp(-2a) = p (1 + v) / (1 + u): what tanh(a), its slope and sigmoid have in common.

    Attributes:
        turned: bits whose last ones are the exponent of p, lifted.
        r, v: 2a = -log(p) - 2r, and v = c + r with r coth(r) = 1 + c; u is c - r.
        square: r * r.
        top: half of (1 + u) - p (1 + v), in two parts.
        q, rest: 2 / ((1 + u) + p (1 + v)) = q (1 + rest).
    """

    turned: Val
    r: Val
    v: Val
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

    def _in_halves(self, x: Val) -> tuple[Val, Val]:
        """n and r with exp(x) = 2**n exp(r), n in halves: bits that end with n and two biases."""
        return self._turned(x, 1.0, _BIASES[x.dtype.itemsize])

    def _two_powers(self, turned: Val, dtype: DType) -> tuple[Val, Val]:
        """The factors of 2**n, about as large, each a normal number; `turned` is in halves."""
        digits = _DIGITS[dtype.itemsize]
        first = self.integer("and", self.integer("shl", turned, digits - 1), -(1 << digits))
        second = self.integer("sub", self._as_exponent(turned), first)
        return self.from_bits(first, dtype), self.from_bits(second, dtype)

    def _raised_by(self, x: Val, exponent: Val) -> Val:
        """x times a power of two; both are normal numbers."""
        return self.from_bits(self.integer("add", self.bits(x), exponent), x.dtype)

    def _exp_of_parts(self, x: Val, more: Val) -> tuple[Val, Val, Val]:
        """Bits, r and rest with exp(x + more) = 2**n (1 + r + rest): some digits more than x has.

        x is at most 0; n is in halves.
        """
        x = self.at_least(x, -746.0 if x.dtype == F64 else -105.0)
        turned, _ = self._in_halves(x)
        biases = _BIASES[x.dtype.itemsize] << _DIGITS[x.dtype.itemsize]
        n = self.integer("sub", self._as_exponent(turned), biases)
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
        """(1 + part) 2**n for every n in halves, rounded once even if subnormal."""
        first, second = self._two_powers(turned, part.dtype)
        return self.multiply(self.fma(first, part, first), second)

    def times_power_below(self, x: Val, turned: Val) -> Val:
        """x 2**n, rounded once; x is near 1, n at most 2 and in halves."""
        lift = _LIFT[x.dtype.itemsize]
        power = self._power_of_halves(turned, x.dtype, lift)
        return self.multiply(self.multiply(x, power), self._c(x, 2.0**-lift))

    def _lifted(self, x: Val, turned: Val) -> Val:
        """x 2**n by its bits, n being what `turned` ends with; x is near 1.

        Quick, but NaN becomes anything, so it must be met in what this is multiplied with.
        """
        return self._raised_by(x, self._as_exponent(turned))

    def _power_of_halves(self, turned: Val, dtype: DType, more: int = 0) -> Val:
        """2**(n + more), a normal number, for an n in halves."""
        return self._power(self._as_exponent(turned), dtype, more - _BIASES[dtype.itemsize])

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
        turned, r = self._in_halves(self.clamped(x, low, high))
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

        n is in halves. x*x rounded would cost many units in the last place.
        """
        square, lost = self.product_parts(x, x)
        turned, r = self._in_halves(self.negative(square) if is_negative else square)
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
        turned, r = self._turned(a, 2.0, _LIFT[x.dtype.itemsize])
        square = self.multiply(r, r)
        v = self.fma(square, self.horner(square, self.table(x, "COTH")), r)
        # u -+ p v as (1 -+ p) v - 2r: nothing is lost of the difference where p is 1
        half, p, minus = self._c(x, 0.5), self._half_or_zero(turned, x.dtype), self.negative(r)
        less, more = self.subtract(half, p), self.add(half, p)
        part = self.fma(less, v, minus)
        top = self.add(less, part)
        top_rest = self.subtract(part, self.subtract(top, less))
        part = self.fma(more, v, minus)
        bottom = self.add(more, part)
        lost = self.subtract(part, self.subtract(self.subtract(bottom, half), p))
        one = self._c(x, 1.0)
        q = self.divide(one, bottom)
        minus = self.negative(q)
        rest = self.fma(minus, lost, self.fma(minus, bottom, one))
        return Halved(turned, r, v, square, (top, top_rest), q, rest)

    def _half_or_zero(self, turned: Val, dtype: DType) -> Val:
        """2**(n - 1) for what the bits end with, which is n lifted; 0 where it is no normal number.

        There the exponent runs into the sign.
        """
        half = self._power(self._as_exponent(turned), dtype, -1 - _LIFT[dtype.itemsize])
        return self.at_least(half, 0.0)

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
        part = self.select(is_low, h.v, self.subtract(h.v, self.add(h.r, h.r)))
        lift = _LIFT[x.dtype.itemsize]
        turned = self.select(is_low, h.turned, self.number(lift, h.turned.dtype))
        more = self.fma(h.rest, self.add(part, self._c(x, 1.0)), part)
        q = self._lifted(h.q, turned)
        return self.multiply(self.fma(q, more, q), self._c(x, 2.0 ** -(lift + 1)))

    @on_floats
    def sech_squared(self, x: Val) -> Val:
        # p (1 + u) (1 + v) q**2; only the last sum and its smaller part may be subnormal.
        h = self._halved(x)
        c = self.subtract(h.v, h.r)
        product = self.fma(c, self.add(c, self._c(x, 2.0)), self.negative(h.square))
        more = self.add(product, self.add(h.rest, h.rest))
        q = self._lifted(h.q, h.turned)
        lift = self.number(-(_LIFT[x.dtype.itemsize] << _DIGITS[x.dtype.itemsize]), h.turned.dtype)
        other = self._raised_by(h.q, lift)
        return self.fma(q, other, self.multiply(q, self.multiply(other, more)))
