"""Panels of operands: each of the functions that copy them, beside NumPy."""

import ctypes
from typing import Any

import numpy as np
import pytest

import anabranch as ab
from anabranch.backends.native import loading, modules, target
from anabranch.backends.native.division import Division
from anabranch.backends.native.emit import register_bytes
from anabranch.backends.native.packing import Panel, packing

K = (1, 5, 16, 37)


def packed(panel: Panel, source: np.ndarray[Any, Any], k: int) -> np.ndarray[Any, Any]:
    """What `packing` chooses makes of `source`, whose first axis is the summed one."""
    depth_step, step = (s // source.itemsize for s in source.strides)
    lanes = target.host().vector_bytes // register_bytes(panel.source)
    needs: set[str] = set()
    name, steps = packing(panel, step, depth_step, lanes, needs)
    division = Division()
    head = f"define void @pack(ptr %from, ptr %to) {{\n  call void @{name}(i64 {k}, ptr %from, "
    division.add(f"{head}{steps}, ptr %to)\n  ret void\n}}", needs)
    division.close()
    texts = [*division.modules, *division.shared()]
    loaded = loading.Loaded(modules.object_codes(texts, []), ["pack"])
    out = np.full(panel.room(k) // panel.bytes, 7.0, f"f{panel.bytes}")
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(loaded.addresses["pack"])
    call(source.ctypes.data, out.ctypes.data)
    return out[: k * panel.width].reshape(k, panel.width)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ab.bfloat16])
@pytest.mark.parametrize("layout", ["rows", "columns", "any"])
@pytest.mark.parametrize("width, columns", [(1, 1), (3, 2), (13, 13), (14, 9), (32, 32), (16, 5)])
def test_a_panel_has_its_columns_and_zeros(
    dtype: Any, layout: str, width: int, columns: int
) -> None:
    rng = np.random.default_rng(0)
    for k in K:
        whole = rng.normal(size=(80, 120)).astype(dtype) + np.asarray(3, dtype)
        if layout == "columns":
            whole = np.asfortranarray(whole)
        source = whole[::2, ::3] if layout == "any" else whole
        lanes = min(8, 1 << (width - 1).bit_length()) or 1
        wide = -(-width // lanes) * lanes if layout == "rows" else width
        panel = Panel(wide, columns, lanes, np.dtype(dtype))
        found = packed(panel, source, k)
        np.testing.assert_array_equal(found[:, :columns], source[:k, :columns].astype(found.dtype))
        np.testing.assert_array_equal(found[:, columns:], 0.0)
