"""An operation of your own is one record, like the library's: then all of the library knows it."""

import numpy as np

import anabranch as ab
from anabranch.testing import check_op

bell = ab.elementwise(
    "bell",
    lambda x: np.exp(-np.square(x)),
    # One local derivative for each input, from the result y and the inputs.
    partials=(lambda y, x: -2 * x * y,),
    result="float",
    samples=(
        ab.at(0.0, value=1.0, grads=0.0),
        ab.at(1.0, value=np.exp(-1.0), grads=-2 * np.exp(-1.0)),
    ),
    doc="The bell curve exp(-x²).",
)


def area(x):
    """The area under the bell by the rectangle rule."""
    return (bell(x) * 0.5).sum()


x = np.arange(-4.0, 4.5, 0.5)

print("It is listed:")
print(ab.trace(area, x))

print("\nIt computes, eagerly and compiled:")
print(f"{area(x):.6f}  {ab.compile(area)(x):.6f}  (the square root of pi: {np.pi**0.5:.6f})")

print("\nIt has derivatives of any order:")
slope = ab.grad(bell)
print(f"at 1:  {bell(1.0):.4f}  {slope(1.0):.4f}  {ab.grad(slope)(1.0):.4f}")

print("\nIt is checked, as the library's own are:")
print(check_op(bell))
print(ab.check_gradients(area, x))
