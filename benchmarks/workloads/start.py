"""Small programs from the start of their process: importing, and the first gradient of z."""

from __future__ import annotations

from harness import Workload

IMPORT = "import of the package"
BEYOND = "import of the package after NumPy's"
COMPILED = "first gradient of z, compiled"
PLAIN = "first gradient of z, op by op"

MODULES = {
    "anabranch": "anabranch",
    "numpy": "numpy",
    "torch": "torch",
    "jax": "jax, jax.numpy",
    "autograd": "autograd, autograd.numpy",
    "micrograd": "micrograd.engine",
    "pytensor": "pytensor, pytensor.tensor",
    "casadi": "casadi",
    "tinygrad": "tinygrad",
}
F = "f = lambda x, y: (x * y + x) ** 2\n"
SAY = "print([float(v) for v in (z, *d)], flush=True)"
TENSORS = (
    "import torch\nx, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True)"
    " for v in (2.0, 3.0))\n"
)
PYTENSOR = (
    "import pytensor, pytensor.tensor as pt\nx, y = pt.dscalars('x', 'y')\nz = f(x, y)\n"
    "z, *d = pytensor.function([x, y], [z, *pytensor.grad(z, [x, y])])(2.0, 3.0)\n"
)
COMPILING = {
    "anabranch": "import anabranch as ab\n"
    "z, d = ab.compile(ab.value_and_grad(f, (0, 1)), backend='native')(2.0, 3.0)\n",
    "numpy": "import numpy\nx, y = 2.0, 3.0\nu = x * y + x\n"
    "z, d = u * u, (2 * u * (y + 1), 2 * u * x)\n",
    "torch_compile": TENSORS.replace(", requires_grad=True", "")
    + "d, z = torch.compile(torch.func.grad_and_value(f, (0, 1)), fullgraph=True)(x, y)\n",
    "jax": "import jax\nz, d = jax.jit(jax.value_and_grad(f, (0, 1)))(2.0, 3.0)\n",
    "pytensor": PYTENSOR,
    "pytensor_c": PYTENSOR,
    "casadi": "import casadi as ca\nx, y = ca.SX.sym('x'), ca.SX.sym('y')\nz = f(x, y)\n"
    "z, *d = ca.Function('f', [x, y], [z, ca.gradient(z, x), ca.gradient(z, y)])(2.0, 3.0)\n",
    "tinygrad": "from tinygrad import Tensor\nx, y = Tensor([2.0]), Tensor([3.0])\n"
    "z = f(x, y).sum()\nd = z.gradient(x, y)\nTensor.realize(z, *d)\n"
    "z, d = z.item(), [v.item() for v in d]\n",
}
RUNNING = {
    "anabranch": "import anabranch as ab\nz, d = ab.value_and_grad(f, (0, 1))(2.0, 3.0)\n",
    "torch": TENSORS + "z = f(x, y)\nd = torch.autograd.grad(z, (x, y))\n",
    "jax_eager": "import jax\nz, d = jax.value_and_grad(f, (0, 1))(2.0, 3.0)\n",
    "autograd": "import autograd\nz, d = autograd.value_and_grad(f, (0, 1))(2.0, 3.0)\n",
    "micrograd": "from micrograd.engine import Value\nx, y = Value(2.0), Value(3.0)\nz = f(x, y)\n"
    "z.backward()\nz, d = z.data, (x.grad, y.grad)\n",
}


def scripts(case: str) -> dict[str, str]:
    """The program of each peer."""
    if case == IMPORT:
        return {name: f"import {m}\nprint([], flush=True)" for name, m in MODULES.items()}
    if case == BEYOND:
        clock = "import time, numpy\nstart = time.perf_counter()\nimport {}\n"
        said = "print('{{\"seconds\": %r}}' % (time.perf_counter() - start), flush=True)"
        others = {name: m for name, m in MODULES.items() if name != "numpy"}
        others["anabranch"] += ", llvmlite.binding"  # which the first compile would import
        return {name: (clock + said).format(m) for name, m in others.items()}
    programs = COMPILING if case == COMPILED else RUNNING
    return {name: F + text + SAY for name, text in programs.items()}


WORKLOAD = Workload(
    "From process start: import, and the first gradient of z = (x·y + x)²",
    [IMPORT, BEYOND, COMPILED, PLAIN],
    unit="ms",
    kind="scripts",
    quick=(IMPORT, COMPILED),
    scripts=scripts,
    cold=(COMPILED,),
)
for _name in {**MODULES, **COMPILING, **RUNNING}:
    WORKLOAD.peer(_name)(lambda _: "a program of its own")
