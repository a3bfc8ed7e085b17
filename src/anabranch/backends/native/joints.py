"""IR between the parts of a program: the entry that runs them, calls back, looks at a clock."""

from __future__ import annotations

import time

CLOCK = getattr(time, "CLOCK_MONOTONIC", 0)  # the number of the system's clock for durations
TAKEN = "ptr %given, ptr %workspace, ptr %context"


def asked(name: str, number: int, frame: str) -> list[str]:
    """A call back, behind which the program goes on if nothing was raised."""
    return [
        f"  %b{name} = load ptr, ptr %context",
        f"  %r{name} = call i32 %b{name}(ptr %context, i64 {number}, ptr {frame})",
        f"  %c{name} = icmp eq i32 %r{name}, 0",
        f"  br i1 %c{name}, label %after{name}, label %failed",
        f"after{name}:",
    ]


def entry_of(parts: int, is_timed: bool) -> str:
    """The entry of a program in parts: one after the other, until one fails."""
    clock = ", ptr %clock, ptr %times" if is_timed else ""
    lines = [f"define i32 @entry({TAKEN}{clock}) {{", "entry:"]
    if is_timed:
        lines += [*_noted(0), *_noted(1)]
    for i in range(parts):
        lines += [
            f"  %r{i} = call i32 @part{i}({TAKEN})",
            f"  %c{i} = icmp eq i32 %r{i}, 0",
            f"  br i1 %c{i}, label %after{i}, label %failed",
            f"after{i}:",
        ]
        if is_timed:
            lines += _noted(i + 2)
    return "\n".join([*lines, "  ret i32 0", "failed:", "  ret i32 1", "}"])


def _noted(place: int) -> list[str]:
    """Take the time: seconds and nanoseconds."""
    return [
        f"  %t{place} = getelementptr i8, ptr %times, i64 {16 * place}",
        f"  %s{place} = call i32 %clock(i32 {CLOCK}, ptr %t{place})",
    ]
