"""Functions as straight-line vector code: at most 2 units in the last place off, everywhere.

Each method works for float64 and float32; halves are computed as float32 and rounded. No branch
depends on a lane, but for arguments of sine and cosine so large that they take the long way.
Sources: argument reduction after Cody and Waite (1980), with fused multiply-adds; the split of
log(1+g) after Tang (1990).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.backends.native import coefficients as fitted
from anabranch.backends.native.circles import large_lanes
from anabranch.backends.native.emit import (
    BOOL,
    F32,
    F64,
    Emitter,
    NotNativeError,
    Val,
    register_type,
)
from anabranch.core.dtype import DType, is_floating, is_half

LARGEST_REDUCED = 2.0**45  # beyond, x times 2/pi no longer tells the quadrant
_WORDS: dict[DType, DType] = {F64: np.dtype(np.int64), F32: np.dtype(np.int32)}


def _on_floats(function: Callable[[Any, Val], Val]) -> Callable[[Any, Val], Val]:
    """A function of a float64 or float32 as one of every dtype that NumPy gives a float for."""

    def applied(e: Mathematics, x: Val) -> Val:
        if not is_floating(x.dtype):
            if x.dtype.itemsize < 4 or x.dtype == BOOL:
                raise NotNativeError(f"{function.__name__} of {x.dtype.name} is left to NumPy")
            x = e.convert(x, F64)
        if not is_half(x.dtype):
            return function(e, x)
        return e.rounded(function(e, Val(x.text, F32)), x.dtype)

    return applied


class Mathematics(Emitter):
    """An emitter that knows functions."""

    # Helpers

    def _c(self, x: Val, value: float) -> Val:
        return self.number(value, x.dtype)

    def fma(self, x: Val, y: Val, z: Val) -> Val:
        return self.call("fma", x, x, y, z)

    def _polynomial(self, x: Val, given: Sequence[float]) -> Val:
        """Pairs of neighbouring terms, then Horner in x*x: shorter chains than Horner alone."""
        square = self.multiply(x, x)
        cs = [self._c(x, c) for c in given]
        pairs = [
            self.fma(cs[i + 1], x, cs[i]) if i + 1 < len(cs) else cs[i]
            for i in range(0, len(cs), 2)
        ]
        result = pairs[-1]
        for pair in reversed(pairs[:-1]):
            result = self.fma(result, square, pair)
        return result

    def _table(self, x: Val, name: str) -> Sequence[float]:
        found: Sequence[float] = getattr(fitted, f"{name}_{8 * x.dtype.itemsize}")
        return found

    def _clamped(self, x: Val, low: float, high: float) -> Val:
        """Inside the bounds; NaN stays."""
        x = self.select(self.less(x, self._c(x, low)), self._c(x, low), x)
        return self.select(self.greater(x, self._c(x, high)), self._c(x, high), x)

    def _bits(self, x: Val) -> Val:
        word = _WORDS[x.dtype]
        kind = self.type(f"i{8 * word.itemsize}")
        source = self.type("double" if x.dtype == F64 else "float")
        return Val(self.new(f"bitcast {source} {x.text} to {kind}"), word)

    def _from_bits(self, x: Val, dtype: DType) -> Val:
        kind = self.type(f"i{8 * x.dtype.itemsize}")
        target = self.type("double" if dtype == F64 else "float")
        return Val(self.new(f"bitcast {kind} {x.text} to {target}"), dtype)

    def _whole(self, x: Val) -> Val:
        """A float without fraction as an integer of its size."""
        word = _WORDS[x.dtype]
        source = self.type("double" if x.dtype == F64 else "float")
        return Val(
            self.new(f"fptosi {source} {x.text} to {self.type(f'i{8 * word.itemsize}')}"), word
        )

    def _integer(self, word: str, x: Val, y: Val | int) -> Val:
        other = self.number(y, x.dtype) if isinstance(y, int) else y
        kind = self.type(f"i{8 * x.dtype.itemsize}")
        return Val(self.new(f"{word} {kind} {x.text}, {other.text}"), x.dtype)

    def _power_of_two(self, n: Val, dtype: DType) -> Val:
        """2**n for an integer in the range of exponents of normal numbers."""
        bias, shift = (1023, 52) if dtype == F64 else (127, 23)
        return self._from_bits(self._integer("shl", self._integer("add", n, bias), shift), dtype)

    def copysign(self, x: Val, like: Val) -> Val:
        return self.call("copysign", x, x, like)

    # Exponentials

    def _reduced(self, x: Val) -> tuple[Val, Val]:
        """n and r with exp(x) = 2**n exp(r), |r| <= log(2)/2."""
        high, low = self._table(x, "LOG_2")
        n = self.call("roundeven", x, self.multiply(x, self._c(x, 1 / math.log(2))))
        r = self.fma(n, self._c(x, -high), x)
        return n, self.fma(n, self._c(x, -low), r)

    def _expm1_reduced(self, r: Val) -> Val:
        """exp(r) - 1 for a reduced argument."""
        return self.fma(self.multiply(r, r), self._polynomial(r, self._table(r, "EXP")), r)

    def _halves(self, n: Val) -> tuple[Val, Val]:
        """An exponent in two parts, so that each is one of a normal number."""
        whole = self._whole(n)
        first = self._integer("ashr", whole, 1)
        return first, self._integer("sub", whole, first)

    @_on_floats
    def exp(self, x: Val) -> Val:
        low, high = (-746.0, 710.0) if x.dtype == F64 else (-105.0, 89.0)
        x = self._clamped(x, low, high)
        n, r = self._reduced(x)
        value = self.add(self._expm1_reduced(r), self._c(x, 1.0))
        first, second = self._halves(n)
        value = self.multiply(value, self._power_of_two(first, x.dtype))
        return self.multiply(value, self._power_of_two(second, x.dtype))

    @_on_floats
    def expm1(self, x: Val) -> Val:
        low, high = (-60.0, 710.0) if x.dtype == F64 else (-30.0, 89.0)
        clamped = self._clamped(x, low, high)
        n, r = self._reduced(clamped)
        part = self._expm1_reduced(r)
        # 2**n (1 + part) - 1, with half the power, which is a number for every n
        half = self._power_of_two(self._integer("sub", self._whole(n), 1), x.dtype)
        rest = self.subtract(half, self._c(x, 0.5))
        result = self.multiply(self._c(x, 2.0), self.fma(half, part, rest))
        small = self.less(self.absolute(x), self._c(x, 1e-300 if x.dtype == F64 else 1e-37))
        return self.select(small, x, result)  # and -0 stays -0

    @_on_floats
    def tanh(self, x: Val) -> Val:
        a = self.absolute(x)
        bounded = self._clamped(a, 0.0, 19.5 if x.dtype == F64 else 9.5)
        power = Mathematics.exp(self, self.add(bounded, bounded))
        rest = self.divide(self._c(x, 2.0), self.add(power, self._c(x, 1.0)))
        large = self.subtract(self._c(x, 1.0), rest)
        z = self.multiply(a, a)
        small = self.fma(self.multiply(a, z), self._polynomial(z, self._table(x, "TANH")), a)
        result = self.select(self.less(a, self._c(x, 0.625)), small, large)
        return self.copysign(result, x)

    @_on_floats
    def sigmoid(self, x: Val) -> Val:
        power = Mathematics.exp(self, self.negative(self.absolute(x)))
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

    @_on_floats
    def sech_squared(self, x: Val) -> Val:
        twice = self.multiply(self._c(x, -2.0), self.absolute(x))
        n, r = self._reduced(self._clamped(twice, -748.0 if x.dtype == F64 else -107.0, 0.0))
        value = self.add(self._expm1_reduced(r), self._c(x, 1.0))
        halves = [self._power_of_two(part, x.dtype) for part in self._halves(n)]
        power = self.multiply(self.multiply(value, halves[0]), halves[1])
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
        return self.multiply(self.multiply(quotient, halves[0]), halves[1])

    @_on_floats
    def softplus(self, x: Val) -> Val:
        rest = Mathematics.log1p(self, Mathematics.exp(self, self.negative(self.absolute(x))))
        # Not `maximum`: where x is NaN, both terms are.
        ramp = self.select(self.less(x, self._c(x, 0.0)), self._c(x, 0.0), x)
        return self.add(ramp, rest)

    # Logarithms

    def _logarithm(self, g: Val, e: Val) -> Val:
        """log((1 + g) 2**e) for 1 + g between sqrt(1/2) and sqrt(2)."""
        high, low = self._table(g, "LOG_2")
        s = self.divide(g, self.add(g, self._c(g, 2.0)))
        z = self.multiply(s, s)
        rest = self.multiply(z, self._polynomial(z, self._table(g, "LOG")))
        half = self.multiply(self._c(g, 0.5), self.multiply(g, g))
        tail = self.fma(s, self.add(half, rest), self.multiply(e, self._c(g, low)))
        return self.fma(e, self._c(g, high), self.subtract(g, self.subtract(half, tail)))

    def _split(self, x: Val) -> tuple[Val, Val]:
        """m and e with x = m 2**e, m between sqrt(1/2) and sqrt(2), for normal x."""
        shift = 52 if x.dtype == F64 else 23
        root = int(np.sqrt(x.dtype.type(0.5)).view(_WORDS[x.dtype].type))
        bits = self._bits(x)
        e = self._integer("ashr", self._integer("sub", bits, root), shift)
        m = self._from_bits(self._integer("sub", bits, self._integer("shl", e, shift)), x.dtype)
        return m, self.convert(e, x.dtype)

    def _at_the_ends(self, x: Val, base: Val, result: Val) -> Val:
        """Infinity, zero and what lies below it; `base` is what the logarithm is taken of."""
        inf = self._c(x, math.inf)
        result = self.select(self.equal(x, inf), inf, result)
        nothing = self._c(x, 0.0)
        result = self.select(self.equal(base, nothing), self._c(x, -math.inf), result)
        below = self.either(self.less(base, nothing), self.isnan(x))
        return self.select(below, self._c(x, math.nan), result)

    @_on_floats
    def log(self, x: Val) -> Val:
        shift = 52.0 if x.dtype == F64 else 23.0
        tiny = self.less(x, self._c(x, float(np.finfo(x.dtype).smallest_normal)))
        m, e = self._split(self.select(tiny, self.multiply(x, self._c(x, 2.0**shift)), x))
        e = self.select(tiny, self.subtract(e, self._c(x, shift)), e)
        result = self._logarithm(self.subtract(m, self._c(x, 1.0)), e)
        return self._at_the_ends(x, x, result)

    @_on_floats
    def log1p(self, x: Val) -> Val:
        one = self._c(x, 1.0)
        u = self.add(one, x)
        m, e = self._split(u)
        # What the sum has lost, in the scale of m; where e is 0 this gives back x itself.
        lost = self.select(
            self.less(self.absolute(x), one),
            self.subtract(x, self.subtract(u, one)),
            self.subtract(one, self.subtract(u, x)),
        )
        # What is lost is at most 1: of a large sum it is nothing, whatever its exponent.
        bounded = self.select(self.less(e, self._c(x, 100.0)), e, self._c(x, 100.0))
        scale = self._power_of_two(
            self._integer("sub", self.number(0, _WORDS[x.dtype]), self._whole(bounded)), x.dtype
        )
        g = self.fma(lost, scale, self.subtract(m, one))
        result = self._at_the_ends(x, u, self._logarithm(g, e))
        small = self.less(self.absolute(x), self._c(x, float(np.finfo(x.dtype).eps) / 4))
        return self.select(small, x, result)

    # Circular functions

    def _quadrant(self, x: Val) -> tuple[Val, Val]:
        """r and n with x = r + n pi/2, |r| at most a little more than pi/4."""
        n = self.call("roundeven", x, self.multiply(x, self._c(x, 2 / math.pi)))
        r = x
        for part in fitted.HALF_PI:
            r = self.fma(n, self._c(x, -part), r)
        return r, n

    def _circular(self, x: Val, name: str, turned: int) -> Val:
        wide = self.convert(x, F64)  # float32 is reduced in float64, which has digits enough
        bounded = self.select(
            self.less(self.absolute(wide), self._c(wide, LARGEST_REDUCED)), wide, self._c(wide, 0.0)
        )
        r, n = self._quadrant(bounded)
        value = self.in_quadrant(self.convert(r, x.dtype), self._whole(n), turned)
        if not turned:  # a zero keeps its sign
            value = self.select(self.equal(x, self._c(x, 0.0)), x, value)
        large = self.unless(self.less(self.absolute(wide), self._c(wide, LARGEST_REDUCED)))
        return self._where_any(large, value, wide, large_lanes(self, name, turned, x.dtype))

    def in_quadrant(self, r: Val, quadrant: Val, turned: int) -> Val:
        """sin(r + (quadrant + turned) pi/2) for a reduced r."""
        quadrant = self._integer("add", quadrant, turned)
        z = self.multiply(r, r)
        sine = self.fma(self.multiply(r, z), self._polynomial(z, self._table(r, "SIN")), r)
        cosine = self.fma(
            self.multiply(z, z),
            self._polynomial(z, self._table(r, "COS")),
            self.fma(z, self._c(r, -0.5), self._c(r, 1.0)),
        )
        value = self.select(self._has_bit(quadrant, 1), cosine, sine)
        return self.select(self._has_bit(quadrant, 2), self.negative(value), value)

    def _has_bit(self, n: Val, bit: int) -> Val:
        return self.not_equal(self._integer("and", n, bit), self.number(0, n.dtype))

    def _where_any(self, mask: Val, value: Val, x: Val, function: str) -> Val:
        """`function(x, value)` if any lane asks for it: a branch that is rarely taken."""
        number = self.new_number()
        before, inner, after = (f"{word}{number}" for word in ("common", "rare", "joined"))
        kinds = [self.type(register_type(v.dtype)) for v in (x, value)]
        self.lines += [f"  br label %{before}", f"{before}:"]
        is_any = self._any(mask)
        self.lines += [f"  br i1 {is_any}, label %{inner}, label %{after}", f"{inner}:"]
        given = f"{kinds[0]} {x.text}, {kinds[1]} {value.text}"
        found = self.new(f"call {kinds[1]} @{function}({given})")
        self.lines += [f"  br label %{after}", f"{after}:"]
        text = self.new(f"phi {kinds[1]} [{value.text}, %{before}], [{found}, %{inner}]")
        return Val(text, value.dtype)

    def _any(self, mask: Val) -> str:
        if self.lanes == 1:
            return mask.text
        function = f"@llvm.vector.reduce.or.v{self.lanes}i1"
        self.declared.add(f"declare i1 {function}(<{self.lanes} x i1>)")
        return self.new(f"call i1 {function}(<{self.lanes} x i1> {mask.text})")

    @_on_floats
    def sin(self, x: Val) -> Val:
        return self._circular(x, "sin", 0)

    @_on_floats
    def cos(self, x: Val) -> Val:
        return self._circular(x, "cos", 1)

    # Powers

    @_on_floats
    def rsqrt(self, x: Val) -> Val:
        return self.divide(self._c(x, 1.0), self.sqrt(x))

    @_on_floats
    def one_minus_square(self, x: Val) -> Val:
        one = self._c(x, 1.0)
        return self.multiply(self.subtract(one, x), self.add(one, x))

    def integer_power(self, x: Val, n: int) -> Val:
        """Products of a few factors, which cannot overflow before the result does."""
        if not is_floating(x.dtype) or abs(n) > 4 or n == 0:
            raise NotNativeError("long powers are left to NumPy")
        base = x
        if n < 0:
            base = self.divide(self._c(x, 1.0), x)
        if abs(n) == 1:
            return base
        square = self.multiply(base, base)
        if abs(n) == 2:
            return square
        return self.multiply(square, base if abs(n) == 3 else square)

    def round(self, x: Val, decimals: int) -> Val:
        if decimals or not is_floating(x.dtype):
            raise NotNativeError("rounding to decimals is left to NumPy")
        return self.call("roundeven", x, x)

    def sign(self, x: Val) -> Val:
        zero = self.number(0, x.dtype)
        up = self.select(self.greater(x, zero), self.number(1, x.dtype), zero)
        if x.dtype.kind == "u":
            return up
        signed = self.select(self.less(x, zero), self.number(-1, x.dtype), up)
        return self.select(self.isnan(x), x, signed) if is_floating(x.dtype) else signed
