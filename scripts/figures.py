"""Prints what stands behind the operations: counts, what has no derivative, agreement, errors.

    python scripts/figures.py [counts] [reasons] [peers] [ulp] [nist]

All parts without arguments. `peers` needs PyTorch and autograd, `ulp` mpmath, `nist` SciPy.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from anabranch.core.leaves import LEAVES
from anabranch.core.op import NoGradient, Op, Unsupported
from anabranch.core.registry import functions, registered_ops
from anabranch.testing.cases import cases
from anabranch.testing.conformance import CHECKS

TESTS = Path(__file__).resolve().parents[1] / "tests"
OPS = [op for op in registered_ops() if op not in LEAVES]


def loaded(path: str) -> ModuleType:
    """A test file as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, TESTS / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module


def counts() -> None:
    """How many operations, samples and generated checks there are."""
    samples = sum(len(op.samples) for op in OPS)
    kinks = sum(sample.kink for op in OPS for sample in op.samples)
    golden = sum(sample.value is not None for op in OPS for sample in op.samples)
    drawn = sum(len(list(cases(op))) for op in OPS)
    composed = len(functions()) - sum(op.arity != 0 for op in OPS)
    print(f"{len(OPS)} operations, and {composed} functions composed of them")
    print(f"{samples} samples ({golden} with values by hand, {kinks} at kinks), {drawn} cases")
    print(f"{len(OPS) * len(CHECKS)} generated checks of records: {len(CHECKS)} of each operation")


def rules(op: Op) -> list[Any]:
    """The derivative rules of an op, for as many inputs as its samples have."""
    most = max((len(sample.inputs) for sample in op.samples), default=op.inputs)
    return [op.gradient(slot) for slot in range(most)]


def reasons() -> None:
    """Which inputs have no derivative, and why."""
    found: dict[str, list[str]] = defaultdict(list)
    for op in OPS:
        missing = {slot: rule for slot, rule in enumerate(rules(op)) if is_missing(rule)}
        for reason in {rule.reason for rule in missing.values()}:
            slots = [str(slot) for slot, rule in missing.items() if rule.reason == reason]
            whole = len(slots) == len(rules(op))
            kind = "UNSUPPORTED" if is_unsupported(missing, reason) else "NO_GRADIENT"
            found[f"{kind}: {reason}"].append(
                op.name if whole else f"{op.name} (by input {', '.join(slots)})"
            )
    for reason, names in sorted(found.items()):
        print(f"{reason}\n    {', '.join(names)}")


def is_missing(rule: Any) -> bool:
    return isinstance(rule, NoGradient | Unsupported)


def is_unsupported(missing: dict[int, Any], reason: str) -> bool:
    return any(isinstance(r, Unsupported) and r.reason == reason for r in missing.values())


def peers() -> None:
    """How often the peers agree, and with how many functions they part."""
    agreement = loaded("peers/agreement.py")
    for peer in agreement.PEERS:
        if importlib.util.find_spec(peer) is None:
            print(f"{peer} is not installed")
            continue
        parts, agreed, differ, refused = [], 0, 0, 0
        for name, function in agreement.functions(peer).items():
            one = agreement.compare(peer, name, function)
            agreed += sum(one.agreed.values())
            differ += sum(map(len, one.differ.values()))
            refused += sum(map(len, one.refused.values()))
            if one.text:
                parts.append(f"    {name}: {one.text}")
        print(f"{peer}: {len(agreement.functions(peer))} functions, {agreed} comparisons agree,")
        print(f"  {differ} differ, {refused} it refuses; functions that part:")
        print("\n".join(parts))


def ulp() -> None:
    """The worst error of each operation against mpmath, in units of the last place."""
    module = loaded("conformance/test_mpmath.py")
    print(f"{'operation':18}{'value':>8}{'first':>8}{'second':>8}")
    top = [0.0, 0.0, 0.0]
    for op in module.COMPARED:
        found = module.worst(op)
        row = [found[order].ulp if order in found else 0.0 for order in range(3)]
        top = [max(pair) for pair in zip(top, row, strict=True)]
        print(f"{op.name:18}" + "".join(f"{value:8.2f}" for value in row))
    print(f"{'worst':18}" + "".join(f"{value:8.2f}" for value in top))


def nist() -> None:
    """The digits of certified parameters that are reached, from both starts."""
    module = loaded("field/test_regression.py")
    print(f"{'data set':12}{'start 1':>10}{'start 2':>10}   digits of the parameters")
    for name, model in module.MODELS.items():
        problem = module.Problem(name)
        found = [module.fitted(problem, model, start).x for start in problem.starts]
        reached = [module.digits(x, problem.certified) for x in found]
        print(f"{name:12}" + "".join(f"{value:10.1f}" for value in reached))


PARTS = {part.__name__: part for part in (counts, reasons, peers, ulp, nist)}


def main(names: list[str]) -> int:
    if unknown := set(names) - PARTS.keys():
        print(f"no such part: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    with np.errstate(all="ignore"):
        for name in names or PARTS:
            print(f"== {name}")
            PARTS[name]()
            print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
