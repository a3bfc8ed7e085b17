"""What a measurement was made on, and with which versions."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import harness


def machine() -> dict[str, str]:
    """The processor, how many cores may be used, memory, system, Python, and how busy it was."""
    return {
        "processor": _first("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "busy processes before": f"{os.getloadavg()[0]:.1f}",
    }


def versions() -> dict[str, str]:
    """Of each peer's package, and of what ours stands on; those that are there."""
    found = {}
    packages = dict.fromkeys(p.package for p in harness.PEERS.values() if p.package != "anabranch")
    for name in ("numpy", "llvmlite", *packages, "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def today() -> str:
    """The date."""
    return str(datetime.date.today())


def commit() -> str:
    """The commit of this checkout, with a + if files differ from it; '' outside of git."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"],
        cwd=harness.HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip()


def _first(file: str, key: str) -> str:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")


def _memory() -> str:
    kib = _first("/proc/meminfo", "MemTotal").split()
    return f"{int(kib[0]) / 2**20:.0f} GiB" if kib else "unknown"
