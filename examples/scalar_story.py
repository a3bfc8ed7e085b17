"""z = (x*y + x)**2 at x = 2, y = 3: values, then how the gradient finds its way back.

x reaches z on two ways, through x*y and past it; their gradients meet again in x and add up.
"""

import anabranch as ab

PICTURE = """
╭─────────╮
│ x  {x:>4} │─┬──────────────── {dx} ────────────────╮
│ ∂z {gx:>4} │ │                                   │
╰─────────╯ │     ╭─────────╮               ╭───▼─────╮         ╭─────────╮
            ╰─ {px} ─▶ x*y {p:>3} │               │ x*y+x {u} ├─── {u0} ───▶ z  {z:>4} │
                  │         ├────── {dp} ──────▶         │         │         │
            ╭─ {py} ─▶ ∂z {gp:>4} │               │ ∂z {gu:>4} ├─── {u1} ───▶ ∂z {gz:>4} │
╭─────────╮ │     ╰─────────╯               ╰─────────╯         ╰─────────╯
│ y  {y:>4} │─╯
│ ∂z {gy:>4} │
╰─────────╯
"""


def f(x, y):
    return (x * y + x) ** 2


# Each operator computes at once and remembers its operands.
x = ab.tensor(2.0, requires_grad=True, name="x")
y = ab.tensor(3.0, requires_grad=True, name="y")
p = x * y
u = p + x
z = u**2
p.name, u.name, z.name = "x*y", "x*y+x", "z"

# Going back, every edge delivers its local derivative times what has arrived at its upper end.
story = []
held = {}
names = {t.node.id: t.name for t in (x, y, p, u, z)}


def watch(node, slot, contribution):
    lower = node.inputs[slot].name
    before, held[lower] = held.get(lower), held.get(lower, 0) + contribution
    shown = "none" if before is None else f"{before:g}"
    sends = f"{names[node.id]:<6}sends {contribution:g} to {lower}"
    story.append(f"{sends:<22}  {lower}: {shown} → {held[lower]:g}")


order = z.backward(observer=watch)

print("Each node, its value, and the derivative of z by it:")
for t in order:
    print(f"{t.name:<8}value {t.item():5.1f}   grad {t.grad:5.1f}")

print("\nBy hand, with u = x*y + x and z = u²:")
du_dx, du_dy = ab.gradients(u, [x, y])
print(f"x*y = {p.item():g}, u = {u.item():g}, z = {z.item():g}")
print(
    f"at u = {u.item():g}: dz/du = {u.grad:g}, du/dx = {du_dx.item():g}, du/dy = {du_dy.item():g}"
)

print("\nThe gradient on its way back:")
print(f"z     starts with {z.grad:g}     z: none → {z.grad:g}", *story, sep="\n")

# A local derivative belongs to an edge, so u**2, which is u*u, has two: one for each u.
(px, py), (dp, dx), (u0, u1) = ([f"{d:g}" for d in t.partials] for t in (p, u, z))
values = {t: f"{v.item():g}" for t, v in zip("xypuz", (x, y, p, u, z), strict=True)}
grads = {f"g{t}": f"{v.grad:g}" for t, v in zip("xypuz", (x, y, p, u, z), strict=True)}
edges = {"px": px, "py": py, "dp": dp, "dx": dx, "u0": u0, "u1": u1}
print(PICTURE.format(**values, **grads, **edges))

h = 1e-6
difference = (f(2.0 + h, 3.0) - f(2.0 - h, 3.0)) / (2 * h)
assert abs(x.grad - difference) < 1e-5
print(f"All right: dz/dx = {x.grad:g}, and a central difference says {difference:.4f}.")
