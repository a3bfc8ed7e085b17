"""The logarithm of the gamma function and its derivatives, and sinc: as the references have them.

All is worked out in float64 with the polynomials of the references, so the same bounds hold.
"""

from __future__ import annotations

import math

from anabranch.backends.native import coefficients as fitted
from anabranch.backends.native.emit import Val
from anabranch.backends.native.errors import ErrorFunctions
from anabranch.backends.native.functions import Parts, in_float64
from anabranch.ops.special import tables
from anabranch.ops.special.circular import near_coefficients
from anabranch.ops.special.gamma import HALF_LOG_TWO_PI, LARGE, cotangent_derivative

_TERMS = 8  # of an asymptotic series


class GammaFunctions(ErrorFunctions):
    """Functions of one number; `ops/special/gamma.py` and `circular.py` say how exact they are."""

    # sin(pi x), exact at its zeros

    def _half_wave(self, r: Val) -> Val:
        """sin(pi r) / pi for |r| <= 1/2."""
        _, rest = self.single("sinpi", self.multiply(r, r))
        return self.fma(r, rest, r)

    def _alternating(self, near: Val, value: Val) -> Val:
        """The value, its sign changed where the whole number is odd."""
        half = self.multiply(near, self._c(near, 0.5))
        is_odd = self.not_equal(self.call("trunc", near, half), half)
        return self.select(is_odd, self.negative(value), value)

    def _sine_over_pi(self, x: Val) -> Val:
        near = self.call("roundeven", x, x)
        return self._alternating(near, self._half_wave(self.subtract(x, near)))

    def _cosine_of_pi(self, x: Val) -> Val:
        near = self.call("roundeven", x, x)
        r = self.absolute(self.subtract(x, near))
        is_low = self.below(r, 0.25)
        half = self._c(x, 0.5)
        inside = self.select(is_low, self.multiply(r, half), self.subtract(half, r))
        value = self.multiply(self._c(x, math.pi), self._half_wave(inside))
        turned = self.fma(self.multiply(self._c(x, -2.0), value), value, self._c(x, 1.0))
        return self._alternating(near, self.select(is_low, turned, value))

    def _wave_parts(self, r: Val) -> Parts:
        """sin(pi r) / pi for |r| <= 1/2, in two parts."""
        _, rest = self.single("sinpi", self.multiply(r, r))
        return self.sum_parts(r, self.multiply(r, rest))

    def _cotangent(self, x: Val) -> Parts:
        """pi cot(pi x), in two parts: of cosine and sine, or of the other way round."""
        one, half = self._c(x, 1.0), self._c(x, 0.5)
        r = self.subtract(x, self.call("roundeven", x, x))
        a = self.absolute(r)
        is_low = self.below(a, 0.25)
        inside = self.select(is_low, a, self.subtract(half, a))
        # cos(pi r) = 1 - 2 sin(pi r/2)**2
        w, w_rest = self._wave_parts(self.multiply(half, inside))
        square, lost = self.product_parts(w, w)
        lost = self.fma(self.add(w, w), w_rest, lost)
        twice, more = self.times_parts((square, lost), fitted.PI_SQUARED)
        cosine, lost = self.sum_parts(one, self.multiply(self._c(x, -2.0), twice))
        cosine_rest = self.fma(self._c(x, -2.0), more, lost)
        sine, sine_rest = self._wave_parts(inside)
        tangent, tangent_rest = self.times_parts((sine, sine_rest), fitted.PI_SQUARED)
        top = self.select(is_low, cosine, tangent)
        bottom = self.copysign(self.select(is_low, sine, cosine), r)
        top_rest = self.select(is_low, cosine_rest, tangent_rest)
        bottom_rest = self.select(is_low, sine_rest, cosine_rest)
        bottom_rest = self.select(self.below(r, 0.0), self.negative(bottom_rest), bottom_rest)
        quotient = self.divide(top, bottom)
        minus = self.negative(quotient)
        rest = self.add(self.fma(minus, bottom, top), self.fma(minus, bottom_rest, top_rest))
        is_finite = self.below(self.absolute(quotient), math.inf)
        return quotient, self.select(is_finite, self.divide(rest, bottom), self._c(x, 0.0))

    @in_float64
    def sinc(self, x: Val) -> Val:
        a = self.absolute(x)
        _, rest = self.single("sinpi", self.multiply(x, x))
        small = self.add(self._c(x, 1.0), rest)
        nothing = self._c(x, 0.0)
        near = self.call("roundeven", x, x)
        r = self.subtract(x, near)
        wave, lost = self._wave_parts(r)
        quotient = self.divide(wave, x)
        lost = self.add(self.fma(self.negative(quotient), x, wave), lost)
        quotient = self.add(quotient, self.divide(lost, x))
        large = self.add(self._alternating(near, quotient), nothing)  # no -0
        return self.first_of(
            (self.less_equal(a, self._c(x, 0.5)), small),
            (self.equal(a, self._c(x, math.inf)), nothing),
            otherwise=large,
        )

    def sinc_derivative(self, x: Val, n: int) -> Val:
        return self._sinc_derivative(x, n=n)

    @in_float64
    def _sinc_derivative(self, x: Val, *, n: int) -> Val:
        a = self.absolute(x)
        edge = max(n, 1) / 3
        u = self.multiply(self._c(x, math.pi), x)
        series = self._paired(
            self.multiply(u, u), [self._c(x, c) for c in near_coefficients(n, edge)]
        )
        near = self.multiply(series, self._c(x, math.pi**n))
        near = self.multiply(near, u) if n % 2 else near
        nothing = self._c(x, 0.0)
        return self.first_of(
            (self.below(a, edge), near),
            (self.equal(a, self._c(x, math.inf)), nothing),
            otherwise=self._sinc_far(x, n),
        )

    def _sinc_far(self, x: Val, n: int) -> Val:
        """By x f(n) + n f(n - 1) = the n-th derivative of sin(pi x) / pi."""
        sine, cosine = self._sine_over_pi(x), self._cosine_of_pi(x)
        sine_pi = self.multiply(sine, self._c(x, math.pi))
        value = self.divide(sine, x)
        circle = (sine_pi, cosine, self.negative(sine_pi), self.negative(cosine))
        for k in range(1, n + 1):
            top = self.multiply(circle[k % 4], self._c(x, math.pi ** (k - 1)))
            top = self.subtract(top, self.multiply(self._c(x, k), value))
            value = self.divide(top, x)
        return value

    # The logarithm of the gamma function

    def _is_pole(self, x: Val) -> Val:
        is_whole = self.equal(x, self.call("floor", x, x))
        return self.both(self.less_equal(x, self._c(x, 0.0)), is_whole)

    def _series(self, name: str, z: Val) -> Val:
        return self.polynomial(z, tables.entry(name)["coefficients"][:_TERMS])

    @in_float64
    def lgamma(self, x: Val) -> Val:
        nothing, one, two = (self._c(x, value) for value in (0.0, 1.0, 2.0))
        is_low = self.less(x, nothing)
        # gamma(x) gamma(1 - x) = pi / sin(pi x)
        mirrored, lost = self.any_sum_parts(one, self.negative(x))
        a = self.select(is_low, mirrored, x)
        parts = self.log_in_parts(a)
        logarithm = self.add(*parts)
        is_first = self.below(a, 0.5)
        ahead = self.select(is_first, one, nothing)
        place = self.add(a, ahead)
        head, tail = self.binned(("lgamma_zeros", "lgamma"), place, a, ahead)
        middle = self.add(head, tail)
        # Times what is 0 at its zeros: of that the first factor is exact.
        factor = self.add(a, self.subtract(ahead, one))
        other, more = self.any_sum_parts(a, self.subtract(ahead, two))
        factors, rest = self.product_parts(factor, other)
        rest = self.fma(factor, more, rest)
        zeros = self.fma(factors, head, self.fma(factors, tail, self.multiply(rest, head)))
        zeros = self.add(zeros, nothing)  # no -0
        zeros = self.select(is_first, self.subtract(zeros, logarithm), zeros)
        value = self.first_of(
            (self.below(place, 4.0), zeros),
            (self.below(place, LARGE), middle),
            otherwise=self._lgamma_large(a, parts),
        )
        sine = self.log(self.absolute(self._sine_over_pi(x)))
        reflected = self.subtract(self.negative(sine), value)
        # The slope of what was computed at a: where the rest matters, near enough the logarithm.
        lost = self.select(self.below(a, 2.0**60), lost, nothing)
        reflected = self.subtract(reflected, self.multiply(lost, logarithm))
        return self.first_of(
            (self._is_pole(x), self._c(x, math.inf)), (is_low, reflected), otherwise=value
        )

    def _lgamma_large(self, x: Val, logarithm: Parts) -> Val:
        one = self._c(x, 1.0)
        inverse = self.divide(one, x)
        rest = self.multiply(inverse, self._series("lgamma_series", self.square(inverse)))
        rest = self.add(self._c(x, HALF_LOG_TWO_PI - 0.5), rest)
        half = self.subtract(x, self._c(x, 0.5))
        factor, more = self.sum_parts(logarithm[0], self.negative(one))
        product, lost = self.product_parts(half, factor)
        lost = self.fma(half, self.add(more, logarithm[1]), lost)
        value = self.add(product, self.add(lost, rest))
        return self.select(self.below(product, math.inf), value, product)

    # Its derivatives

    @in_float64
    def digamma(self, x: Val) -> Val:
        a = self.absolute(x)
        nothing, one = self._c(x, 0.0), self._c(x, 1.0)
        is_low, is_first = self.less(x, nothing), self.below(a, 1.0)
        inverse = self.divide(one, a)
        lost = self.multiply(inverse, self.fma(self.negative(inverse), a, one))
        value, rest = self._digamma_ahead(a, inverse, is_first)
        below, behind = self.any_sum_parts(value, self.negative(inverse))
        below = self.add(below, self.add(behind, self.subtract(rest, lost)))
        positive = self.select(is_first, below, self.add(value, rest))
        # digamma(1 - x) - digamma(x) = pi cot(pi x)
        ahead, behind = self.any_sum_parts(value, inverse)
        ahead = self.select(is_first, value, ahead)
        rest = self.select(is_first, rest, self.add(rest, self.add(behind, lost)))
        cotangent, more = self._cotangent(a)
        mirrored, behind = self.any_sum_parts(ahead, cotangent)
        more = self.add(behind, self.add(more, rest))
        is_finite = self.below(self.absolute(mirrored), math.inf)
        mirrored = self.add(mirrored, self.select(is_finite, more, nothing))
        # As x where that is so small that there is nothing but its inverse.
        positive = self.select(self.below(a, 1e-300), self.negative(inverse), positive)
        at_zero = self.negative(self.copysign(self._c(x, math.inf), x))
        return self.first_of(
            (self.equal(x, nothing), at_zero),
            (self._is_pole(x), self._c(x, math.nan)),
            (is_low, mirrored),
            (self.equal(x, self._c(x, math.inf)), x),
            otherwise=positive,
        )

    def _digamma_ahead(self, a: Val, inverse: Val, is_first: Val) -> Parts:
        """digamma(a) from 1 on, digamma(1 + a) below; in two parts."""
        root = tables.entry("digamma_root")
        one, nothing = self._c(a, 1.0), self._c(a, 0.0)
        ahead = self.select(is_first, one, nothing)
        place = self.add(a, ahead)
        head, tail = self.binned(("digamma_zero", "digamma"), place, a, ahead)
        distance, lost = self.any_sum_parts(a, self.subtract(ahead, self._c(a, root["head"])))
        lost = self.subtract(lost, self._c(a, root["tail"]))
        zero, rest = self.product_parts(distance, head)
        rest = self.fma(distance, tail, self.fma(lost, self.add(head, tail), rest))
        square = self.square(inverse)
        large = self.multiply(square, self._series("digamma_series", square))
        large = self.fma(self._c(a, 0.5), inverse, large)
        high, low = self.log_in_parts(a)
        is_zero, is_middle = self.below(place, 2.0), self.below(place, LARGE)
        return (
            self.first_of((is_zero, zero), (is_middle, head), otherwise=high),
            self.first_of((is_zero, rest), (is_middle, tail), otherwise=self.subtract(low, large)),
        )

    def polygamma(self, x: Val, n: int) -> Val:
        return self._polygamma(x, n=n)

    @in_float64
    def _polygamma(self, x: Val, *, n: int) -> Val:
        nothing, one = self._c(x, 0.0), self._c(x, 1.0)
        is_low = self.less(x, nothing)
        zeta = self._scaled_zeta(self.select(is_low, self.subtract(one, x), x), n)
        sine = self.multiply(self._c(x, math.pi), self._sine_over_pi(x))
        cotangent = self.divide(self._cosine_of_pi(x), sine)
        slope = self.multiply(
            self._horner(cotangent, [float(c) for c in cotangent_derivative(n)]),
            self._c(x, math.pi ** (n + 1)),
        )
        sign = 1.0 if n % 2 else -1.0
        infinite = self.both(self._is_pole(x), self.greater(x, self._c(x, -math.inf)))
        at_zero = self.divide(self._c(x, sign), self.product_of_copies(x, n + 1))
        return self.first_of(
            (self.equal(x, nothing), at_zero),
            (infinite, self._c(x, math.inf if n % 2 else math.nan)),
            (is_low, self.negative(self.add(zeta, slope))),
            otherwise=self.multiply(self._c(x, sign), zeta),
        )

    def _horner(self, x: Val, given: list[float]) -> Val:
        result = self._c(x, given[-1])
        for c in given[-2::-1]:
            result = self.fma(result, x, self._c(x, c))
        return result

    def _scaled_zeta(self, x: Val, n: int) -> Val:
        """n! (1 / x**(n + 1) + 1 / (x + 1)**(n + 1) + ...): terms, and a series for the rest."""
        nothing, one = self._c(x, 0.0), self._c(x, 1.0)
        steps = self.call("ceil", x, self.subtract(self._c(x, n + LARGE), x))
        steps = self.select(self.greater(steps, nothing), steps, nothing)
        inverse = self.divide(one, self.add(x, steps))
        square = self.square(inverse)
        term, rest = self._c(x, n + 1), self.multiply(self._c(x, 0.5), inverse)
        for k, c in enumerate(tables.entry("zeta_series")["coefficients"], 1):
            rest = self.fma(self.multiply(self._c(x, c), term), square, rest)
            more = self._c(x, (n + 2 * k) * (n + 2 * k + 1))
            term = self.multiply(self.multiply(term, square), more)
        power, lost = self._inverse_power(x, steps, n)
        rest = self.add(self._c(x, 1 / n), rest)
        start = self.fma(power, rest, self.multiply(lost, rest))

        def goes_on(state: list[Val]) -> Val:
            return self.greater_equal(state[2], nothing)

        def step(state: list[Val]) -> list[Val]:
            total, lost, k = state
            term, rest = self._inverse_power(x, k, n + 1)
            more, behind = self.any_sum_parts(total, term)
            lost = self.select(goes_on(state), self.add(lost, self.add(behind, rest)), lost)
            return [self.select(goes_on(state), more, total), lost, self.subtract(k, one)]

        size = self._c(x, math.factorial(n))
        state = [start, nothing, self.subtract(steps, one)]
        total, lost, _ = self.while_any(state, goes_on, step)
        # What is infinite has no rest.
        lost = self.select(self.below(self.absolute(total), math.inf), lost, nothing)
        return self.multiply(size, self.add(total, lost))

    def _inverse_power(self, x: Val, k: Val, n: int) -> Parts:
        """1 / (x + k)**n, in two parts."""
        one = self._c(x, 1.0)
        total, lost = self.any_sum_parts(x, k)
        first = self.divide(one, total)
        rest = self.fma(self.negative(first), total, one)
        rest = self.multiply(first, self.fma(self.negative(first), lost, rest))
        usual = self.both(self.below(total, math.inf), self.below(self.absolute(first), math.inf))
        rest = self.select(usual, rest, self._c(x, 0.0))
        power, behind = first, rest
        for _ in range(n - 1):
            product, more = self.product_parts(power, first)
            power, behind = product, self.fma(behind, first, self.fma(power, rest, more))
        return power, behind
