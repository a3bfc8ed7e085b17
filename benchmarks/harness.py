"""What a benchmark is: the same mathematics for each peer, compared before it is measured.

A module in `workloads/` defines `WORKLOAD`. Each of its cases is built for a peer by a function
that returns a `Bench`, or a sentence that says why this peer does not do it.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

# Start-up first: what takes a fixed time comes before what fills the time that is left.
WORKLOADS = (
    "installed",
    "start",
    "compile",
    "chain",
    "shared",
    "call",
    "scalar",
    "regression",
    "affine",
    "elementwise",
    "options",
    "products",
    "mlp",
    "logistic",
    "eager",
    "graph",
    "size",
)


@dataclass(frozen=True)
class Peer:
    """One column: what its process imports before the clock starts, and what must be there."""

    label: str
    modules: tuple[str, ...]
    package: str  # whose version is told
    needs: tuple[str, ...] = ()  # programs on the path, any of which will do
    environment: tuple[tuple[str, str], ...] = ()


CACHED = (
    ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0"),
    ("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1"),
)
COMPILERS = ("g++", "clang++", "c++")
CLANGS = ("clang", *(f"clang-{n}" for n in range(22, 13, -1)))

PEERS = {
    "anabranch": Peer("anabranch", ("anabranch",), "anabranch"),
    "anabranch_raw": Peer("anabranch, raw call", ("anabranch",), "anabranch"),
    "numpy": Peer("NumPy by hand", ("numpy",), "numpy"),
    "numba": Peer("numba by hand", ("numba",), "numba"),
    "torch": Peer("PyTorch", ("torch",), "torch"),
    "torch_compile": Peer("torch.compile", ("torch",), "torch", COMPILERS),
    "jax": Peer("jax.jit", ("jax.numpy",), "jax"),
    "jax_scan": Peer("jax, loop inside", ("jax.numpy",), "jax"),
    "jax_cache": Peer("jax.jit, cache on disk", ("jax.numpy",), "jax", (), CACHED),
    "jax_eager": Peer("jax, op by op", ("jax.numpy",), "jax"),
    "autograd": Peer("autograd", ("autograd.numpy",), "autograd"),
    "micrograd": Peer("micrograd", ("micrograd.engine",), "micrograd"),
    "pytensor": Peer("PyTensor (numba)", ("pytensor",), "pytensor"),
    "pytensor_c": Peer(
        "PyTensor (C)", ("pytensor",), "pytensor", COMPILERS, (("PYTENSOR_FLAGS", "linker=cvm"),)
    ),
    "casadi": Peer("CasADi", ("casadi",), "casadi"),
    "casadi_c": Peer("CasADi, its C compiled", ("casadi",), "casadi", ("gcc", "cc")),
    "tinygrad": Peer("tinygrad", ("tinygrad",), "tinygrad", CLANGS),
}
OURS = "anabranch"
OVERRIDES = ("ANABRANCH_", "OPENBLAS_", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
THREADS = (
    "MKL_NUM_THREADS",
    "NPROC",  # of jax
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)


@dataclass
class Bench:
    """One peer's version of one case.

    `step(*arguments)` is what is timed; it returns when its result is there. `numbers()` gives the
    values that must agree. `make()`, if given, runs before each step, untimed, and makes its
    argument. `figure()`, if given, is asked instead of the clock.
    """

    step: Callable[..., Any] | None
    numbers: Callable[[], dict[str, Any]]
    arguments: tuple[Any, ...] = ()
    make: Callable[[], Any] | None = None
    figure: Callable[[], float] | None = None
    kept: Any = None  # what must stay alive


Builder = Callable[[str], Bench | str]


@dataclass
class Workload:
    """Cases, and for each peer the function that builds them.

    kind: "rounds" (peers take turns in processes that live on), "fresh" (a process for each
    figure), "scripts" (small programs, by the clock from before they start).
    """

    title: str
    cases: list[str]
    unit: str | Callable[[str], str] = "us"
    tolerance: float | Callable[[str], float] = 1e-12
    kind: str = "rounds"
    quick: tuple[str, ...] = ()  # the cases of --quick
    tiny: tuple[str, ...] = ()  # what the tests compare with NumPy
    limit: float = 60.0  # seconds that a peer may take to build, or for one figure
    wide: bool = True  # 64-bit numbers in jax
    threads: Callable[[str], int | None] | None = None  # how many a case may use; else all
    crowded: Callable[[str], bool] | None = None  # whether a process keeps a core busy meanwhile
    peers: dict[str, Builder] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # peers with the reason
    figures: tuple[str, ...] = ()  # of kind "fresh": which of them are told
    prepare: Callable[[str], None] | None = None  # of kind "fresh": data, made before the clock
    scripts: Callable[[str], dict[str, str]] | None = None  # of kind "scripts": text by peer
    cold: tuple[str, ...] = ()  # of kind "scripts": cases that are told with empty caches too

    def peer(self, *names: str) -> Callable[[Builder], Builder]:
        """Register the decorated function as the builder of these peers."""

        def register(build: Builder) -> Builder:
            for name in names:
                if name not in PEERS:
                    raise KeyError(name)
                self.peers[name] = build
            return build

        return register

    def without(self, reason: str, *names: str) -> None:
        """Say why these peers are not measured at all."""
        self.absent |= dict.fromkeys(names, reason)

    def missing(self, name: str) -> str | None:
        """Why a peer has no part in this, or cannot be measured here; or None."""
        return self.absent.get(name) or missing(name)

    def tolerance_of(self, case: str) -> float:
        """How far a peer may be off, relative to the largest entry of an array."""
        return self.tolerance(case) if callable(self.tolerance) else self.tolerance

    def unit_of(self, case: str) -> str:
        """The unit that a case is told in."""
        return self.unit(case) if callable(self.unit) else self.unit


def load(name: str) -> Workload:
    """The workload of a module in `workloads/`."""
    found: Workload = importlib.import_module(f"workloads.{name}").WORKLOAD
    return found


def names() -> Iterator[str]:
    """The modules in `workloads/` that define one."""
    files = sorted((HERE / "workloads").glob("*.py"))
    return (f.stem for f in files if "\nWORKLOAD = " in f.read_text(encoding="utf-8"))


def missing(name: str) -> str | None:
    """Why a peer cannot be measured here, or None."""
    peer = PEERS[name]
    for module in peer.modules:
        if find_spec(module.split(".", maxsplit=1)[0]) is None:
            return "not installed"
    if peer.needs and not any(map(shutil.which, peer.needs)):
        return f"needs {peer.needs[0]}"
    return None


def environment(
    name: str, *, wide: bool = True, threads: int | None = None, cache: Path | None = None
) -> dict[str, str]:
    """The environment of a peer's process.

    Fixed hash seed, no overrides of the BLAS kernels, byte code kept as an installed package has
    it, this checkout of ours; with `threads` no more than these; with `cache` everything that a
    peer keeps on disk goes there.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith(OVERRIDES)}
    source = [str(HERE.parent / "src"), env.get("PYTHONPATH", "")]
    env |= {"PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(filter(None, source))}
    env |= {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1" if wide else "0"}
    if clang := next(filter(None, map(shutil.which, CLANGS)), None):
        env["CC"] = clang if name == "tinygrad" else env.get("CC", "cc")
    env |= dict(PEERS[name].environment)
    if threads is not None:
        env |= dict.fromkeys(THREADS, str(threads))
    if threads == 1:
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    return env | (_kept_in(cache, name, env) if cache else {})


def _kept_in(cache: Path, name: str, env: dict[str, str]) -> dict[str, str]:
    flags = filter(None, [env.get("PYTENSOR_FLAGS"), f"base_compiledir={cache / 'pytensor'}"])
    kept = {
        "HOME": str(cache),
        "XDG_CACHE_HOME": str(cache),
        "ANABRANCH_CACHE_DIR": str(cache / "anabranch"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "NUMBA_CACHE_DIR": str(cache / "numba"),
        "CACHEDB": str(cache / "tinygrad.db"),
        "PYTENSOR_FLAGS": ",".join(flags),
    }
    return kept | ({"JAX_COMPILATION_CACHE_DIR": str(cache / "jax")} if name == "jax_cache" else {})
