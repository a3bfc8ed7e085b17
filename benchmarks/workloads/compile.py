"""What the first training step of the network costs, with empty caches and at the second start, and
how much memory its steps take: each figure from a new process, over what its imports and the data
took.
"""

from __future__ import annotations

from collections.abc import Callable

from harness import Bench, Workload
from workloads import mlp, nets

WORKLOAD = Workload(
    "The first step of the network: trace, differentiate, compile, run; and memory",
    ["batch 64", "batch 1024"],
    tolerance=2e-4,
    kind="fresh",
    quick=("batch 64",),
    wide=False,
    limit=60.0,
    prepare=nets.make,
    figures=(
        "first result, empty caches",
        "first result, second start",
        "from process start, empty caches",
        "from process start, second start",
        "peak memory",
        "memory of later steps",
    ),
)


def first_of(name: str) -> Callable[[str], Bench | str]:
    def build(case: str) -> Bench | str:
        made = mlp.WORKLOAD.peers[name](case)
        if isinstance(made, str) or made.step is None:
            return made
        return nets.losses(made.step, 1)

    return build


for _name in mlp.WORKLOAD.peers:
    WORKLOAD.peer(_name)(first_of(_name))
WORKLOAD.absent.update(mlp.WORKLOAD.absent)
WORKLOAD.peer("jax_cache")(first_of("jax"))
