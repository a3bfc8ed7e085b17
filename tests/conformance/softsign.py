import numpy as np

import anabranch as ab

softsign = ab.elementwise(
    "softsign",
    lambda x: x / (1 + np.abs(x)),
    partials=(lambda y, x: ab.square(1 - ab.absolute(y)),),
    result="quotient",
    samples=(ab.at(1.0, value=0.5, grads=0.25), ab.at(-3.0, value=-0.75, grads=0.0625)),
    doc="x / (1 + |x|), which bends towards -1 and 1.",
)
