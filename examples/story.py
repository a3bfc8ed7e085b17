"""A value that is used twice: `anabranch story examples/story.py`."""

import anabranch as ab

x = ab.tensor(2.0, requires_grad=True)
y = ab.tensor(3.0, requires_grad=True)
p = x * y
s = p + x
z = s * s
z.backward()
