"""Sets up `.venv` in the repository root, then runs one task in it.  Needs nothing but Python.

    python3 scripts/bootstrap.py demo [arguments of `anabranch demo`]
    python3 scripts/bootstrap.py test [arguments of pytest]

`demo`   the tour of the library
`test`   every test but the long ones
`fast`   leaves out the slow ones too
`browser` the tests that open pages in Chromium
`peers`  the tests that compare with PyTorch and autograd
`check`  lint, format and types
`all`    check, then every test, the long ones too

Set-up is done once: a stamp in `.venv` remembers what it was made from.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - told in words, also to an old Python that may run this
    sys.exit(
        "anabranch needs Python 3.11 or newer, and this is {}.{}.{} ({}).".format(
            *sys.version_info[:3], sys.executable
        )
    )

import contextlib
import hashlib
import importlib.util
import os
import shutil
import subprocess
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / "bootstrap-stamp"

# What pip is asked for, from the least to the most; each level contains the one before.
# The library alone is held to the tested versions too, as constraints.
LEVELS: dict[str, list[str]] = {
    "run": ["--constraint", "requirements/test.txt"],
    "test": ["--requirement", "requirements/test.txt"],
    "dev": ["--requirement", "requirements/dev.txt"],
    "browser": ["--requirement", "requirements/browser.txt"],
    "peers": ["--requirement", "requirements/peers.txt"],
}
INPUTS = ("pyproject.toml", *(f"requirements/{level}.txt" for level in list(LEVELS)[1:]))

Command = tuple[str | Path, ...]
PYTEST: Command = (PYTHON, "-m", "pytest", "-n", "auto")
CHECK: list[Command] = [
    (PYTHON, "-m", "ruff", "check"),
    (PYTHON, "-m", "ruff", "format", "--check"),
    (PYTHON, "-m", "mypy"),
]
# task: the level that it needs, and its commands in turn; the caller's arguments go to the last
TASKS: dict[str, tuple[str, list[Command]]] = {
    "demo": ("run", [(BIN / "anabranch", "demo")]),
    "test": ("test", [(*PYTEST, "-m", "not long")]),
    "fast": ("test", [(*PYTEST, "-m", "not slow and not long")]),
    "browser": ("browser", [(PYTHON, "-m", "pytest", "tests/browser")]),
    "peers": ("peers", [(*PYTEST, "tests/peers")]),
    "check": ("dev", CHECK),
    "all": ("dev", [*CHECK, PYTEST]),
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in TASKS:
        asked_for_help = arguments[:1] in (["-h"], ["--help"])
        print(__doc__, file=sys.stdout if asked_for_help else sys.stderr)
        return 0 if asked_for_help else 2
    level, commands = TASKS[arguments[0]]
    code = set_up(level)
    while code == 0 and commands:
        command, *commands = commands
        code = run(*command, *(() if commands else arguments[1:]))
    return code


def set_up(level: str) -> int:
    """Bring `.venv` to `level`, doing only what is missing."""
    digest = fingerprint()
    made = usable()
    if made and STAMP.exists():
        stamped, reached = STAMP.read_text().split()
        if stamped == digest and level in list(LEVELS)[: list(LEVELS).index(reached) + 1]:
            return 0
    if not made:
        say(f"making {VENV.name} with Python {'.'.join(map(str, sys.version_info[:3]))}")
        make_venv()
    say(f"installing anabranch ({level})")
    STAMP.unlink(missing_ok=True)
    code = run(*pip(), "install", "-qq", *LEVELS[level], "--editable", ".")
    if code == 0:
        STAMP.write_text(f"{digest} {level}\n")
    return code


def fingerprint() -> str:
    """What the environment is made from; its own place counts, for its scripts hold that."""
    digest = hashlib.sha256(os.fsencode(VENV))
    for name in INPUTS:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def usable() -> bool:
    """Whether `.venv` has a Python that runs: the one that made it may have been removed since."""
    return PYTHON.exists() and subprocess.run([PYTHON, "-c", ""], check=False).returncode == 0


def make_venv() -> None:
    """An environment with pip where Python can give it one, else without."""
    try:
        if importlib.util.find_spec("ensurepip"):
            with contextlib.suppress(subprocess.CalledProcessError):  # ensurepip without its wheels
                return venv.create(VENV, clear=True, with_pip=True)
        venv.create(VENV, clear=True, with_pip=False)
    except BaseException:  # half an environment would pass for a whole one next time
        shutil.rmtree(VENV, ignore_errors=True)
        raise


def pip() -> Command:
    """The environment's own pip, or this Python's pip at work on the environment."""
    quiet = "--disable-pip-version-check"
    if [*VENV.glob("lib/*/site-packages/pip"), *VENV.glob("Lib/site-packages/pip")]:
        return (PYTHON, "-m", "pip", quiet)
    if importlib.util.find_spec("pip"):
        return (sys.executable, "-m", "pip", quiet, "--python", PYTHON)
    sys.exit("Neither pip nor ensurepip is here: install one (python3-pip or python3-venv).")


def run(*command: str | Path) -> int:
    """Run a command in the repository root; an interrupt is left for the command to handle."""
    with subprocess.Popen(command, cwd=ROOT) as child:
        while True:
            try:
                code = child.wait()
            except KeyboardInterrupt:  # the command got the same signal, and decides
                continue
            return code if code >= 0 else 128 - code


def say(step: str) -> None:
    print(f"bootstrap: {step}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
