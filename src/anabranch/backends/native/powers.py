"""Powers and roots."""

from __future__ import annotations

import math
from collections.abc import Sequence

from anabranch.backends.native import coefficients as fitted
from anabranch.backends.native.emit import F32, F64, NotNativeError, Val
from anabranch.backends.native.functions import Parts, in_float64, on_floats
from anabranch.backends.native.logarithms import Logarithms
from anabranch.core.dtype import is_floating

_MOST = 2.0**66  # as an exponent of any number but 1 it gives 0 or infinity, as larger ones do
_FAR = 2040.0  # as a power of two times what is no power: 0 or infinite


class Powers(Logarithms):
    """Functions of one number or two, each at most 2 units in the last place off."""

    @on_floats
    def rsqrt(self, x: Val) -> Val:
        return self.divide(self._c(x, 1.0), self.sqrt(x))

    @on_floats
    def one_minus_square(self, x: Val) -> Val:
        one = self._c(x, 1.0)
        return self.multiply(self.subtract(one, x), self.add(one, x))

    @in_float64
    def cbrt(self, x: Val) -> Val:
        a = self.absolute(x)
        m, e = self.split_any(a)
        third = self.call(
            "floor", e, self.multiply(self.add(e, self._c(e, 0.5)), self._c(e, 1 / 3))
        )
        m = self.scaled(m, self.fma(third, self._c(e, -3.0), e))
        y = self.polynomial(m, fitted.CBRT)
        # Halley's step, which triples the digits, and Newton's with an exact remainder.
        cube = self.multiply(self.multiply(y, y), y)
        y = self.fma(self.divide(self.subtract(m, cube), self.add(m, self.add(cube, cube))), y, y)
        square, lost = self.product_parts(y, y)
        rest = self.fma(lost, y, self.fma(square, y, self.negative(m)))
        y = self.subtract(y, self.divide(rest, self.multiply(self._c(x, 3.0), square)))
        usual = self.both(self.below(a, math.inf), self.greater(a, self._c(x, 0.0)))
        return self.select(usual, self.copysign(self.scaled(y, third), x), x)

    @in_float64
    def hypot(self, x: Val, y: Val) -> Val:
        a, b = self.absolute(x), self.absolute(y)
        top, low = self.select(self.greater(a, b), a, b), self.select(self.greater(a, b), b, a)
        one = self._c(x, 1.0)
        scale = self.first_of(
            (self.greater(top, self._c(x, 2.0**500)), self._c(x, 2.0**-600)),
            (self.below(top, 2.0**-400), self._c(x, 2.0**600)),
            otherwise=one,
        )
        top, low = self.multiply(top, scale), self.multiply(low, scale)
        length = self.sqrt(self.fma(top, top, self.multiply(low, low)))
        inf = self._c(x, math.inf)
        is_infinite = self.either(self.equal(a, inf), self.equal(b, inf))
        return self.select(is_infinite, inf, self.divide(length, scale))

    # Powers

    def power(self, x: Val, y: Val) -> Val:
        if not is_floating(x.dtype):
            return self._power_of_integers(x, y)
        return self._power_of_floats(x, y)

    @on_floats
    def _power_of_floats(self, x: Val, y: Val) -> Val:
        a, inf = self.absolute(x), self._c(x, math.inf)
        value = self._size_of_power(a, y)
        one, nothing = self._c(x, 1.0), self._c(x, 0.0)
        # Of 0 and infinity, and to infinite powers
        grows = self.equal(
            self.select(self.greater(a, one), one, nothing),
            self.select(self.greater(y, nothing), one, nothing),
        )
        ends = self.either(self.equal(a, inf), self.equal(a, nothing))
        ends = self.either(ends, self.equal(self.absolute(y), inf))
        value = self.select(ends, self.select(grows, inf, nothing), value)
        # Signs: an odd whole power keeps that of x, of others than whole ones there are none
        half = self.multiply(y, self._c(y, 0.5))
        is_whole = self.equal(self.call("trunc", y, y), y)
        is_odd = self.both(is_whole, self.not_equal(self.call("trunc", y, half), half))
        value = self.select(self.both(is_odd, self.is_signed(x)), self.negative(value), value)
        below = self.both(self.less(x, nothing), self.greater(x, self.negative(inf)))
        lost = self.both(below, self.unless(is_whole))
        lost = self.either(lost, self.either(self.isnan(x), self.isnan(y)))
        value = self.select(lost, self._c(x, math.nan), value)
        stays = self.either(self.equal(y, nothing), self.equal(x, one))
        stays = self.either(stays, self.both(self.equal(a, one), self.equal(self.absolute(y), inf)))
        return self.select(stays, one, value)

    def _size_of_power(self, a: Val, y: Val) -> Val:
        """a**y for positive numbers a; anything at the ends."""
        if a.dtype == F32:  # float64 has digits enough
            wide, exponent = self.convert(a, F64), self.convert(y, F64)
            m, e = self.split(wide)
            product = self.multiply(
                self._logarithm(self.subtract(m, self._c(m, 1.0)), e), self._c(m, 1 / math.log(2))
            )
            product = self.clamped(self.multiply(product, exponent), -200.0, 200.0)
            return self.convert(self.exp2_of_parts((product, self._c(product, 0.0))), F32)
        return self.exp2_of_parts(self._exponent(a, y, self._c(y, 0.0), 1100.0))

    def _exponent(self, a: Val, y: Val, y_rest: Val, most: float) -> Parts:
        """log2 of a**(y + y_rest), in two parts; at most so large."""
        high, low = self.log2_parts(a)
        y = self.clamped(y, -_MOST, _MOST)
        product, rest = self.product_parts(high, y)
        rest = self.fma(low, y, self.fma(high, y_rest, rest))
        inside = self.below(self.absolute(product), most)
        rest = self.select(inside, rest, self._c(y, 0.0))
        return self.clamped(product, -most, most), rest

    # Products in which a zero wins against an infinite factor

    @on_floats
    def power_slope(self, x: Val, y: Val) -> Val:
        power = self._power_of_floats(x, self.subtract(y, self._c(y, 1.0)))
        return self.absorb_either(y, power)

    def power_polynomial(self, x: Val, y: Val, rows: tuple[tuple[int, ...], ...], n: int) -> Val:
        """x**(y - n) times a polynomial in log(x) and y, whose zeros win.

        For each power of log(x), the lowest first, `rows` has the coefficients of the powers of y.
        """
        return self._power_polynomial(x, y, rows=rows, n=n)

    @in_float64
    def _power_polynomial(
        self, x: Val, y: Val, *, rows: tuple[tuple[int, ...], ...], n: int
    ) -> Val:
        a, one = self.absolute(x), self._c(x, 1.0)
        # Step by step, which is right where something is infinite or 0 ...
        power = self._power_of_floats(x, self.subtract(y, self._c(y, n)))
        logarithm = self.log_in_parts(a)
        real = self.select(self.below(x, 0.0), self._c(x, math.nan), logarithm[0])
        factor = self._steps(rows, y, real)
        plain = self.absorb_either(factor, power)
        # ... and in two parts, for what cancels; the power of two comes last.
        factor, more = self._in_parts(rows, y, logarithm)
        exponent, lost = self._exponent(a, *self.any_sum_parts(y, self._c(y, -n)), _FAR)
        value, part, whole = self.exp2_in_parts((exponent, lost))
        rest = self.fma(factor, part, self.multiply(more, value))
        exact = self.scaled(self.fma(factor, value, rest), whole)
        exact = self.multiply(exact, self.copysign(one, power))
        usual = self.compared("fcmp one", exact, self._c(x, 0.0))
        usual = self.both(usual, self.below(self.absolute(exact), math.inf))
        usual = self.both(usual, self.below(self.absolute(exponent), _FAR))
        return self.select(self.both(usual, self.unless(self.isnan(plain))), exact, plain)

    def _steps(self, rows: Sequence[Sequence[int]], y: Val, logarithm: Val) -> Val:
        """The polynomial, each step rounded; a zero wins against an infinite logarithm."""
        factor: Val | None = None
        for row in reversed(rows):
            term = self._c(y, row[-1])
            for c in reversed(row[:-1]):
                term = self.multiply(term, y)
                term = self.add(term, self._c(y, c)) if c else term  # which keeps the sign of 0
            factor = term if factor is None else self.add(self.absorb(factor, logarithm), term)
        assert factor is not None
        return factor

    def _in_parts(self, rows: Sequence[Sequence[int]], y: Val, logarithm: Parts) -> Parts:
        """The same, all in two parts."""
        nothing = self._c(y, 0.0)
        factor: Parts = (nothing, nothing)
        for row in reversed(rows):
            term = (self._c(y, row[-1]), nothing)
            for c in reversed(row[:-1]):
                term = self._fma_parts(term, (y, nothing), (self._c(y, c), nothing))
            factor = self._fma_parts(factor, logarithm, term)
        return factor

    def _fma_parts(self, x: Parts, y: Parts, z: Parts) -> Parts:
        product, lost = self.product_parts(x[0], y[0])
        lost = self.fma(x[0], y[1], self.fma(x[1], y[0], lost))
        total, more = self.any_sum_parts(product, z[0])
        return self.sum_parts(total, self.add(more, self.add(lost, z[1])))

    @on_floats
    def xlogy(self, x: Val, y: Val) -> Val:
        return self._times_logarithm(x, y, self.log_in_parts(y))

    @on_floats
    def xlog1py(self, x: Val, y: Val) -> Val:
        return self._times_logarithm(x, y, self.log1p_in_parts(y))

    def _times_logarithm(self, x: Val, y: Val, logarithm: Parts) -> Val:
        """x times a logarithm in two parts, rounded once; a zero wins, but not against NaN in y."""
        high, low = logarithm
        value = self.fma(x, high, self.multiply(x, low))
        # The first part decides of the sign of a zero, and of what is infinite.
        decides = self.compared("fcmp ueq", value, self._c(x, 0.0))
        value = self.select(decides, self.multiply(x, high), value)
        return self.select(self.isnan(y), y, self._unpoisoned(value, x))

    @on_floats
    def xdivy(self, x: Val, y: Val) -> Val:
        nothing = self._c(x, 0.0)
        both = self.both(self.equal(x, nothing), self.equal(y, nothing))
        return self.select(both, nothing, self.divide(x, y))

    def _power_of_integers(self, x: Val, y: Val) -> Val:
        if x.dtype.kind != "u":
            raise NotNativeError("integers to a power that may be negative are checked by NumPy")

        def goes_on(state: list[Val]) -> Val:
            return self.not_equal(state[2], self.number(0, y.dtype))

        def step(state: list[Val]) -> list[Val]:
            result, base, rest = state
            taken = self.select(self.has_bit(rest, 1), self.multiply(result, base), result)
            return [taken, self.square(base), self.integer("lshr", rest, 1)]

        return self.while_any([self.number(1, x.dtype), x, y], goes_on, step)[0]

    def integer_power(self, x: Val, n: int) -> Val:
        """Products of a few factors, which cannot overflow before the result does."""
        if not is_floating(x.dtype):
            return self.product_of_copies(x, n)
        if not -2 <= n <= 4:
            return self._power_of_floats(x, self._c(x, n))
        return self._small_power(x, n=n)

    @on_floats
    def _small_power(self, x: Val, *, n: int) -> Val:
        if n < 0:
            x = self.divide(self._c(x, 1.0), x)
        return self.product_of_copies(x, abs(n))

    def product_of_copies(self, x: Val, n: int) -> Val:
        """x**n by squaring."""
        result = None
        while n:
            if n & 1:
                result = x if result is None else self.multiply(result, x)
            n >>= 1
            if n:
                x = self.square(x)
        return self.number(1, x.dtype) if result is None else result
