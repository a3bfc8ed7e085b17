"""Straight-line code over vectors of some lanes, written as LLVM IR text.

Ops speak to an `Emitter` in their records: `scalar="add"` names one of its methods, a function
gets the emitter and the operands. The same body written for any number of lanes gives the same
bits, for every instruction here is exact or correctly rounded in each lane.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.backends.native.instructions import Instructions
from anabranch.core.dtype import BFLOAT16, DType, is_floating, is_half, promote

F16, F32, F64 = (np.dtype(f"float{bits}") for bits in (16, 32, 64))
I64, BOOL = np.dtype(np.int64), np.dtype(np.bool_)


class NotNativeError(Exception):
    """This cannot be written as machine code; the message says why, as a phrase."""


class Val(NamedTuple):
    """A value in registers: its IR name, its dtype, and whether it came from a Python number."""

    text: str
    dtype: DType
    weak: bool = False


def register_type(dtype: DType) -> str:
    """The IR type in which one element is computed; halves compute in float32."""
    if dtype == F64:
        return "double"
    if dtype == F32 or is_half(dtype):
        return "float"
    if dtype == BOOL:
        return "i1"
    if dtype.kind in "iu":
        return f"i{8 * dtype.itemsize}"
    raise NotNativeError(f"{dtype.name} has no machine code yet")


def memory_type(dtype: DType) -> str:
    """The IR type in which one element is stored."""
    if dtype == BOOL:
        return "i8"
    if dtype == F16:
        return "half"
    if dtype == BFLOAT16:
        return "i16"
    return register_type(dtype)


@functools.lru_cache(maxsize=64)
def register_bytes(dtype: DType) -> int:
    """The size of one element in registers; a bool is one bit of a mask."""
    return {"double": 8, "float": 4, "i1": 1}.get(register_type(dtype), dtype.itemsize)


class Emitter(Instructions):
    """Writes instructions on values that know their dtypes.

    Attributes:
        watched: products that are left as they are where a zero should absorb, for whoever looks
            whether they are NaN; None where a zero absorbs.
    """

    watched: list[str] | None = None

    def _made(self, like: Val, text: str) -> Val:
        return Val(self.new(text), like.dtype)

    def call(self, name: str, like: Val, *args: Val) -> Val:
        """An LLVM intrinsic on floats of one type."""
        element = register_type(like.dtype)
        kind = self.type(element)
        function = f"@llvm.{name}.{self.suffix(element)}"
        self.declared.add(f"declare {kind} {function}({', '.join([kind] * len(args))})")
        given = ", ".join(f"{kind} {arg.text}" for arg in args)
        return self._made(like, f"call {kind} {function}({given})")

    # Constants and conversions

    def one(self, value: Any, dtype: DType) -> str:
        """The text of a constant for one lane."""
        if is_floating(dtype):
            return _float_text(value, dtype)
        if dtype == BOOL:
            return "true" if value else "false"
        return str(int(value))

    def number(self, value: Any, dtype: DType) -> Val:
        """A constant."""
        return Val(self.splat(register_type(dtype), self.one(value, dtype)), dtype)

    def promoted(self, xs: Sequence[Val]) -> list[Val]:
        """The operands in the dtype that NumPy's promotion gives them."""
        dtype, _ = promote((x.dtype, x.weak) for x in xs)
        return [self.convert(x, dtype) for x in xs]

    def convert(self, x: Val, dtype: DType) -> Val:
        """The value in another dtype, as NumPy casts it."""
        if x.dtype == dtype:
            return Val(x.text, dtype)
        source, target = register_type(x.dtype), register_type(dtype)
        if is_floating(x.dtype) and is_floating(dtype):
            if source == target:
                text = x.text
            elif dtype == F16 and source == "double":
                text = self._odd_float(x)
            else:
                word = "fpext" if target == "double" else "fptrunc"
                text = self._cast(word, x.text, source, target)
            return self.rounded(Val(text, F64 if target == "double" else F32), dtype)
        if dtype == BOOL:
            zero = self.number(0, x.dtype)
            return self.not_equal(x, zero)
        if is_floating(dtype):
            word = "sitofp" if x.dtype.kind == "i" else "uitofp"
            text = self._cast(word, x.text, source, target)
            return self.rounded(Val(text, F64 if target == "double" else F32), dtype)
        if x.dtype.kind in "iub":
            if source == target:
                return Val(x.text, dtype)
            if dtype.itemsize < x.dtype.itemsize:
                word = "trunc"
            else:
                word = "sext" if x.dtype.kind == "i" else "zext"
            return Val(self._cast(word, x.text, source, target), dtype)
        return self._to_integer(x, dtype)

    def _odd_float(self, x: Val) -> str:
        """A float64 as the float32 from which a half is rounded once: not nearest, but odd.

        What a float32 cannot hold makes its last bit 1, so that no tie seems to be there.
        """
        near = self.convert(x, F32)
        back = self.convert(near, F64)
        kind, bits = self.type("i32"), self._cast("bitcast", near.text, "float", "i32")
        over = self.greater(self.absolute(back), self.absolute(x))
        less = self._cast("zext", over.text, "i1", "i32")
        lost = self.both(self.not_equal(back, x), self.equal(x, x))
        odd = self._cast("zext", lost.text, "i1", "i32")
        bits = self.new(f"or {kind} {self.new(f'sub {kind} {bits}, {less}')}, {odd}")
        return self._cast("bitcast", bits, "i32", "float")

    def _to_integer(self, x: Val, dtype: DType) -> Val:
        """A float without what stands behind the point.

        What the dtype cannot hold has no meaning, to NumPy neither; here, as on most processors,
        a wider integer's lowest number stands for it, or its last bits.
        """
        if dtype in (np.dtype(np.int64), np.dtype(np.uint32)):
            return self.convert(self._to_signed(x, I64), dtype)
        if dtype != np.dtype(np.uint64):
            return self.convert(self._to_signed(x, np.dtype(np.int32)), dtype)
        middle = self.number(2.0**63, x.dtype)
        high = self.greater_equal(x, middle)
        found = self._to_signed(self.select(high, self.subtract(x, middle), x), I64)
        moved = self.exclusive(found, self.number(-(2**63), I64))
        return Val(self.select(high, moved, found).text, dtype)

    def _to_signed(self, x: Val, dtype: DType) -> Val:
        x = Val(x.text, F64 if x.dtype == F64 else F32)
        low, high = float(np.iinfo(dtype).min), -float(np.iinfo(dtype).min)
        inside = self.both(
            self.greater_equal(x, self.number(low, x.dtype)),
            self.less(x, self.number(high, x.dtype)),
        )
        safe = self.select(inside, x, self.number(0, x.dtype))
        text = self._cast("fptosi", safe.text, register_type(x.dtype), register_type(dtype))
        return self.select(inside, Val(text, dtype), self.number(low, dtype))

    def rounded(self, x: Val, dtype: DType) -> Val:
        """A float32 value as a half would hold it; other dtypes hold what they compute."""
        if not is_half(dtype):
            return Val(x.text, dtype)
        if dtype == F16:
            narrow = self._cast("fptrunc", x.text, "float", "half")
            return Val(self._cast("fpext", narrow, "half", "float"), dtype)
        bits = self._bfloat_bits(x)
        wide = self._cast("zext", bits, "i16", "i32")
        kind = self.type("i32")
        shifted = self.new(f"shl {kind} {wide}, {self.splat('i32', '16')}")
        return Val(self._cast("bitcast", shifted, "i32", "float"), dtype)

    def _bfloat_bits(self, x: Val) -> str:
        """The upper half of a float32, rounded to nearest even; NaN stays NaN."""
        kind = self.type("i32")
        bits = self._cast("bitcast", x.text, "float", "i32")
        upper = self.new(f"lshr {kind} {bits}, {self.splat('i32', '16')}")
        odd = self.new(f"and {kind} {upper}, {self.splat('i32', '1')}")
        carry = self.new(f"add {kind} {odd}, {self.splat('i32', '32767')}")
        sum_ = self.new(f"add {kind} {bits}, {carry}")
        kept = self.new(f"lshr {kind} {sum_}, {self.splat('i32', '16')}")
        quiet = self.new(f"or {kind} {upper}, {self.splat('i32', '64')}")
        is_nan = self.isnan(Val(x.text, F32))
        chosen = self.new(f"select {self.type('i1')} {is_nan.text}, {kind} {quiet}, {kind} {kept}")
        return self._cast("trunc", chosen, "i32", "i16")

    def _cast(self, word: str, text: str, source: str, target: str) -> str:
        return self.new(f"{word} {self.type(source)} {text} to {self.type(target)}")

    # Memory

    def from_memory(self, text: str, dtype: DType) -> Val:
        """What was loaded as `memory_type`, in registers."""
        if dtype == BOOL:
            return Val(
                self.new(f"icmp ne {self.type('i8')} {text}, {self.splat('i8', '0')}"), dtype
            )
        if dtype == F16:
            return Val(self._cast("fpext", text, "half", "float"), dtype)
        if dtype == BFLOAT16:
            wide = self._cast("zext", text, "i16", "i32")
            shifted = self.new(f"shl {self.type('i32')} {wide}, {self.splat('i32', '16')}")
            return Val(self._cast("bitcast", shifted, "i32", "float"), dtype)
        return Val(text, dtype)

    def to_memory(self, x: Val) -> str:
        """The value as it is stored."""
        if x.dtype == BOOL:
            return self._cast("zext", x.text, "i1", "i8")
        if x.dtype == F16:
            return self._cast("fptrunc", x.text, "float", "half")
        if x.dtype == BFLOAT16:
            return self._bfloat_bits(x)
        return x.text

    # Arithmetic: operands of one dtype, result of the same

    def _arithmetic(self, words: tuple[str, str], x: Val, y: Val) -> Val:
        if x.dtype == BOOL:
            words = {"add": ("", "or"), "mul": ("", "and")}[words[1]]  # as NumPy has it
        word = words[not is_floating(x.dtype)]
        text = self.new(f"{word} {self.type(register_type(x.dtype))} {x.text}, {y.text}")
        return self._narrow(text, x.dtype)

    def _narrow(self, text: str, dtype: DType) -> Val:
        return self.rounded(Val(text, F32), dtype) if is_half(dtype) else Val(text, dtype)

    def add(self, x: Val, y: Val) -> Val:
        return self._arithmetic(("fadd", "add"), x, y)

    def subtract(self, x: Val, y: Val) -> Val:
        return self._arithmetic(("fsub", "sub"), x, y)

    def multiply(self, x: Val, y: Val) -> Val:
        return self._arithmetic(("fmul", "mul"), x, y)

    def divide(self, x: Val, y: Val) -> Val:
        if not is_floating(x.dtype):
            x, y = self.convert(x, F64), self.convert(y, F64)
        return self._arithmetic(("fdiv", ""), x, y)

    def negative(self, x: Val) -> Val:
        kind = self.type(register_type(x.dtype))
        if is_floating(x.dtype):
            return Val(self.new(f"fneg {kind} {x.text}"), x.dtype)
        zero = self.number(0, x.dtype)
        return self.subtract(zero, x)

    def absolute(self, x: Val) -> Val:
        if is_floating(x.dtype):
            return self.call("fabs", x, x)
        if x.dtype.kind in "ub":
            return x
        return self.select(self.less(x, self.number(0, x.dtype)), self.negative(x), x)

    def square(self, x: Val) -> Val:
        return self.multiply(x, x)

    def identity(self, x: Val) -> Val:
        return x

    # Comparing and choosing

    def _compare(self, floats: str, signed: str, unsigned: str, x: Val, y: Val) -> Val:
        if is_floating(x.dtype):
            return self.compared(f"fcmp {floats}", x, y)
        return self.compared(f"icmp {signed if x.dtype.kind == 'i' else unsigned}", x, y)

    def compared(self, instruction: str, x: Val, y: Val) -> Val:
        """One comparison, as LLVM names it."""
        kind = self.type(register_type(x.dtype))
        return Val(self.new(f"{instruction} {kind} {x.text}, {y.text}"), BOOL)

    def equal(self, x: Val, y: Val) -> Val:
        return self._compare("oeq", "eq", "eq", x, y)

    def not_equal(self, x: Val, y: Val) -> Val:
        return self._compare("une", "ne", "ne", x, y)

    def less(self, x: Val, y: Val) -> Val:
        return self._compare("olt", "slt", "ult", x, y)

    def less_equal(self, x: Val, y: Val) -> Val:
        return self._compare("ole", "sle", "ule", x, y)

    def greater(self, x: Val, y: Val) -> Val:
        return self._compare("ogt", "sgt", "ugt", x, y)

    def greater_equal(self, x: Val, y: Val) -> Val:
        return self._compare("oge", "sge", "uge", x, y)

    def isnan(self, x: Val) -> Val:
        if not is_floating(x.dtype):
            return self.number(False, BOOL)
        return self._compare("uno", "", "", x, x)

    def select(self, condition: Val, x: Val, y: Val) -> Val:
        kind = self.type(register_type(x.dtype))
        mask = self.type("i1")
        return self._made(x, f"select {mask} {condition.text}, {kind} {x.text}, {kind} {y.text}")

    def any_lane(self, mask: Val) -> str:
        """Whether the mask holds in one lane."""
        if self.lanes == 1:
            return mask.text
        function = f"@llvm.vector.reduce.or.v{self.lanes}i1"
        self.declared.add(f"declare i1 {function}(<{self.lanes} x i1>)")
        return self.new(f"call i1 {function}(<{self.lanes} x i1> {mask.text})")

    def where(self, condition: Val, x: Val, y: Val) -> Val:
        if condition.dtype != BOOL:
            raise NotNativeError("a condition that is no bool is refused by NumPy")
        return self.select(condition, *self.promoted([x, y]))

    def maximum(self, x: Val, y: Val) -> Val:
        return self.select(self.either(self.greater_equal(x, y), self.isnan(x)), x, y)

    def minimum(self, x: Val, y: Val) -> Val:
        return self.select(self.either(self.less_equal(x, y), self.isnan(x)), x, y)

    def absorb(self, ct: Val, p: Val) -> Val:
        """The product, but 0 where `ct` is exactly 0 and the product would be NaN."""
        return self._unpoisoned(self.multiply(ct, p), ct)

    def absorb_either(self, x: Val, y: Val) -> Val:
        return self._unpoisoned(self.multiply(x, y), x, y)

    def _unpoisoned(self, product: Val, *factors: Val) -> Val:
        """The product, but 0 where it is NaN and one of these factors is 0."""
        if not is_floating(product.dtype):
            return product
        if self.watched is not None:
            self.watched.append(product.text)
            return product
        saved, result = self._zero_or_itself(product), product
        for factor in factors:
            is_zero = self.equal(factor, self.number(0, factor.dtype))
            result = self.select(is_zero, saved, result)
        return result

    def _zero_or_itself(self, x: Val) -> Val:
        """x where it is +0 or -0, and +0 where it is NaN."""
        if self.lanes == 1:
            return self.select(self.isnan(x), self.number(0, x.dtype), x)
        # What is left of the sign if no other bit is set: processors compare fewer vectors at a
        # time than they can do this with.
        element = register_type(x.dtype)
        word = "i64" if element == "double" else "i32"
        kind, bits = self.type(word), self._cast("bitcast", x.text, element, word)
        others = self.new(f"add {kind} {bits}, {bits}")
        none = self.new(f"xor {kind} {others}, {self.splat(word, '-1')}")
        alone = self.new(f"and {kind} {bits}, {none}")
        sign = self.splat(word, str(-(2 ** (int(word[1:]) - 1))))
        found = self.new(f"and {kind} {alone}, {sign}")
        return Val(self._cast("bitcast", found, word, element), x.dtype)

    def _logic(self, word: str, x: Val, y: Val) -> Val:
        kind = self.type(register_type(x.dtype))
        return self._made(x, f"{word} {kind} {x.text}, {y.text}")

    def both(self, x: Val, y: Val) -> Val:
        return self._logic("and", x, y)

    def either(self, x: Val, y: Val) -> Val:
        return self._logic("or", x, y)

    def exclusive(self, x: Val, y: Val) -> Val:
        return self._logic("xor", x, y)

    def unless(self, x: Val) -> Val:
        return self._logic("xor", x, self.number(True, BOOL))


def _float_text(value: Any, dtype: DType) -> str:
    """A float constant in hexadecimal, exact: a float is written as the double of its value."""
    if type(value) is float and dtype == F64:
        held = value
    else:
        with np.errstate(all="ignore"):
            held = float(np.asarray(value).astype(dtype))
    return f"0x{struct.unpack('<Q', struct.pack('<d', held))[0]:016X}"
