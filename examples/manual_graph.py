"""A graph by hand: names, a branch on a setting, a part used twice, growth, a log."""

import numpy as np

import anabranch as ab


def encoder(x, w):
    """A part of a graph is a function that appends nodes: calling it again uses it again."""
    with ab.scope("encoder"):
        return ab.tanh(x @ w)


def build(smooth):
    """How far apart two inputs lie after the same encoder."""
    g = ab.Graph("distance")
    left = g.parameter("left", (3,), ab.float64)
    right = g.parameter("right", (3,), ab.float64)
    w = g.parameter("w", (3, 2), ab.float64)
    gap = (encoder(left, w) - encoder(right, w)).named("gap")
    # An ordinary `if`: it chooses which nodes the graph gets, once, while it is built.
    size = ab.square(gap) if smooth else ab.absolute(gap)
    distance = size.sum().named("distance")
    return g, gap, distance


def main():
    left, right = np.array([1.0, 0.5, -1.0]), np.array([0.5, 0.5, 1.0])
    w = np.array([[0.2, -0.4], [0.6, 0.1], [-0.3, 0.5]])

    smooth, gap, distance = build(smooth=True)
    run = smooth.compile(distance)
    print(smooth)
    print(f"\nsmooth: {run(left, right, w):.6f}")

    sharp, _, sharp_distance = build(smooth=False)
    print(f"sharp:  {sharp.compile(sharp_distance)(left, right, w):.6f}")
    same = ab.structure_hash(smooth) == ab.structure_hash(sharp)
    print(f"two settings, {'one structure' if same else 'two structures'}")

    # A graph only grows: what was compiled before stays, and new outputs can use new nodes.
    (slope,) = ab.gradients(distance, [smooth.parameters[0]])
    run_more = smooth.compile(distance, gap, slope.named("slope"))
    value, gap_value, slope_value = run_more(left, right, w)
    print(f"\nthree outputs: {value:.6f}, {gap_value.round(4)}, {slope_value.round(4)}")
    print(f"the first one again: {run(left, right, w):.6f}")

    # A logged node prints at each run of what is compiled from here on.
    gap.log("gap")
    print("\nlogged:")
    smooth.compile(distance)(left=left, right=right, w=w)


if __name__ == "__main__":
    main()
