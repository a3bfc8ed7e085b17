"""Draws the pictures of the docs, `docs/pictures/*.svg`; a test compares them with fresh ones.

python scripts/pictures.py
"""

from collections.abc import Callable
from pathlib import Path

import anabranch as ab
from anabranch.inspection.report import Report

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def story() -> Report:
    """z = (x*y + x)² at (2, 3)."""
    x = ab.tensor(2.0, requires_grad=True, name="x")
    y = ab.tensor(3.0, requires_grad=True, name="y")
    p = x * y
    s = p + x
    z = s * s
    p.name, s.name, z.name = "p", "s", "z"
    z.backward()
    return ab.inspect(z)


def layer() -> Report:
    """A layer of a network, in numbers that no library rounds."""
    x = ab.tensor([[1.0, -2.0, 0.5], [0.0, 1.0, 2.0], [2.0, 2.0, -1.0]], name="x")
    w = ab.tensor(
        [[0.5, -1.0, 0.25, 2.0], [1.0, 0.5, -0.5, 0.0], [-1.0, 2.0, 1.0, 0.5]],
        requires_grad=True,
        name="w",
    )
    b = ab.tensor([0.5, -0.5, 0.0, -8.0], requires_grad=True, name="b")
    h = x @ w + b
    r = ab.maximum(h, 0.0)
    loss = (r * r).sum()
    r.name, loss.name = "r", "loss"
    loss.backward()
    return ab.inspect(loss)


PICTURES: dict[str, Callable[[], str]] = {
    "story.svg": lambda: story().svg(),
    "story-backward.svg": lambda: story().svg(frame=8),
    "story-strip.svg": lambda: story().strip(),
    "layer.svg": lambda: layer().svg(direction="right"),
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
        print(name)
