"""What a peer takes on disk, with all that it requires."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import harness
from harness import PEERS, Bench, Workload

SIZE, COUNT = "size on disk", "distributions"
WORKLOAD = Workload(
    "Installed, with all that is required",
    [SIZE, COUNT],
    unit=lambda case: "MiB" if case == SIZE else "packages",
    quick=(SIZE,),
)
SOURCE = harness.HERE.parent / "src" / "anabranch"


def required(names: Iterable[str]) -> dict[str, Any]:
    """These distributions and what they require, without extras, as far as it is installed."""
    todo, found = list(names), {}
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
        todo += map(first_name, filter(wanted, found[name].requires or []))
    return found


def first_name(requirement: str) -> str:
    """The distribution that a requirement is about."""
    matched = re.match(r"[\w.-]+", requirement.strip())
    assert matched
    return matched.group()


def wanted(requirement: str) -> bool:
    """Whether a requirement is none of an extra; what is for other platforms is not installed."""
    return "extra ==" not in requirement


def on_disk(files: Iterable[Path]) -> float:
    """MiB of the files that are no cache of Python's."""
    kept = [f for f in files if f.suffix != ".pyc" and f.is_file()]
    return sum(f.stat().st_size for f in kept) / 2**20


def ours() -> tuple[dict[str, Any], float]:
    """What we require, machine code included, and MiB of our own files."""
    project = tomllib.loads((harness.HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    told = project["project"]
    needs = [*told["dependencies"], *told["optional-dependencies"].get("native", [])]
    return required(map(first_name, needs)), on_disk(SOURCE.rglob("*"))


def figure(peer: str, case: str) -> float:
    """The figure of one peer."""
    package = PEERS[peer].package
    found, more = ours() if package == "anabranch" else (required([package]), 0.0)
    if case == COUNT:
        return float(len(found) + (package == "anabranch"))
    files = (Path(str(f.locate())) for d in found.values() for f in d.files or [])
    return on_disk(files) + more


for _name in ("anabranch", "numpy", "torch", "jax", "autograd", "micrograd", "pytensor", "casadi"):
    WORKLOAD.peer(_name)(
        lambda case, name=_name: Bench(None, dict, figure=lambda: figure(name, case))
    )
WORKLOAD.peer("tinygrad")(lambda case: Bench(None, dict, figure=lambda: figure("tinygrad", case)))
