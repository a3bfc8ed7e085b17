"""Circular functions of very large numbers, reduced by the binary digits of 2/pi.

After Payne and Hanek (1983).
x times 2/pi is needed modulo 4. Of x = m * 2**e only the digits of 2/pi from place e - 1 on matter
for that: those before give multiples of 4. With 256 of them the fraction keeps more than 130 good
digits however near it is to a whole number, since no float comes nearer than about 2**-61.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.backends.native import coefficients as fitted
from anabranch.backends.native.emit import F64, I64, Val, register_type
from anabranch.core.dtype import DType

if TYPE_CHECKING:
    from anabranch.backends.native.circular import Circular

# Digits of 2/pi, and the reduction: the quadrant, and r in two parts through the pointer.
_REDUCED = """define internal i64 @large_quadrant(double %x, ptr %r) noinline {{
  %bits = bitcast double %x to i64
  %field0 = lshr i64 %bits, 52
  %field = and i64 %field0, 2047
  %m0 = and i64 %bits, 4503599627370495
  %m = or i64 %m0, 4503599627370496
  %place = sub i64 %field, 1013
  %word = lshr i64 %place, 6
  %shift = and i64 %place, 63
{words}
  %wide = zext i64 %shift to i320
  %moved = shl i320 %w4, %wide
  %upper = lshr i320 %moved, 64
  %window = trunc i320 %upper to i256
  %factor = zext i64 %m to i256
  %product = mul i256 %window, %factor
  %top = lshr i256 %product, 254
  %whole = trunc i256 %top to i64
  %fraction = shl i256 %product, 2
  %up = icmp slt i256 %fraction, 0
  %one = zext i1 %up to i64
  %quadrant = add i64 %whole, %one
  %negated = sub i256 0, %fraction
  %size = select i1 %up, i256 %negated, i256 %fraction
  %zeros = call i256 @llvm.ctlz.i256(i256 %size, i1 false)
  %normal = shl i256 %size, %zeros
  %high0 = lshr i256 %normal, 203
  %high1 = trunc i256 %high0 to i64
  %high = uitofp i64 %high1 to double
  %low0 = lshr i256 %normal, 150
  %low1 = trunc i256 %low0 to i64
  %low2 = and i64 %low1, 9007199254740991
  %low3 = uitofp i64 %low2 to double
  %low = fmul double %low3, 0x3CA0000000000000
  %a = fmul double %high, {pi_low}
  %b = call double @llvm.fma.f64(double %low, double {pi_high}, double %a)
  %p = fmul double %high, {pi_high}
  %q = fneg double %p
  %e0 = call double @llvm.fma.f64(double %high, double {pi_high}, double %q)
  %e1 = fadd double %e0, %b
  %c = fadd double %p, %e1
  %e2 = fsub double %p, %c
  %e = fadd double %e2, %e1
  %zero = trunc i256 %zeros to i64
  %scale0 = sub i64 970, %zero
  %scale1 = shl i64 %scale0, 52
  %scale = bitcast i64 %scale1 to double
  %d = fmul double %c, %scale
  %minus = fneg double %d
  %signed = select i1 %up, double %minus, double %d
  store double %signed, ptr %r
  %f = fmul double %e, %scale
  %other = fneg double %f
  %rest = select i1 %up, double %other, double %f
  %behind = getelementptr double, ptr %r, i64 1
  store double %rest, ptr %behind
  ret i64 %quadrant
}}"""


def _declared(e: Circular) -> None:
    """The digits and the reduction, once in the module."""
    digits = ", ".join(f"i64 {word}" for word in fitted.TWO_OVER_PI)
    count = len(fitted.TWO_OVER_PI)
    e.declared.add(f"@two_over_pi = internal constant [{count} x i64] [{digits}]")
    e.declared.add("declare double @llvm.fma.f64(double, double, double)")
    e.declared.add("declare i256 @llvm.ctlz.i256(i256, i1)")
    words = []
    for i in range(5):  # the first word is the most significant
        words += [
            f"  %i{i} = add i64 %word, {i}",
            f"  %q{i} = getelementptr i64, ptr @two_over_pi, i64 %i{i}",
            f"  %l{i} = load i64, ptr %q{i}",
            f"  %z{i} = zext i64 %l{i} to i320",
        ]
        if i == 0:
            words.append("  %w0 = or i320 %z0, 0")
        else:
            words.append(f"  %u{i} = shl i320 %w{i - 1}, 64")
            words.append(f"  %w{i} = or i320 %u{i}, %z{i}")
    high, low = (e.number(part, F64).text.split()[-1].rstrip(")") for part in fitted.HALF_PI[:2])
    e.declared.add(_REDUCED.format(words="\n".join(words), pi_high=high, pi_low=low))


def _one_large(e: Circular, name: str) -> str:
    """A function of the module: sine, cosine or tangent of one number of at least 2**45."""
    one = e.narrowed(1)
    size = one.absolute(Val("%x", F64))
    text = one.once("alloca double, i64 2")
    quadrant = one.once(f"call i64 @large_quadrant(double {size.text}, ptr {text})")
    behind = one.new(f"getelementptr double, ptr {text}, i64 1")
    r = tuple(Val(one.once(f"load double, ptr {place}"), F64) for place in (text, behind))
    value = one.in_quadrant(name, (r[0], r[1]), Val(quadrant, I64))
    if name != "cos":  # the others are odd
        negative = one.less(Val("%x", F64), one.number(0.0, F64))
        value = one.select(negative, one.negative(value), value)
    rest = one.subtract(Val("%x", F64), Val("%x", F64))  # NaN for an infinity
    finite = one.less(size, one.number(float("inf"), F64))
    value = one.select(finite, value, rest)
    function = f"large_{name}"
    lines = [f"define internal double @{function}(double %x) noinline {{", *one.lines]
    e.declared.add("\n".join([*lines, f"  ret double {value.text}", "}"]))
    return function


def large_lanes(e: Circular, name: str, dtype: DType) -> str:
    """A function of the module that replaces what the large lanes of a vector have."""
    _declared(e)
    large = _one_large(e, name)
    element = register_type(dtype)
    wide, narrow = e.type("double"), e.type(element)
    function = f"large_{name}_{e.lanes}_{element}"
    lines = [f"define internal {narrow} @{function}({wide} %x, {narrow} %y) noinline {{", "start:"]
    held = "%y"
    for lane in range(e.lanes):
        one, result = f"%x{lane}", f"%r{lane}"
        if e.lanes == 1:
            lines.append(f"  {one} = fadd double %x, -0.0")
        else:
            lines.append(f"  {one} = extractelement {wide} %x, i32 {lane}")
        lines += [
            f"  %a{lane} = call double @llvm.fabs.f64(double {one})",
            f"  %c{lane} = fcmp olt double %a{lane}, 0x42C0000000000000",  # 2**45
            f"  br label %b{lane}",
            f"b{lane}:",
            f"  br i1 %c{lane}, label %n{lane}, label %d{lane}",
            f"d{lane}:",
            f"  {result} = call double @{large}(double {one})",
        ]
        if element != "double":
            lines.append(f"  %s{lane} = fptrunc double {result} to float")
            result = f"%s{lane}"
        if e.lanes > 1:
            given = f"{narrow} {held}, {element} {result}, i32 {lane}"
            lines.append(f"  %i{lane} = insertelement {given}")
            result = f"%i{lane}"
        lines += [f"  br label %n{lane}", f"n{lane}:"]
        lines.append(f"  %h{lane} = phi {narrow} [{held}, %b{lane}], [{result}, %d{lane}]")
        held = f"%h{lane}"
    e.declared.add("declare double @llvm.fabs.f64(double)")
    e.declared.add("\n".join([*lines, f"  ret {narrow} {held}", "}"]))
    return function
