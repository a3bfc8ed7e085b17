"""Values and two derivatives beside PyTorch's and autograd's; where they part stands on the page.

Without the peers these tests are skipped; `ANABRANCH_PEERS=required` makes that a failure.
"""

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from anabranch.core.leaves import LEAVES
from anabranch.core.op import NoGradient
from anabranch.core.registry import registered_ops

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "conventions.md"
REQUIRED = os.environ.get("ANABRANCH_PEERS") == "required"
LABELS = {"torch": "PyTorch", "autograd": "autograd"}


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"peers_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


agreement = loaded("agreement")
THERE = [peer for peer in agreement.PEERS if importlib.util.find_spec(peer)]
TABLES = {peer: agreement.functions(peer) for peer in THERE}
CASES = [(peer, name) for peer, table in TABLES.items() for name in table]
OURS_ALONE = {
    *("absorb", "absorb_either", "add_windows", "call", "cbrt", "conv_kernel", "exp_neg_square"),
    *("dynamic_update_slice", "exp_square", "linalg.cofactors", "linalg.cofactors_along"),
    *("linalg.full_qr", "linalg.full_svd", "linear_recurrence", "one_minus_square"),
    *("power_derivative", "scatter_set", "sech_squared", "sinc_derivative", "sliding_windows"),
    *("unslice", "update_slice", "xdivy"),
}
pytestmark = [pytest.mark.peers, pytest.mark.slow]


def written():
    """The page's rows: (peer, function) to where they part, and who is right."""
    row = re.compile(r"\| (PyTorch|autograd) \| `([\w.]+)` \| (.*?) \| (.*) \|")
    found = [row.fullmatch(line) for line in PAGE.read_text(encoding="utf-8").splitlines()]
    return {(m[1], m[2]): (m[3], m[4]) for m in found if m}


@pytest.mark.parametrize("peer", agreement.PEERS)
def test_a_peer_is_there(peer):
    if peer not in THERE:
        text = f"{peer} is not installed: see Tests in CONTRIBUTING.md"
        pytest.fail(text) if REQUIRED else pytest.skip(text)
    assert len(TABLES[peer]) > 50


@pytest.mark.parametrize(("peer", "name"), CASES, ids=lambda one: one)
def test_a_peer_agrees_but_where_the_page_says_so(peer, name):
    found = agreement.compare(peer, name, TABLES[peer][name])
    said, why = written().get((LABELS[peer], name), ("", ""))
    assert found.text == said
    assert bool(said) == bool(why.strip())
    assert sum(found.agreed.values()) > 3


def test_the_page_has_no_row_for_what_nobody_compares():
    compared = {(LABELS[peer], name) for peer, name in CASES}
    rows = {row for row in written() if row[0] in {LABELS[peer] for peer in THERE}}
    assert rows <= compared


def test_every_other_op_with_a_derivative_is_compared():
    """`OURS_ALONE` are helpers of our rules, and what no peer has as one function."""
    if list(agreement.PEERS) != THERE:
        pytest.skip("a peer is not installed")
    compared = {name for table in TABLES.values() for name in table}
    smooth = {op.name for op in registered_ops() if op not in LEAVES and not is_flat(op)}
    assert smooth - compared == OURS_ALONE


def is_flat(op):
    return all(isinstance(op.gradient(slot), NoGradient) for slot in range(op.inputs))
