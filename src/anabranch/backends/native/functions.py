"""What functions are written with: constants, bits, polynomials, and numbers in two parts.

A number in two parts is the sum of a float and of a second one that is at most half a unit in the
last place of the first: about twice as many digits.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anabranch.backends.native import coefficients as fitted
from anabranch.backends.native.emit import F32, F64, Emitter, Val, register_type
from anabranch.core.dtype import DType, is_floating, is_half
from anabranch.core.op import float_for

WORDS: dict[DType, DType] = {F64: np.dtype(np.int64), F32: np.dtype(np.int32)}
Parts = tuple[Val, Val]
Method = Callable[..., Val]
_LETTERS = str.maketrans({"-": "m", ",": "c", "(": "b", ")": "e", " ": ""})  # in names of functions
SHORT = 24  # instructions of a function that is never called


def on_floats(function: Method) -> Method:
    """A function of float64 or float32 as one of every dtype that NumPy gives a float for.

    Halves are computed as float32 and rounded once.
    """

    def applied(e: Any, *xs: Val, **attrs: Any) -> Val:
        wide = e.floats(xs)
        dtype = wide[0].dtype
        if not is_half(dtype):
            return e.applied(function, wide, attrs)  # type: ignore[no-any-return]
        found = e.applied(function, [Val(x.text, F32) for x in wide], attrs)
        return e.rounded(found, dtype)  # type: ignore[no-any-return]

    return applied


def in_float64(function: Method) -> Method:
    """A function that is worked out in float64 and rounded once more: for what is rarely met."""

    @functools.wraps(function)
    def applied(e: Any, *xs: Val, **attrs: Any) -> Val:
        wide = [e.convert(x, F64) for x in xs]
        return e.convert(function(e, *wide, **attrs), xs[0].dtype)  # type: ignore[no-any-return]

    return on_floats(applied)


@dataclass(frozen=True)
class Body:
    """A function of the module.

    Attributes:
        name: what it is called.
        dtype: of its value.
        length: how many instructions it has.
        needs: what the module must hold, itself included.
    """

    name: str
    dtype: DType
    length: int
    needs: frozenset[str]


@functools.lru_cache(maxsize=1024)
def body_of(
    kind: Any,
    function: Any,
    lanes: int,
    dtypes: tuple[DType, ...],
    attrs: tuple[tuple[str, Any], ...],
) -> Body:
    """A function of vectors, written out."""
    needs: set[str] = set()
    e = kind(lanes, itertools.count(), needs)
    e.is_inside = True
    xs = [Val(f"%x{i}", dtype) for i, dtype in enumerate(dtypes)]
    value = function(e, *xs, **dict(attrs))
    words = [function.__name__.strip("_"), *(str(part) for _, part in attrs), str(lanes)]
    name = "_".join([*words, *(dtype.name for dtype in dtypes)]).translate(_LETTERS)
    result = e.type(register_type(value.dtype))
    given = ", ".join(f"{e.type(register_type(x.dtype))} {x.text}" for x in xs)
    head = f"define internal {result} @{name}({given}) noinline {{"
    needs.add("\n".join([head, "start:", *e.lines, f"  ret {result} {value.text}", "}"]))
    return Body(name, value.dtype, len(e.lines), frozenset(needs))


class Functions(Emitter):
    """An emitter with the tools for functions."""

    is_inside = False  # of the body of a function
    longest = 600  # instructions of a loop behind which functions are called

    def applied(self, function: Method, xs: Sequence[Val], attrs: dict[str, Any]) -> Val:
        """A function's value; in a long body as a call of what stands once in the module.

        A call costs a sixth of the time of short functions, but the time to compile a loop grows
        faster than its length.
        """
        if not self.is_inside:
            kind: Any = type(self)
            dtypes = tuple(x.dtype for x in xs)
            body = body_of(kind, function, self.lanes, dtypes, tuple(sorted(attrs.items())))
            if len(self.lines) + body.length > self.longest and body.length > SHORT:
                return self._called(body, xs)
        return function(self, *xs, **attrs)

    def _called(self, body: Body, xs: Sequence[Val]) -> Val:
        self.declared |= body.needs
        given = ", ".join(f"{self.type(register_type(x.dtype))} {x.text}" for x in xs)
        kind = self.type(register_type(body.dtype))
        return Val(self.new(f"call {kind} @{body.name}({given})"), body.dtype)

    def floats(self, xs: Sequence[Val]) -> list[Val]:
        """The operands as floats of one dtype, as NumPy's functions of floats take them."""
        xs = self.promoted(xs)
        if not is_floating(xs[0].dtype):
            xs = [self.convert(x, F64 if x.weak else float_for(x.dtype)) for x in xs]
        return list(xs)

    def _c(self, x: Val, value: float) -> Val:
        return self.number(value, x.dtype)

    def fma(self, x: Val, y: Val, z: Val) -> Val:
        return self.call("fma", x, x, y, z)

    @on_floats
    def copysign(self, x: Val, like: Val) -> Val:
        return self.call("copysign", x, x, like)

    @on_floats
    def sqrt(self, x: Val) -> Val:
        return self.call("sqrt", x, x)

    def polynomial(self, x: Val, given: Sequence[float]) -> Val:
        """Pairs of neighbouring terms, then Horner in x*x: shorter chains than Horner alone."""
        return self._paired(x, [self._c(x, c) for c in given])

    def _paired(self, x: Val, cs: Sequence[Val]) -> Val:
        square = self.multiply(x, x)
        pairs = [
            self.fma(cs[i + 1], x, cs[i]) if i + 1 < len(cs) else cs[i]
            for i in range(0, len(cs), 2)
        ]
        result = pairs[-1]
        for pair in reversed(pairs[:-1]):
            result = self.fma(result, square, pair)
        return result

    def horner(self, x: Val, given: Sequence[float]) -> Val:
        """The fewest instructions, one after the other: for short ones."""
        result = self._c(x, given[-1])
        for c in reversed(given[:-1]):
            result = self.fma(result, x, self._c(x, c))
        return result

    def table(self, x: Val, name: str) -> Any:
        """The fitted numbers of this name for the dtype of x."""
        found: Any = getattr(fitted, f"{name}_{8 * x.dtype.itemsize}")
        return found

    def clamped(self, x: Val, low: float, high: float) -> Val:
        """Inside the bounds; NaN stays."""
        return self.at_most(self.at_least(x, low), high)

    def at_least(self, x: Val, low: float) -> Val:
        """Not below the bound; NaN stays."""
        return self.select(self.less(x, self._c(x, low)), self._c(x, low), x)

    def at_most(self, x: Val, high: float) -> Val:
        """Not above the bound; NaN stays."""
        return self.select(self.greater(x, self._c(x, high)), self._c(x, high), x)

    def first_of(self, *cases: tuple[Val, Val], otherwise: Val) -> Val:
        """The value of the first case whose mask holds."""
        for mask, value in reversed(cases):
            otherwise = self.select(mask, value, otherwise)
        return otherwise

    def below(self, x: Val, bound: float) -> Val:
        return self.less(x, self._c(x, bound))

    # Bits

    def bits(self, x: Val) -> Val:
        """The bits of a float as an integer of its size."""
        word = WORDS[x.dtype]
        return Val(self._cast("bitcast", x.text, register_type(x.dtype), register_type(word)), word)

    def from_bits(self, x: Val, dtype: DType) -> Val:
        text = self._cast("bitcast", x.text, register_type(x.dtype), register_type(dtype))
        return Val(text, dtype)

    def whole(self, x: Val) -> Val:
        """A float without fraction as an integer of its size."""
        word = WORDS[x.dtype]
        return Val(self._cast("fptosi", x.text, register_type(x.dtype), register_type(word)), word)

    def integer(self, word: str, x: Val, y: Val | int) -> Val:
        """One instruction on integers."""
        other = self.number(y, x.dtype) if isinstance(y, int) else y
        return Val(
            self.new(f"{word} {self.type(register_type(x.dtype))} {x.text}, {other.text}"), x.dtype
        )

    def has_bit(self, n: Val, bit: int) -> Val:
        return self.not_equal(self.integer("and", n, bit), self.number(0, n.dtype))

    def is_signed(self, x: Val) -> Val:
        """Whether the sign bit is set: of -0 and of some NaN, too."""
        bits = self.bits(x)
        return self.less(bits, self.number(0, bits.dtype))

    def power_of_two(self, n: Val, dtype: DType) -> Val:
        """2**n for an integer in the range of exponents of normal numbers."""
        bias, shift = (1023, 52) if dtype == F64 else (127, 23)
        return self.from_bits(self.integer("shl", self.integer("add", n, bias), shift), dtype)

    def scaled(self, x: Val, n: Val) -> Val:
        """x * 2**n for a float n without fraction: in two steps, for each power to be a number."""
        whole = self.whole(n)
        first = self.integer("ashr", whole, 1)
        for part in (first, self.integer("sub", whole, first)):
            x = self.multiply(x, self.power_of_two(part, x.dtype))
        return x

    # Numbers in two parts

    def sum_parts(self, x: Val, y: Val) -> Parts:
        """x + y without error, |x| at least |y| or x zero."""
        total = self.add(x, y)
        return total, self.add(self.subtract(x, total), y)

    def any_sum_parts(self, x: Val, y: Val) -> Parts:
        """x + y without error, whatever their sizes (Knuth)."""
        total = self.add(x, y)
        part = self.subtract(total, x)
        rest = self.subtract(x, self.subtract(total, part))
        return total, self.add(rest, self.subtract(y, part))

    def product_parts(self, x: Val, y: Val) -> Parts:
        """x * y without error."""
        product = self.multiply(x, y)
        return product, self.fma(x, y, self.negative(product))

    def times_parts(self, x: Parts, y: tuple[float, float]) -> Parts:
        """A number in two parts times a constant in two parts."""
        high, low = (self._c(x[0], part) for part in y)
        product, rest = self.product_parts(x[0], high)
        return product, self.fma(x[0], low, self.fma(x[1], high, rest))

    # Tables

    def gathered(self, name: str, rows: list[list[float]], row: Val) -> list[Val]:
        """The numbers of each lane's row, from a table of float64 that the module holds."""
        count, length = len(rows), len(rows[0])
        numbers = ", ".join(f"double {self.one(c, F64)}" for line in rows for c in line)
        size = count * length
        self.declared.add(f"@table_{name} = internal constant [{size} x double] [{numbers}]")
        start = self.integer("mul", row, length)
        found = []
        for column in range(length):
            place = self.integer("add", start, column)
            pointer = self.new(
                f"getelementptr double, ptr @table_{name}, {self.type('i64')} {place.text}"
            )
            found.append(Val(self.load_each("double", 8, pointer), F64))
        return found

    # Branches and loops

    def where_any(self, mask: Val, value: Val, function: str, *xs: Val) -> Val:
        """`function(*xs, value)` if any lane asks for it: a branch that is rarely taken."""
        number = self.new_number()
        before, inner, after = (f"{word}{number}" for word in ("common", "rare", "joined"))
        given = ", ".join(f"{self.type(register_type(x.dtype))} {x.text}" for x in (*xs, value))
        kind = self.type(register_type(value.dtype))
        self.lines += [f"  br label %{before}", f"{before}:"]
        is_any = self.any_lane(mask)
        self.lines += [f"  br i1 {is_any}, label %{inner}, label %{after}", f"{inner}:"]
        found = self.once(f"call {kind} @{function}({given})")
        self.lines += [f"  br label %{after}", f"{after}:"]
        text = self.once(f"phi {kind} [{value.text}, %{before}], [{found}, %{inner}]")
        return Val(text, value.dtype)

    def while_any(
        self,
        state: list[Val],
        goes_on: Callable[[list[Val]], Val],
        step: Callable[[list[Val]], list[Val]],
    ) -> list[Val]:
        """The state after as many steps as the slowest lane asks for.

        A step must leave as they are the lanes that ask for none.
        """
        number = self.new_number()
        before, head, body, done = (f"{word}{number}" for word in ("start", "head", "body", "done"))
        self.lines += [f"  br label %{before}", f"{before}:", f"  br label %{head}", f"{head}:"]
        place = len(self.lines)
        held = [Val(f"%v{self.new_number()}", x.dtype) for x in state]
        self.lines.append(f"  br i1 {self.any_lane(goes_on(held))}, label %{body}, label %{done}")
        self.lines.append(f"{body}:")
        outside = dict(self.known) if self.known is not None else None
        following = step(held)
        self.known = outside  # what a step has is not known behind the loop
        self.lines += [f"  br label %{head}", f"{done}:"]
        self.lines[place:place] = [
            f"  {x.text} = phi {self.type(register_type(x.dtype))} "
            f"[{first.text}, %{before}], [{last.text}, %{body}]"
            for x, first, last in zip(held, state, following, strict=True)
        ]
        return held
