"""Code for other processors than this one: run where it can run, and compiled where it cannot."""

import ctypes
from typing import Any

import numpy as np
import pytest
from llvmlite import binding as llvm

import anabranch as ab
from anabranch.backends.native import loading, operands, pool, target
from anabranch.backends.native.expand import expanded
from anabranch.backends.native.program import Program


def written(vector_bytes: int, f: Any, *args: Any) -> Program:
    # Nothing is compiled for this processor here: a test may have told it that it is another.
    graph = ab.compile(f, backend="reference", passes=()).graph(*args)
    return Program(expanded(graph), vector_bytes)


def arguments(m: int, k: int, n: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)


def run_for(cpu: str, vector_bytes: int, f: Any, *args: np.ndarray) -> list[np.ndarray]:
    """The outputs of code that is made for such a processor, run on this one."""
    made = written(vector_bytes, f, *args)
    target.host()
    kind = llvm.Target.from_default_triple()
    machine = kind.create_target_machine(cpu=cpu, opt=2, jit=True, codemodel="jitdefault")
    objects = []
    for text in made.modules:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.triple = llvm.get_process_triple()
        module.data_layout = str(machine.target_data)
        module.verify()
        objects.append(machine.emit_object(module))
    loaded = loading.Loaded(objects, ["entry"], pool.imports(made.shares))
    outputs = [np.zeros(edge.aval.shape, edge.aval.dtype) for edge in made.graph.outputs]
    held = [*args, *(node.attrs["value"] for node in made.constants), *outputs]
    table = (ctypes.c_void_p * len(held))(*(array.ctypes.data for array in held))
    space = np.zeros(made.workspace + 64, np.uint8)
    entry = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(loaded.addresses["entry"])
    start = space.ctypes.data + -space.ctypes.data % 64
    assert entry(table, start, None) == 0
    return outputs


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [(5, 7, 9), (33, 20, 65), (130, 150, 140)], ids=str)
@pytest.mark.parametrize(
    ("cpu", "vector_bytes", "needs"),
    [("haswell", 32, "avx2"), ("x86-64", 16, "sse2"), ("nehalem", 16, "sse4.2")],
)
def test_code_for_smaller_registers_gives_the_same_numbers(
    cpu: str, vector_bytes: int, needs: str, size: tuple[int, int, int], dtype: Any
) -> None:
    if not llvm.get_host_cpu_features().get(needs):
        pytest.skip(f"this processor has no {needs}")

    def f(x: Any, y: Any) -> Any:
        z = x @ y
        return z, ab.sum(z * z), ab.sum(z, axis=0), x @ y[:, 0], y.T @ x.T

    x, y = arguments(*size, dtype)
    bound = size[1] * np.finfo(dtype).eps * float((np.abs(x) @ np.abs(y)).max())
    wide = x.astype(np.float64) @ y.astype(np.float64)
    found = run_for(cpu, vector_bytes, f, x, y)
    for mine, its in zip((found[0], found[3], found[4]), (wide, wide[:, 0], wide.T), strict=True):
        np.testing.assert_allclose(mine, its, rtol=0, atol=bound)
    np.testing.assert_allclose(found[1], np.sum(wide * wide), rtol=1e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_elements_have_the_same_bits_in_smaller_registers(dtype: Any) -> None:
    if not llvm.get_host_cpu_features().get("avx2"):
        pytest.skip("this processor has no avx2")

    def f(x: Any) -> Any:
        y = ab.sigmoid(x) * ab.exp(-0.5 * x * x) + ab.tanh(2.0 * x) / x
        return ab.value_and_grad(lambda x: ab.sum(x * y * ab.sqrt(x * x)))(x)[1], ab.tanh(x), y

    x = np.random.default_rng(0).normal(scale=4.0, size=1003).astype(dtype)
    x[[3, 500, 990]] = 0.0, np.inf, np.nan
    expected = ab.compile(f, backend="native", passes=())(x)
    for found, right in zip(run_for("haswell", 32, f, x), expected, strict=True):
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, ab.bfloat16])
def test_code_for_arm_compiles(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    monkeypatch.setattr(operands, "is_arm", lambda: True)
    monkeypatch.setattr(pool, "_architecture", lambda: "aarch64")
    try:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        kind = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError:
        pytest.skip("this LLVM makes no code for ARM")
    machine = kind.create_target_machine(cpu="neoverse-n1", opt=2)
    made = written(16, lambda x, y: (x @ y, ab.tanh(x), x[0] @ y), *arguments(200, 150, 160, dtype))
    for text in (*made.modules, pool._text(True), pool._text(False)):
        module = llvm.parse_assembly(text, llvm.create_context())
        module.triple = kind.triple
        module.data_layout = str(machine.target_data)
        module.verify()
        assert len(machine.emit_object(module)) > 500
