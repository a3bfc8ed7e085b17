"""Logarithms, and the inverses of hyperbolic functions.

The split of log(1+g) is that of Tang (1990).
"""

from __future__ import annotations

import math

import numpy as np

from anabranch.backends.native import coefficients as fitted
from anabranch.backends.native.emit import F64, Val
from anabranch.backends.native.exponentials import Exponentials
from anabranch.backends.native.functions import WORDS, Parts, in_float64, on_floats

_LARGE = 2.0**28  # from here on x*x + 1 is x*x


class Logarithms(Exponentials):
    """Functions of one number or two, each at most 2 units in the last place off."""

    def _logarithm(self, g: Val, e: Val) -> Val:
        """log((1 + g) 2**e) for 1 + g between sqrt(1/2) and sqrt(2)."""
        high, low = self.table(g, "LOG_2")
        s = self.divide(g, self.add(g, self._c(g, 2.0)))
        z = self.multiply(s, s)
        rest = self.multiply(z, self.polynomial(z, self.table(g, "LOG")))
        half = self.multiply(self._c(g, 0.5), self.multiply(g, g))
        tail = self.fma(s, self.add(half, rest), self.multiply(e, self._c(g, low)))
        return self.fma(e, self._c(g, high), self.subtract(g, self.subtract(half, tail)))

    def _log_parts(self, g: Val, g_rest: Val | None = None) -> Parts:
        """The same for e = 0, in two parts of about 60 digits; of a g in two parts, too."""
        s = self.divide(g, self.add(g, self._c(g, 2.0)))
        z = self.multiply(s, s)
        rest = self.multiply(z, self.polynomial(z, self.table(g, "LOG")))
        square, lost = self.product_parts(g, g)
        half = self.multiply(self._c(g, 0.5), square)
        high, low = self.sum_parts(g, self.negative(half))
        low = self.fma(self._c(g, -0.5), lost, low)
        low = self.fma(s, self.add(half, rest), low)
        if g_rest is not None:  # 1 / (1 + g) is (1 - s) / (1 + s), and s is small
            one, twice = self._c(g, 1.0), self.multiply(self._c(g, -2.0), s)
            low = self.fma(g_rest, self.fma(twice, self.subtract(one, s), one), low)
        return high, low

    def _and_exponent(self, parts: Parts, e: Val) -> Parts:
        """The sum of a logarithm of `_log_parts` and that of 2**e."""
        high, low = self.table(e, "LOG_2")
        total, lost = self.sum_parts(self.multiply(e, self._c(e, high)), parts[0])
        return total, self.add(lost, self.fma(e, self._c(e, low), parts[1]))

    def log_in_parts(self, x: Val) -> Parts:
        """log(x) in two parts; of what has no finite logarithm, only the first part counts."""
        m, e = self.split_any(x)
        high, low = self._and_exponent(self._log_parts(self.subtract(m, self._c(x, 1.0))), e)
        return self._at_the_ends(x, x, high), low

    def log1p_in_parts(self, x: Val) -> Parts:
        """log(1 + x), the same way."""
        u, lost = self._one_and(x)
        high, low = self._log_of_parts(u, lost)
        tiny = self.below(self.absolute(x), float(np.finfo(x.dtype).eps) / 8)
        high = self._at_the_ends(x, u, high)
        # -0 stays, and so do subnormal numbers
        low = self.select(tiny, self.multiply(self._c(x, -0.5), self.multiply(x, x)), low)
        return self.select(tiny, x, high), low

    def split(self, x: Val) -> tuple[Val, Val]:
        """m and e with x = m 2**e, m between sqrt(1/2) and sqrt(2), for normal x."""
        shift = 52 if x.dtype == F64 else 23
        root = int(np.sqrt(x.dtype.type(0.5)).view(WORDS[x.dtype].type))
        bits = self.bits(x)
        e = self.integer("ashr", self.integer("sub", bits, root), shift)
        m = self.from_bits(self.integer("sub", bits, self.integer("shl", e, shift)), x.dtype)
        return m, self.convert(e, x.dtype)

    def split_any(self, x: Val) -> tuple[Val, Val]:
        """The same for subnormal x, too."""
        shift = 52.0 if x.dtype == F64 else 23.0
        tiny = self.below(x, float(np.finfo(x.dtype).smallest_normal))
        m, e = self.split(self.select(tiny, self.multiply(x, self._c(x, 2.0**shift)), x))
        return m, self.select(tiny, self.subtract(e, self._c(x, shift)), e)

    def _at_the_ends(self, x: Val, base: Val, result: Val) -> Val:
        """Infinity, zero and what lies below it; `base` is what the logarithm is taken of."""
        inf = self._c(x, math.inf)
        nothing = self._c(x, 0.0)
        return self.first_of(
            (self.compared("fcmp ult", base, nothing), self._c(x, math.nan)),  # or is NaN
            (self.equal(base, nothing), self._c(x, -math.inf)),
            (self.equal(x, inf), inf),
            otherwise=result,
        )

    @on_floats
    def log(self, x: Val) -> Val:
        m, e = self.split_any(x)
        result = self._logarithm(self.subtract(m, self._c(x, 1.0)), e)
        return self._at_the_ends(x, x, result)

    def _to_base(self, x: Val, name: str) -> Val:
        """The sum of an exponent's part, which is exact, and a logarithm in two parts."""
        m, e = self.split_any(x)
        parts = self._log_parts(self.subtract(m, self._c(x, 1.0)))
        product, rest = self.times_parts(parts, self.table(x, f"{name}_E"))
        high, low = (self._c(x, part) for part in self.table(x, f"{name}_2"))
        total, lost = self.sum_parts(self.multiply(e, high), product)
        result = self.add(total, self.add(lost, self.fma(e, low, rest)))
        return self._at_the_ends(x, x, result)

    @on_floats
    def log2(self, x: Val) -> Val:
        return self._to_base(x, "LOG2")

    @on_floats
    def log10(self, x: Val) -> Val:
        return self._to_base(x, "LOG10")

    def _split_sum(self, u: Val, lost: Val) -> tuple[Val, Val, Val]:
        """g, a rest and e with u + lost = (1 + g + rest) 2**e; u normal, `lost` at most about 1."""
        m, e = self.split(u)
        # Of a large sum what is lost is nothing, whatever its exponent.
        bounded = self.whole(self.select(self.below(e, 100.0), e, self._c(e, 100.0)))
        scale = self.power_of_two(
            self.integer("sub", self.number(0, bounded.dtype), bounded), u.dtype
        )
        return self.subtract(m, self._c(u, 1.0)), self.multiply(lost, scale), e

    def _log_of_sum(self, u: Val, lost: Val, more: Val) -> Val:
        """log((u + lost) 2**more)."""
        g, rest, e = self._split_sum(u, lost)
        return self._logarithm(self.add(g, rest), self.add(e, more))

    def _log_of_parts(self, u: Val, lost: Val) -> Parts:
        """log(u + lost), in two parts."""
        g, rest, e = self._split_sum(u, lost)
        return self._and_exponent(self._log_parts(*self.any_sum_parts(g, rest)), e)

    def _one_and(self, x: Val) -> Parts:
        """1 + x without error."""
        one = self._c(x, 1.0)
        u = self.add(one, x)
        lost = self.select(
            self.less(self.absolute(x), one),
            self.subtract(x, self.subtract(u, one)),
            self.subtract(one, self.subtract(u, x)),
        )
        return u, lost

    @on_floats
    def log1p(self, x: Val) -> Val:
        u, lost = self._one_and(x)
        result = self._at_the_ends(x, u, self._log_of_sum(u, lost, self._c(x, 0.0)))
        return self.select(
            self.below(self.absolute(x), float(np.finfo(x.dtype).eps) / 4), x, result
        )

    @on_floats
    def softplus(self, x: Val) -> Val:
        rest = self.log1p(self.exp(self.negative(self.absolute(x))))
        # Not `maximum`: where x is NaN, both terms are.
        ramp = self.select(self.below(x, 0.0), self._c(x, 0.0), x)
        return self.add(ramp, rest)

    @on_floats
    def logaddexp(self, x: Val, y: Val) -> Val:
        # The larger operand and log(1 + exp(-d)), nothing rounded before the sum of both; where
        # the exponential is small, it is that logarithm.
        top, bottom = self._ordered(x, y)
        d, lost = self.any_sum_parts(top, self.negative(bottom))
        d = self.select(self.equal(x, y), self._c(x, 0.0), d)  # infinities too
        is_near = self.below(d, 40.0 if x.dtype == F64 else 20.0)
        is_near = self.both(is_near, self.below(self.absolute(top), math.inf))
        lost = self.select(is_near, lost, self._c(x, 0.0))
        turned, r, rest = self._exp_of_parts(self.negative(d), self.negative(lost))
        far = self.add(top, self._times_power(self.add(r, rest), turned))
        power = self._power_of_halves(turned, x.dtype)
        one = self._c(x, 1.0)
        h, h_rest = self.sum_parts(one, r)
        u, u_rest = self.sum_parts(one, self.multiply(power, h))
        u_rest = self.fma(power, self.add(h_rest, rest), u_rest)
        high, low = self._log_of_parts(u, u_rest)
        total, more = self.any_sum_parts(top, high)
        near = self.add(total, self.add(more, low))
        return self.select(is_near, near, far)

    def _ordered(self, x: Val, y: Val) -> tuple[Val, Val]:
        """The larger one, and the other."""
        is_first = self.greater(x, y)
        return self.select(is_first, x, y), self.select(is_first, y, x)

    # The inverses of hyperbolic functions: log(1 + w) for a w in two parts

    def _log1p_of_parts(self, w: Parts, large: Val, x: Val) -> Val:
        """log(1 + w), and log(2 x) where that is large."""
        u, lost = self._one_and(w[0])
        nothing, one = self._c(x, 0.0), self._c(x, 1.0)
        return self._log_of_sum(
            self.select(large, x, u),
            self.select(large, nothing, self.add(lost, w[1])),
            self.select(large, one, nothing),
        )

    @in_float64
    def arcsinh(self, x: Val) -> Val:
        a = self.absolute(x)
        large = self.greater(a, self._c(x, _LARGE))
        one = self._c(x, 1.0)
        b = self.select(large, one, a)
        root = self.sqrt(self.fma(b, b, one))
        w = self.sum_parts(b, self.divide(self.multiply(b, b), self.add(one, root)))
        result = self._log1p_of_parts(w, large, a)
        return self.copysign(self.select(self.equal(a, self._c(x, math.inf)), a, result), x)

    @in_float64
    def arccosh(self, x: Val) -> Val:
        one = self._c(x, 1.0)
        large = self.greater(x, self._c(x, _LARGE))
        b = self.select(large, one, x)
        t = self.subtract(b, one)
        above = self.sum_parts(b, one)
        square, rest = self.product_parts(t, above[0])
        root = self.sqrt(square)
        rest = self.add(self.fma(self.negative(root), root, square), self.fma(t, above[1], rest))
        twice = self.add(root, root)
        safe = self.select(self.equal(twice, self._c(x, 0.0)), one, twice)
        high, low = self.sum_parts(root, t)
        w = (high, self.add(low, self.divide(rest, safe)))
        return self.first_of(
            (self.less(x, one), self._c(x, math.nan)),
            (self.equal(x, self._c(x, math.inf)), x),
            otherwise=self._log1p_of_parts(w, large, x),
        )

    @in_float64
    def arctanh(self, x: Val) -> Val:
        a, one = self.absolute(x), self._c(x, 1.0)
        top = self.add(a, a)
        d, lost = self.sum_parts(one, self.negative(a))
        quotient = self.divide(top, d)
        rest = self.fma(self.negative(quotient), d, top)
        rest = self.fma(self.negative(quotient), lost, rest)
        never = self.number(False, self.less(a, one).dtype)
        value = self._log1p_of_parts((quotient, self.divide(rest, d)), never, x)
        result = self.first_of(
            (self.greater(a, one), self._c(x, math.nan)),
            (self.equal(a, one), self._c(x, math.inf)),
            otherwise=self.multiply(self._c(x, 0.5), value),
        )
        return self.copysign(result, x)

    # What powers are made of

    def log2_parts(self, a: Val) -> Parts:
        """log2 of a positive float64, to about 64 digits; with atanh(s), s = (m-1)/(m+1)."""
        m, e = self.split_any(a)
        one = self._c(a, 1.0)
        g = self.subtract(m, one)
        d = self.sum_parts(self._c(a, 2.0), g)
        s = self.divide(g, d[0])
        s_rest = self.fma(self.negative(s), d[0], g)
        s_rest = self.divide(self.fma(self.negative(s), d[1], s_rest), d[0])
        z, z_rest = self.product_parts(s, s)
        z_rest = self.fma(self.add(s, s), s_rest, z_rest)
        # v = atanh(s)/s - 1 = z/3 + z*z*Q
        third = self.times_parts((z, z_rest), fitted.THIRD)
        more = self.multiply(self.multiply(z, z), self.polynomial(z, self.table(a, "ATANH")))
        v, v_rest = self.sum_parts(third[0], more)
        v_rest = self.add(v_rest, third[1])
        product, rest = self.product_parts(s, v)
        rest = self.add(self.fma(s, v_rest, rest), self.fma(s_rest, v, s_rest))
        w, w_rest = self.sum_parts(s, product)
        scaled = self.times_parts((w, self.add(w_rest, rest)), fitted.TWICE_LOG2_E)
        total, lost = self.sum_parts(e, scaled[0])
        return self.sum_parts(total, self.add(lost, scaled[1]))
