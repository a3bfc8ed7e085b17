"""Steps, remainders, bits and signs: exact functions, of floats and of integers."""

from __future__ import annotations

import math

import numpy as np

from anabranch.backends.native.emit import (
    F16,
    F64,
    I64,
    NotNativeError,
    Val,
    memory_type,
)
from anabranch.backends.native.functions import WORDS, Functions, on_floats
from anabranch.core.dtype import is_floating, is_half

_I16, _U64 = np.dtype(np.int16), np.dtype(np.uint64)
_MIRRORED = {
    "less": "greater",
    "greater": "less",
    "less_equal": "greater_equal",
    "greater_equal": "less_equal",
}
_EXACT_TENS = 22  # larger powers of ten are no floats


class Rounding(Functions):
    """Functions whose results are exact, or rounded once."""

    def round(self, x: Val, decimals: int) -> Val:
        if not is_floating(x.dtype):
            return self._round_integer(x, decimals)
        return self._round_float(x, decimals=decimals)

    @on_floats
    def _round_float(self, x: Val, *, decimals: int) -> Val:
        if abs(decimals) > _EXACT_TENS:
            raise NotNativeError("rounding to so many decimals is left to NumPy")
        if not decimals:
            return self.call("roundeven", x, x)
        ten = self._c(x, 10.0 ** abs(decimals))
        ways = (self.multiply, self.divide) if decimals > 0 else (self.divide, self.multiply)
        moved = ways[0](x, ten)
        return ways[1](self.call("roundeven", x, moved), ten)

    def _round_integer(self, x: Val, decimals: int) -> Val:
        if decimals >= 0:
            return x
        return self.convert(self._round_float(self.convert(x, F64), decimals=decimals), x.dtype)

    def sign(self, x: Val) -> Val:
        zero = self.number(0, x.dtype)
        up = self.select(self.greater(x, zero), self.number(1, x.dtype), zero)
        if x.dtype.kind == "u":
            return up
        signed = self.select(self.less(x, zero), self.number(-1, x.dtype), up)
        return self.select(self.isnan(x), x, signed) if is_floating(x.dtype) else signed

    @on_floats
    def heaviside(self, x: Val, y: Val) -> Val:
        nothing = self._c(x, 0.0)
        return self.first_of(
            (self.isnan(x), x),
            (self.equal(x, nothing), y),
            (self.less(x, nothing), nothing),
            otherwise=self._c(x, 1.0),
        )

    # Comparing

    def compare(self, name: str, x: Val, y: Val) -> Val:
        """A comparison by its name, of integers of all dtypes exactly."""
        kinds = x.dtype.kind + y.dtype.kind
        if not set(kinds) <= set("iu"):
            x, y = self.promoted([x, y])
            return getattr(self, name)(x, y)  # type: ignore[no-any-return]
        common = np.result_type(x.dtype, y.dtype)  # a Python number may lie outside of the array's
        if common.kind in "iu":
            return getattr(self, name)(*(self.convert(v, common) for v in (x, y)))  # type: ignore[no-any-return]
        if kinds == "ui":
            return self.compare(_MIRRORED.get(name, name), y, x)
        below = self.less(x, self.number(0, x.dtype))
        wide = [self.convert(self.convert(x, I64), _U64), self.convert(y, _U64)]
        found: Val = getattr(self, name)(*wide)
        if name in ("less", "less_equal", "not_equal"):
            return self.either(below, found)
        return self.both(self.unless(below), found)

    # Neighbours

    def nextafter(self, x: Val, y: Val) -> Val:
        x, y = self.floats([x, y])
        is_same = self.equal(x, y)
        if is_half(x.dtype):
            found = self.from_memory(self._next_bits(x, y, self._half_bits(x)).text, x.dtype)
        else:
            found = self.from_bits(self._next_bits(x, y, self.bits(x)), x.dtype)
        found = self.select(is_same, y, found)  # which matters for zeros
        lost = self.either(self.isnan(x), self.isnan(y))
        return self.select(lost, self._c(x, math.nan), found)

    def _half_bits(self, x: Val) -> Val:
        text = self.to_memory(x)
        if x.dtype == F16:
            text = self._cast("bitcast", text, "half", "i16")
        return Val(text, _I16)

    def _next_bits(self, x: Val, y: Val, bits: Val) -> Val:
        """The bits of the neighbour; of a zero, those of the smallest number with y's sign."""
        nothing = self.number(0, bits.dtype)
        grows = self.equal_truth(self.less(x, y), self.greater_equal(bits, nothing))
        step = self.select(grows, self.number(1, bits.dtype), self.number(-1, bits.dtype))
        lowest = int(np.iinfo(bits.dtype).min) + 1
        tiny = self.select(
            self.less(y, self._c(y, 0.0)),
            self.number(lowest, bits.dtype),
            self.number(1, bits.dtype),
        )
        moved = self.select(self.equal(x, self._c(x, 0.0)), tiny, self.integer("add", bits, step))
        if x.dtype == F16:  # in memory a half has a type of its own
            return Val(self._cast("bitcast", moved.text, "i16", memory_type(F16)), moved.dtype)
        return moved

    def equal_truth(self, x: Val, y: Val) -> Val:
        """Whether two bools are the same."""
        return self.unless(self.exclusive(x, y))

    # Remainders

    def fmod(self, x: Val, y: Val) -> Val:
        if not is_floating(x.dtype):
            return self._integer_rest("rem", x, y)
        return self._float_rest(x, y, name="fmod")

    def remainder(self, x: Val, y: Val) -> Val:
        if is_floating(x.dtype):
            return self._float_rest(x, y, name="remainder")
        rest = self._integer_rest("rem", x, y)
        return self.select(self._is_astray(rest, y), self.add(rest, y), rest)

    def floor_divide(self, x: Val, y: Val) -> Val:
        if is_floating(x.dtype):
            return self._float_rest(x, y, name="floor_divide")
        quotient = self._integer_rest("div", x, y)
        if x.dtype.kind == "u":
            return quotient
        astray = self._is_astray(self._integer_rest("rem", x, y), y)
        return self.select(astray, self.subtract(quotient, self.number(1, x.dtype)), quotient)

    def _is_astray(self, rest: Val, y: Val) -> Val:
        """Whether the rest of a division is none and has not the sign of y."""
        nothing = self.number(0, rest.dtype)
        signs = self.exclusive(self.less(rest, nothing), self.less(y, nothing))
        some = self.both(self.not_equal(rest, nothing), self.not_equal(y, nothing))
        return self.both(some, signs)

    def _integer_rest(self, word: str, x: Val, y: Val) -> Val:
        """Quotient or rest of integers, rounded towards 0; by 0 both are 0."""
        if x.dtype.kind not in "iu":
            raise NotNativeError("bools are divided by NumPy")
        nothing, one = self.number(0, x.dtype), self.number(1, x.dtype)
        by_zero = self.equal(y, nothing)
        safe = self.select(by_zero, one, y)
        if x.dtype.kind == "i":  # the lowest number by -1 has no quotient
            by_minus = self.equal(y, self.number(-1, x.dtype))
            safe = self.select(by_minus, one, safe)
        found = self.integer(f"{'s' if x.dtype.kind == 'i' else 'u'}{word}", x, safe)
        if word == "div" and x.dtype.kind == "i":
            found = self.select(by_minus, self.negative(x), found)
        return self.select(by_zero, nothing, found)

    @on_floats
    def _float_rest(self, x: Val, y: Val, *, name: str) -> Val:
        rest = self._float_fmod(x, y)
        if name == "fmod":
            return rest
        nothing = self._c(x, 0.0)
        astray = self._is_astray(rest, y)
        if name == "remainder":
            result = self.select(astray, self.add(rest, y), rest)
            is_none = self.equal(rest, nothing)
            return self.select(is_none, self.copysign(nothing, y), result)
        quotient = self.divide(self.subtract(x, rest), y)
        quotient = self.select(astray, self.subtract(quotient, self._c(x, 1.0)), quotient)
        whole = self.call("floor", x, quotient)
        over = self.greater(self.subtract(quotient, whole), self._c(x, 0.5))
        whole = self.select(over, self.add(whole, self._c(x, 1.0)), whole)
        plain = self.divide(x, y)
        is_none = self.equal(quotient, nothing)
        whole = self.select(is_none, self.copysign(nothing, plain), whole)
        return self.select(self.equal(y, nothing), plain, whole)

    def _float_fmod(self, x: Val, y: Val) -> Val:
        """x - y * trunc(x / y) without error, by as many steps as the quotient has places for.

        A correctly rounded quotient times y differs from x by a number that is a float, so each
        step is exact; y grows by powers of two, for the quotient to be finite.
        """
        a, b = self.absolute(x), self.absolute(y)
        inf, nothing = self._c(x, math.inf), self._c(x, 0.0)
        legal = self.both(self.less(a, inf), self.greater(b, nothing))
        start = self.select(legal, a, nothing)
        safe = self.select(self.both(legal, self.less(b, inf)), b, inf)

        def goes_on(state: list[Val]) -> Val:
            return self.greater_equal(self.absolute(state[0]), safe)

        def step(state: list[Val]) -> list[Val]:
            larger = self._enlarged(safe, self.absolute(state[0]))
            quotient = self.call("trunc", x, self.divide(state[0], larger))
            less = self.fma(self.negative(quotient), larger, state[0])
            return [self.select(goes_on(state), less, state[0])]

        rest = self.while_any([start], goes_on, step)[0]
        rest = self.select(self.less(rest, nothing), self.add(rest, b), rest)
        found = self.select(legal, self.copysign(rest, x), self._c(x, math.nan))
        return self.select(self.isnan(y), y, found)

    def _enlarged(self, y: Val, x: Val) -> Val:
        """y times a power of two, such that x / y is no more than about 2**50, or 2**21."""
        shift, digits = (52, 50) if x.dtype == F64 else (23, 21)
        one = self.number(1, WORDS[x.dtype])
        places = [self.integer("lshr", self.bits(v), shift) for v in (x, y)]
        places = [self.select(self.less(p, one), one, p) for p in places]
        more = self.integer("sub", self.integer("sub", *places), digits)
        more = self.select(self.less(more, one), self.number(0, one.dtype), more)
        first = self.integer("ashr", more, 1)
        for part in (first, self.integer("sub", more, first)):
            y = self.multiply(y, self.power_of_two(part, x.dtype))
        return y

    # Bits

    def left_shift(self, x: Val, y: Val) -> Val:
        nothing = self.number(0, x.dtype)
        inside, places = self._places(y)
        return self.select(inside, self.integer("shl", x, places), nothing)

    def right_shift(self, x: Val, y: Val) -> Val:
        inside, places = self._places(y)
        if x.dtype.kind == "u":
            return self.select(inside, self.integer("lshr", x, places), self.number(0, x.dtype))
        last = self.number(8 * x.dtype.itemsize - 1, x.dtype)
        return self.integer("ashr", x, self.select(inside, places, last))

    def _places(self, y: Val) -> tuple[Val, Val]:
        """Whether a shift is by fewer places than there are, and by how many then."""
        width = self.number(8 * y.dtype.itemsize, y.dtype)
        inside = self.compared("icmp ult", y, width)
        return inside, self.select(inside, y, self.number(0, y.dtype))
