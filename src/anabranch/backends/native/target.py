"""What needs LLVM: the machine that code is made for, and the way from IR text to machine code."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import binding as llvm

from anabranch.backends.native import disk
from anabranch.core.record import record


@record
class Machine:
    """What emitters need to know of the processor.

    Attributes:
        cpu, features: as LLVM names them; part of what compiled code is filed under.
        vector_bytes: the width of its vector registers.
    """

    cpu: str
    features: str
    vector_bytes: int


@functools.lru_cache(maxsize=1)
def host() -> Machine:
    """The processor that runs this program."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        width = 64
    elif features.get("avx"):
        width = 32
    else:
        width = 16  # SSE2 and NEON
    return Machine(llvm.get_host_cpu_name(), features.flatten(), width)


def target_machine() -> Any:
    """What turns modules into machine code; one thread may use it at a time."""
    machine = host()
    target = llvm.Target.from_default_triple()
    features = machine.features
    if machine.vector_bytes == 64:  # LLVM would rather use half of such registers
        features += ",-prefer-256-bit"
    # Code is emitted as it should run: what passes could add costs more time than it saves.
    return target.create_target_machine(
        cpu=machine.cpu, features=features, opt=2, jit=True, codemodel="jitdefault"
    )


@functools.lru_cache(maxsize=1)
def _emitter() -> Any:
    return target_machine()


@functools.lru_cache(maxsize=1)
def linker() -> Any:
    """One linker for the process, which takes over the target machine that it gets."""
    return llvm.create_lljit_compiler(target_machine(), use_jit_link=False)


_numbers = itertools.count()


def emitted(ir: str) -> bytes:
    """Machine code for a module of IR text, made now.

    Raises:
        RuntimeError: where the text is not a legal module, which is a fault of its emitter.
    """
    machine = _emitter()
    with parsed(ir, machine) as module:
        code: bytes = machine.emit_object(module)
    disk.counts.emitted += 1
    return code


def parsed(ir: str, machine: Any) -> Any:
    """A module of IR text, for this machine; in a context of its own, so that it goes with it."""
    module = llvm.parse_assembly(ir, llvm.create_context())
    module.triple = llvm.get_process_triple()
    module.data_layout = str(machine.target_data)
    try:
        module.verify()
    except RuntimeError:
        module.close()  # before its context, in which order the garbage collector may not do it
        raise
    return module


def assembly(ir: str) -> str:
    """The same as text, to be read."""
    machine = _emitter()
    with parsed(ir, machine) as module:
        text: str = machine.emit_assembly(module)
    return text


class Linked:
    """Object files that LLVM has linked, for as long as this object lives."""

    def __init__(
        self, objects: Sequence[bytes], names: Sequence[str], imports: Mapping[str, int]
    ) -> None:
        builder = llvm.JITLibraryBuilder()
        for one in objects:
            builder.add_object_img(one)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        for name in names:
            builder.export_symbol(name)
        self._library = builder.link(linker(), f"graph{next(_numbers)}")
        self.addresses: Mapping[str, int] = {name: self._library[name] for name in names}
