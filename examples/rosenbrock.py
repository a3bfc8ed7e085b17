"""Rosenbrock's valley by scipy.optimize, with gradient and Hessian products from a compiled graph.

Needs scipy: `pip install scipy`.
"""

import numpy as np
from scipy.optimize import minimize

import anabranch as ab


def rosenbrock(x):
    """The sum of 100 (x[i+1] - x[i]²)² + (1 - x[i])²: its least value is 0, at ones."""
    head, tail = x[:-1], x[1:]
    return (100.0 * (tail - head**2) ** 2 + (1.0 - head) ** 2).sum()


value_and_gradient = ab.compile(ab.value_and_grad(rosenbrock))


@ab.compile
def hessian_times(x, direction):
    """Forward over reverse: the derivative of the gradient along a direction."""
    return ab.jvp(ab.grad(rosenbrock), (x,), (direction,))[1]


start = np.tile([-1.2, 1.0], 5)
print(ab.check_gradients(rosenbrock, start))

found = minimize(value_and_gradient, start, jac=True, hessp=hessian_times, method="trust-ncg")
print(f"\n{found.message} {found.nit} steps, {found.nfev} values, {found.nhev} Hessian products")
print("x =", np.array2string(found.x, precision=6, suppress_small=True))
print(f"largest distance from the minimum: {np.abs(found.x - 1.0).max():.1e}")
