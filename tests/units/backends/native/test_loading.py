"""Object files in memory: as LLVM links them, by a way of our own where the files are known."""

import ctypes
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from anabranch.backends.native import loading, target
from anabranch.backends.native.loading import Loaded

IR = """
@counter = global i64 40
@table = internal constant [3 x i64] [i64 5, i64 7, i64 11]
@room = internal global [4096 x i8] zeroinitializer, align 64
declare i64 @given(i64)
declare ptr @memset(ptr, i32, i64)
define i64 @next() {
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  ret i64 %new
}
define i64 @entry(i64 %i) {
  %place = getelementptr [3 x i64], ptr @table, i64 0, i64 %i
  %one = load i64, ptr %place
  %two = call i64 @given(i64 %one)
  %three = call i64 @next()
  %set = call ptr @memset(ptr @room, i32 3, i64 4096)
  %last = getelementptr i8, ptr @room, i64 4095
  %byte = load i8, ptr %last
  %four = zext i8 %byte to i64
  %sum = add i64 %two, %three
  %all = add i64 %sum, %four
  ret i64 %all
}
"""
CALLS = """
declare i64 @entry(i64)
@counter = external global i64
define i64 @outer() {
  %one = call i64 @entry(i64 2)
  %two = load i64, ptr @counter
  %sum = add i64 %one, %two
  ret i64 %sum
}
"""
Number = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
known_here = pytest.mark.skipif(
    not loading._is_known_here(), reason="LLVM links all files on this system"
)


@pytest.fixture(scope="module")
def objects() -> list[bytes]:
    return [target.emitted(IR), target.emitted(CALLS)]


@pytest.fixture
def given() -> Any:
    return Number(lambda x: x * 100)


def address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


@pytest.mark.parametrize("by", ["us", "LLVM"])
def test_files_find_one_another_what_is_given_and_the_c_library(
    by: str, objects: list[bytes], given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "LLVM":
        monkeypatch.setattr(loading, "_is_known_here", lambda: False)
    loaded = Loaded(objects, ["entry", "outer", "counter"], {"given": address(given)})
    is_ours = by == "us" and loading._is_known_here()
    assert isinstance(loaded._held, target.Linked) == (not is_ours)
    entry, outer = Number(loaded.addresses["entry"]), Number(loaded.addresses["outer"])
    assert [entry(0), entry(1)] == [500 + 41 + 3, 700 + 42 + 3]
    assert outer(0) == 1100 + 43 + 3 + 43
    assert ctypes.c_int64.from_address(loaded.addresses["counter"]).value == 43


@known_here
def test_each_copy_has_data_of_its_own_and_so_has_a_child(objects: list[bytes], given: Any) -> None:
    copies = [Loaded(objects, ["next"], {"given": address(given)}) for _ in range(2)]
    first, second = (Number(one.addresses["next"]) for one in copies)
    assert [first(0), first(0), second(0)] == [41, 42, 41]
    child = os.fork()
    if child == 0:
        os._exit(0 if first(0) == 43 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert first(0) == 43  # what the child has counted is the child's


@known_here
def test_no_memory_can_be_both_written_and_run(objects: list[bytes], given: Any) -> None:
    loaded = Loaded(objects, ["entry", "counter"], {"given": address(given)})
    rights = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        places, right, *_ = line.split()
        start, end = (int(place, 16) for place in places.split("-"))
        for name, place in loaded.addresses.items():
            if start <= place < end:
                rights[name] = right
    assert rights == {"entry": "r-xp", "counter": "rw-p"}


@known_here
def test_what_is_not_known_is_left_to_llvm(
    objects: list[bytes], given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports = {"given": address(given)}

    def is_ours(files: list[bytes], **more: int) -> bool:
        try:
            loading._placed(files, imports | more)
        except (loading._ForeignError, OSError):
            return False
        return True

    assert is_ours(objects)
    whole = objects[0]
    assert not is_ours([b"MZ" + whole[2:]])
    assert not is_ours([whole[:18] + struct.pack("<H", 183) + whole[20:]])  # another processor
    assert not is_ours([whole, whole])  # two of the same name
    assert not is_ours([objects[1]])  # nobody has `entry`
    assert is_ours([objects[1]], entry=1, counter=2)
    assert not is_ours([_with(whole, "kind of a relocation", 10)])
    assert is_ours([_with(whole, "kind of a relocation", 24)])
    assert not is_ours([_with(whole, "kind of a relocation", 2)], given=2**62)  # too far for it
    assert not is_ours([_with(whole, "kind of a section", 14)])
    assert not is_ours([_with(whole, "kind of relocations", 9)])
    assert not is_ours([_with(whole, "section of a symbol", 0xFFF2)])
    monkeypatch.setattr(loading, "_READ_AND_RUN", 0x1000)  # which no system knows
    assert not is_ours(objects)


def _with(data: bytes, part: str, value: int) -> bytes:
    """The file with another number in one place."""
    start, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(count)]
    changed = bytearray(data)
    for i, (_, kind, flags, _, offset, size, _, info, *_) in enumerate(rows):
        place = start + 64 * i + 4
        if part == "kind of a section" and kind == 1 and flags & 2:
            struct.pack_into("<I", changed, place, value)
        elif kind == 4 and rows[info][1] == 1 and rows[info][2] & 4:
            if part == "kind of relocations":
                struct.pack_into("<I", changed, place, value)
            elif part == "kind of a relocation":
                for row in range(offset, offset + size, 24):
                    struct.pack_into("<I", changed, row + 8, value)
        elif kind == 2 and part == "section of a symbol":
            struct.pack_into("<H", changed, offset + 24 + 6, value)
    assert changed != data
    return bytes(changed)
