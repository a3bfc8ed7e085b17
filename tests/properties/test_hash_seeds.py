"""Order, values and gradients have the same bits in every process, for any hash seed."""

import hashlib
import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import anabranch as ab

NAMES = ("w", "b", "gain", "shift")


def digest(places):
    """Everything that could depend on a hash: recorded order, listings, values, gradients."""
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=(3, 3)) for name in NAMES}
    params = {NAMES[i]: values[NAMES[i]] for i in places}
    seen = hashlib.sha256()

    def note(*things):
        for thing in things:
            seen.update(thing.encode() if isinstance(thing, str) else np.asarray(thing).tobytes())

    def loss(params, x):
        hidden = ab.tanh(x @ params["w"] + params["b"])
        again = hidden * params["gain"] + params["shift"]
        return (ab.softmax(again) * hidden + again @ params["w"]).sum()

    x = rng.normal(size=(3, 3))
    tensors = {k: ab.tensor(v, requires_grad=True, name=k) for k, v in params.items()}
    result = loss(tensors, x)
    arrivals = []
    order = result.backward(observer=lambda node, slot, _: arrivals.append((node.op, slot)))
    note(*(t.name or t.node.op.name for t in order), repr(arrivals), result.data)
    note(*(tensors[name].grad for name in NAMES))

    value, grads = ab.compile(ab.value_and_grad(loss))(params, x)
    note(value, *(grads[name] for name in NAMES))
    graph = ab.trace(ab.grad(loss), params, x)
    note(str(graph), ab.structure_hash(graph))
    return seen.hexdigest()


def digest_elsewhere(seed):
    """The digest of a new process with this hash seed."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    ran = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


def digests(seeds):
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return set(pool.map(digest_elsewhere, seeds))


@pytest.mark.slow
@pytest.mark.proves("S0-38", "S0-39")
def test_five_hash_seeds_give_one_digest():
    assert digests([0, 1, 2, 3, 4_294_967_295]) == {digest(range(4))}


@pytest.mark.long
@pytest.mark.proves("S0-38", "S0-39")
def test_a_hundred_hash_seeds_give_one_digest():
    assert digests(range(1, 101)) == {digest(range(4))}


@pytest.mark.slow
@pytest.mark.proves("S0-39")
def test_the_order_in_which_parameters_stand_in_their_dict_changes_no_bit():
    assert len({digest(places) for places in itertools.permutations(range(4))}) == 1


if __name__ == "__main__":
    print(digest(range(4)))
