"""The engine from scratch: what anabranch is underneath, for numbers, in one short file.

Run it: `python docs/from_scratch.py`. It is written to be read from top to bottom, uses nothing but
Python, and calls things as the library does. What the library adds is arrays, many more ops, good
errors, speed and pictures; the ideas are all here:

    op       what one operation computes, and its local derivatives
    node     one use of an op: relations, never values
    bind     the one door through which every operation goes
    reverse  one walk that differentiates whatever values it is given
"""

# ruff: noqa: E731, PLW0108  (one-line functions read best here)

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

# An op is a record. For y = op(x0, x1, ...) it holds one partial derivative for each input. They
# are written with ops themselves, so that a derivative can be differentiated again.


@dataclass(frozen=True)
class Op:
    name: str
    ref: Callable  # from numbers to a number
    partials: tuple  # for each input, (y, *xs) -> dy/dx

    def __call__(self, *args):
        return bind(self, *args)


# Two kinds of values know where they come from: a tensor has a number, a node of a graph has none
# yet. Arithmetic on either of them is `bind`.


class Value:
    __add__ = lambda self, other: add(self, other)
    __radd__ = lambda self, other: add(other, self)
    __mul__ = lambda self, other: multiply(self, other)
    __rmul__ = lambda self, other: multiply(other, self)
    __neg__ = lambda self: negative(self)
    __sub__ = lambda self, other: add(self, negative(other))
    __rsub__ = lambda self, other: add(other, negative(self))
    __truediv__ = lambda self, other: divide(self, other)
    __rtruediv__ = lambda self, other: divide(other, self)


class Node(Value):
    """One use of an op. `inputs` are nodes, tensors, or plain numbers (literals).

    Ids rise as nodes are made, so every input has a smaller id than its reader: sorting by id puts
    a program in order, and no walk ever has to recurse.
    """

    def __init__(self, op, inputs, number, graph=None, name=None):
        self.op, self.inputs, self.id, self.graph, self.name = op, inputs, number, graph, name
        self.node = self


class Tensor(Value):
    """A number that remembers the node that made it; that node owns its input tensors.

    So a program lives exactly as long as somebody holds its result.
    """

    def __init__(self, value, node=None):
        self.value = value
        self.node = node or Node(PARAMETER, (), next(ids))
        self.grad = None  # None is "nothing has arrived", which is not zero

    def backward(self):
        """Add the derivative of this tensor into `.grad` of every tensor it came from."""
        cts = reverse(steps(self, recorded=False), {self.node.id: 1.0})
        for tensor in ancestors(self):
            if tensor.node.id in cts:
                tensor.grad = (tensor.grad or 0.0) + cts[tensor.node.id]


class Graph:
    """A program before it has values: it owns its nodes, and it only grows."""

    def __init__(self, name):
        self.name, self.nodes = name, []

    def parameter(self, name):
        return self.append(PARAMETER, (), name)

    def append(self, op, inputs, name=None):
        self.nodes.append(Node(op, inputs, len(self.nodes), self, name))
        return self.nodes[-1]

    def run(self, output, **arguments):
        """The value of a node: node after node, and only those that it needs."""
        if not isinstance(output, Node):
            return output  # a derivative that is the same everywhere
        env = {}
        for node in ancestors(output):
            xs = [env[x.id] if isinstance(x, Node) else x for x in node.inputs]
            env[node.id] = arguments[node.name] if node.op is PARAMETER else node.op.ref(*xs)
        return env[output.id]

    def __str__(self):
        parameters = sum(node.op is PARAMETER for node in self.nodes)
        lines = [f'graph "{self.name}": {len(self.nodes)} nodes, {parameters} parameters']
        for node in self.nodes:
            inputs = ", ".join(f"#{x.id}" if isinstance(x, Node) else str(x) for x in node.inputs)
            what = f'parameter "{node.name}"' if node.name else f"{node.op.name}({inputs})"
            lines.append(f"#{node.id} {what} : f64[]")
        return "\n".join(lines)


# The door. Nodes append to their graph; tensors compute and remember; plain numbers only compute.
# Nothing else in this file asks which of the three it is looking at.


def bind(op, *args):
    nodes = [arg for arg in args if isinstance(arg, Node)]
    if nodes:
        return nodes[0].graph.append(op, args)
    value = op.ref(*map(number, args))
    if any(isinstance(arg, Tensor) for arg in args):
        return Tensor(value, Node(op, args, next(ids)))
    return value


def number(arg):
    return arg.value if isinstance(arg, Tensor) else arg


ids = count()
PARAMETER = Op("parameter", None, ())
add = Op("add", lambda x, z: x + z, (lambda y, x, z: 1.0, lambda y, x, z: 1.0))
multiply = Op("multiply", lambda x, z: x * z, (lambda y, x, z: z, lambda y, x, z: x))
divide = Op("divide", lambda x, z: x / z, (lambda y, x, z: 1.0 / z, lambda y, x, z: -y / z))
negative = Op("negative", lambda x: -x, (lambda y, x: -1.0,))
sin = Op("sin", math.sin, (lambda y, x: cos(x),))
cos = Op("cos", math.cos, (lambda y, x: -sin(x),))
exp = Op("exp", math.exp, (lambda y, x: y,))  # a partial may use the output: nothing is redone
tanh = Op("tanh", math.tanh, (lambda y, x: 1.0 - y * y,))
identity = Op("identity", lambda x: x, (lambda y, x: 1.0,))


# The walk back. A step is a node with the values at its ends, and which values those are decides
# what the walk does. With numbers it computes, with tensors it records, with nodes it appends: one
# engine, not three.


def reverse(steps, cts):
    """Push cotangents from later nodes to earlier ones; `cts` maps node ids to them.

    When a node is reached, all its readers have delivered: they have larger ids. Each edge delivers
    once, also when two of them join the same two nodes, as in x * x. An id that is missing at the
    end is a structural zero: no path led there.
    """
    for node, y, xs in reversed(steps):
        if node.id in cts:
            for edge, partial in zip(node.inputs, node.op.partials, strict=True):
                if isinstance(edge, Value):
                    part = cts[node.id] * partial(y, *xs)
                    arrived = cts.get(edge.node.id)
                    cts[edge.node.id] = part if arrived is None else arrived + part
    return cts


def ancestors(z):
    """Everything that z depends on, itself included, in order."""
    found, pending = {}, [z]
    while pending:
        value = pending.pop()
        if value.node.id not in found:
            found[value.node.id] = value
            pending += [edge for edge in value.node.inputs if isinstance(edge, Value)]
    return [found[key] for key in sorted(found)]


def steps(z, recorded):
    see = (lambda value: value) if recorded else number
    return [(v.node, see(v), [see(x) for x in v.node.inputs]) for v in ancestors(z)]


def gradients(z, xs):
    """The derivatives of z by each of xs: values of the same kind, which have derivatives too."""
    if not isinstance(z, Value):
        return [0.0 for _ in xs]  # a plain number depends on nothing
    cts = reverse(steps(z, recorded=True), {z.node.id: 1.0})
    return [cts.get(x.node.id, 0.0) for x in xs]


def grad(f):
    """The derivative of a function by its first argument, as a function."""

    def slope(x, *others):
        # A name of its own for this derivative's x: in a derivative of a derivative the same
        # tensor may also come in by another way, and that way must not count.
        start = x if isinstance(x, Value) else Tensor(x)
        own = identity(start)
        (found,) = gradients(f(own, *others), [own])
        return found if isinstance(x, Value) else settled(found, start)

    return slope


def settled(found, start):
    """A plain number, unless it depends on tensors from outside, which others may differentiate."""
    leaves = [v for v in ancestors(found) if not v.node.inputs] if isinstance(found, Tensor) else []
    return number(found) if set(leaves) <= {start} else found


def check(f, x, step=1e-5):
    """How far the derivative is from a difference quotient: trust is good."""
    return abs(grad(f)(x) - (f(x + step) - f(x - step)) / (2 * step))


def main():
    x, y = Tensor(2.0), Tensor(3.0)
    z = (x * y + x) * (x * y + x)
    z.backward()
    print("eager    ", z.value, x.grad, y.grad)

    g = Graph("demo")
    a, b = g.parameter("a"), g.parameter("b")
    out = sin(a * b) / (1.0 + exp(a))
    print(g)
    (slope,) = gradients(out, [a])  # more nodes in the same graph
    print("graph    ", g.run(out, a=0.5, b=2.0), g.run(slope, a=0.5, b=2.0))

    cube = lambda x: x * x * x
    print("towers   ", [f(2.0) for f in (cube, grad(cube), grad(grad(cube)))])
    # The inner derivative is by y alone: d/dx (x * 1) is 1.
    print("confusion", grad(lambda x: x * grad(lambda y: x + y)(x))(3.0))
    print("check    ", check(lambda x: tanh(x) * cos(x), 0.7) < 1e-9)


if __name__ == "__main__":
    main()
