"""Circular functions and their inverses.

Sine, cosine and tangent reduce their argument after Cody and Waite (1980), with fused
multiply-adds; no branch depends on a lane, but for arguments so large that they take the long way.
"""

from __future__ import annotations

import math
from typing import Any

from anabranch.backends.native import coefficients as fitted
from anabranch.backends.native.circles import large_lanes
from anabranch.backends.native.emit import F64, Val
from anabranch.backends.native.functions import Parts, on_floats
from anabranch.backends.native.powers import Powers

LARGEST_REDUCED = 2.0**45  # beyond, x times 2/pi no longer tells the quadrant
_EIGHTH, _THREE_EIGHTHS = math.tan(math.pi / 8), math.tan(3 * math.pi / 8)


class Circular(Powers):
    """Functions of one number or two, each at most 2 units in the last place off."""

    def _quadrant(self, x: Val) -> tuple[Parts, Val]:
        """r in two parts and n with x = r + n pi/2, |r| at most a little more than pi/4."""
        n = self.call("roundeven", x, self.multiply(x, self._c(x, 2 / math.pi)))
        first, second, third = (self._c(x, -part) for part in fitted.HALF_PI)
        start = self.fma(n, first, x)  # without error
        r = self.fma(n, third, self.fma(n, second, start))
        product, lost = self.product_parts(n, second)
        total, more = self.any_sum_parts(start, product)
        rest = self.add(self.subtract(total, r), self.fma(n, third, self.add(lost, more)))
        return (r, rest), n

    def _circular(self, x: Val, name: str) -> Val:
        """What `_{name}_of` gives for a reduced argument and its quadrant."""
        wide = self.convert(x, F64)  # float32 is reduced in float64, which has digits enough
        usual = self.below(self.absolute(wide), LARGEST_REDUCED)
        (r, rest), n = self._quadrant(self.select(usual, wide, self._c(wide, 0.0)))
        narrow = self.convert(r, x.dtype)
        if x.dtype != F64:
            rest = self.subtract(r, self.convert(narrow, F64))
        parts = narrow, self.convert(rest, x.dtype)
        value = self.in_quadrant(name, parts, self.whole(n))
        if name != "cos":  # a zero keeps its sign
            value = self.select(self.equal(x, self._c(x, 0.0)), x, value)
        function = large_lanes(self, name, x.dtype)
        return self.where_any(self.unless(usual), value, function, wide)

    def in_quadrant(self, name: str, r: Parts, quadrant: Val) -> Val:
        """The function at r + quadrant pi/2 for a reduced r."""
        if name == "tan":
            return self._tangent(r, quadrant)
        return self._sine(r[0], self.integer("add", quadrant, 1) if name == "cos" else quadrant)

    def _sine(self, r: Val, quadrant: Val) -> Val:
        z = self.multiply(r, r)
        sine = self.fma(self.multiply(r, z), self.polynomial(z, self.table(r, "SIN")), r)
        cosine = self.fma(
            self.multiply(z, z),
            self.polynomial(z, self.table(r, "COS")),
            self.fma(z, self._c(r, -0.5), self._c(r, 1.0)),
        )
        value = self.select(self.has_bit(quadrant, 1), cosine, sine)
        return self.select(self.has_bit(quadrant, 2), self.negative(value), value)

    def _tangent(self, parts: Parts, quadrant: Val) -> Val:
        r, rest = parts
        z = self.multiply(r, r)
        more = self.fma(
            self.multiply(r, z), self.polynomial(z, self.table(r, "TAN")), self.fma(rest, z, rest)
        )
        t, lost = self.sum_parts(r, more)
        # -1 / (t + lost), put right by what the division leaves
        one = self._c(r, 1.0)
        turned = self.divide(self._c(r, -1.0), t)
        rest = self.fma(turned, lost, self.fma(turned, t, one))
        return self.select(self.has_bit(quadrant, 1), self.fma(rest, turned, turned), t)

    @on_floats
    def sin(self, x: Val) -> Val:
        return self._circular(x, "sin")

    @on_floats
    def cos(self, x: Val) -> Val:
        return self._circular(x, "cos")

    @on_floats
    def tan(self, x: Val) -> Val:
        return self._circular(x, "tan")

    # Inverses

    def _arcsine_rest(self, z: Val) -> Val:
        """(arcsin(x) - x) / x for z = x*x, up to 1/4."""
        return self.multiply(z, self.polynomial(z, self.table(z, "ARCSIN")))

    def _arcsine(self, x: Val) -> tuple[Val, Val, Val]:
        """Whether |x| <= 1/2, and s and rest: arcsin(s) = s + rest.

        There s is |x|; beyond, arcsin |x| = pi/2 - 2 arcsin(s).
        """
        a = self.absolute(x)
        is_low = self.less_equal(a, self._c(x, 0.5))
        half = self.fma(a, self._c(x, -0.5), self._c(x, 0.5))
        z = self.select(is_low, self.multiply(a, a), half)
        s = self.select(is_low, a, self.sqrt(half))
        return is_low, s, self.multiply(s, self._arcsine_rest(z))

    @on_floats
    def arcsin(self, x: Val) -> Val:
        is_low, s, rest = self._arcsine(x)
        quarter, more = (self._c(x, part) for part in self._quarters(x)[2])
        high, low = self.sum_parts(quarter, self.multiply(self._c(x, -2.0), s))
        beyond = self.add(high, self.add(low, self.subtract(more, self.add(rest, rest))))
        return self.copysign(self.select(is_low, self.add(s, rest), beyond), x)

    @on_floats
    def arccos(self, x: Val) -> Val:
        is_low, s, rest = self._arcsine(x)
        high, low = (self._c(x, part) for part in self._quarters(x)[2])
        signed, signed_rest = self.copysign(s, x), self.copysign(rest, x)
        inside = self.subtract(high, self.subtract(signed, self.subtract(low, signed_rest)))
        twice, twice_rest = self.add(s, s), self.add(rest, rest)
        pi, pi_low = (self._c(x, part) for part in self._quarters(x)[4])
        left = self.subtract(pi, self.subtract(twice, self.subtract(pi_low, twice_rest)))
        beyond = self.select(self.below(x, 0.0), left, self.add(twice, twice_rest))
        return self.select(is_low, inside, beyond)

    def _quarters(self, x: Val) -> Any:
        """Multiples of pi/4, each in two parts."""
        return self.table(x, "QUARTERS")

    def _angle(self, y: Val, x: Val, flipped: Val | None) -> Val:
        """The angle of a point in the first quadrant; where flipped, pi minus it."""
        is_high = self.greater(y, self.multiply(x, self._c(x, _THREE_EIGHTHS)))
        is_middle = self.greater(y, self.multiply(x, self._c(x, _EIGHTH)))
        top = self.first_of(
            (is_high, self.negative(x)), (is_middle, self.subtract(y, x)), otherwise=y
        )
        bottom = self.first_of((is_high, y), (is_middle, self.add(y, x)), otherwise=x)
        t = self.divide(top, bottom)
        z = self.multiply(t, t)
        more = self.multiply(self.multiply(t, z), self.polynomial(z, self.table(z, "ARCTAN")))
        base = self._base(is_high, is_middle, x, (2, 1, 0))
        if flipped is not None:
            over = self._base(is_high, is_middle, x, (2, 3, 4))
            base = [self.select(flipped, o, b) for o, b in zip(over, base, strict=True)]
            t = self.select(flipped, self.negative(t), t)
            more = self.select(flipped, self.negative(more), more)
        high, low = self.sum_parts(base[0], t)
        return self.add(high, self.add(low, self.add(more, base[1])))

    def _base(self, is_high: Val, is_middle: Val, x: Val, of: tuple[int, int, int]) -> list[Val]:
        quarters = self._quarters(x)
        return [
            self.first_of(
                (is_high, self._c(x, quarters[of[0]][part])),
                (is_middle, self._c(x, quarters[of[1]][part])),
                otherwise=self._c(x, quarters[of[2]][part]),
            )
            for part in (0, 1)
        ]

    @on_floats
    def arctan(self, x: Val) -> Val:
        return self.copysign(self._angle(self.absolute(x), self._c(x, 1.0), None), x)

    @on_floats
    def arctan2(self, y: Val, x: Val) -> Val:
        inf, nothing, one = (self._c(x, value) for value in (math.inf, 0.0, 1.0))
        b, a = self.absolute(y), self.absolute(x)
        # Only the quotient counts: what might overflow is made smaller, and of two equal
        # infinities or zeros it is said here.
        top = 2.0**1021 if x.dtype == F64 else 2.0**125
        large = self.either(self.greater(a, self._c(x, top)), self.greater(b, self._c(x, top)))
        scale = self.select(large, self._c(x, 0.25), one)
        same = self.both(self.equal(a, inf), self.equal(b, inf))
        b = self.select(same, one, self.multiply(b, scale))
        is_origin = self.both(self.equal(a, nothing), self.equal(b, nothing))
        a = self.select(self.either(same, is_origin), one, self.multiply(a, scale))
        angle = self.copysign(self._angle(b, a, self.is_signed(x)), y)
        lost = self.either(self.isnan(x), self.isnan(y))
        return self.select(lost, self._c(x, math.nan), angle)
