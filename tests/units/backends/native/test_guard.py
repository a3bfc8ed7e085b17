"""No kernel touches memory that is not its own, whatever the length."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.backends.native import driving, modules
from anabranch.backends.native.entry import Text
from anabranch.backends.native.kernels import KERNELS
from anabranch.backends.native.raw import RawText
from anabranch.backends.native.reductions import REDUCTIONS
from anabranch.backends.native.writer import Writer
from anabranch.core.op import Kernel
from anabranch.core.registry import registered_ops

SCRIPT = Path(__file__).with_name("guarded.py")
GUARDED = runpy.run_path(str(SCRIPT))
KINDS = GUARDED["KINDS"]


def finished(*words: str) -> str:
    """The last case that a script named, and what became of it."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    case = done.stdout.splitlines()[-1:] or ["nothing ran"]
    return "" if done.returncode == 0 else f"{case[0]}: {done.returncode}\n{done.stderr}"


def kinds_of(writer: type) -> set[type]:
    return {writer}.union(*map(kinds_of, writer.__subclasses__()))


@pytest.mark.slow
def test_every_kind_of_kernel_is_guarded() -> None:
    """A new kernel, reduction or writer wants a case in `guarded.py`."""
    used = GUARDED["made_of"]()
    wanted = {op.lower for op in registered_ops() if isinstance(op.lower, Kernel)}
    assert wanted - used == set()
    assert {kernel.name for kernel in wanted} == set(KERNELS)
    assert set(REDUCTIONS) - used == set()
    writers = {writer for writer in kinds_of(Writer) if not writer.__subclasses__()}
    touching = writers - set(driving.Part.__subclasses__())  # which only call what touches elements
    assert touching - used == {Text, RawText}  # which write entries, and touch no elements


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_tails_stay_inside(kind: str) -> None:
    assert finished(str(SCRIPT), kind) == ""


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_tails_of_every_length_stay_inside(kind: str) -> None:
    assert finished(str(SCRIPT), kind, "every") == ""


@pytest.mark.parametrize("offset", [-1, 64])
def test_the_guard_is_there(offset: int) -> None:
    program = f"""
import sys, ctypes
sys.path.insert(0, {str(SCRIPT.parent)!r})
from guarded import guarded
place = guarded(64, at_end={offset > 0})
ctypes.c_char.from_address(place + 63).value
ctypes.c_char.from_address(place).value
print("before the fault", flush=True)
ctypes.c_char.from_address(place + {offset}).value
"""
    assert finished("-c", program).startswith("before the fault: -")


def test_no_module_gets_through_that_is_illegal() -> None:
    with pytest.raises(RuntimeError):
        modules.object_code("define i32 @f() {\nentry:\n  %x = add i32 1, 1\n}")
    with pytest.raises(RuntimeError, match="dominate"):
        modules.object_code(
            "define i32 @f() {\nentry:\n  br label %b\na:\n  %x = add i32 1, 1\n  br label %b\n"
            "b:\n  ret i32 %x\n}"
        )
