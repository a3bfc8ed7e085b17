"""Code in another order: what must stay before what, and what must come first."""

from anabranch.backends.native.ordering import SHORT, ordered


def chain(first: int, start: str, length: int) -> list[str]:
    """Additions, each of the result of the one before."""
    names = [start, *(f"%v{first + i}" for i in range(length))]
    return [f"  {names[i + 1]} = fadd double {names[i]}, 1.0" for i in range(length)]


def test_two_chains_take_turns() -> None:
    lines = [*chain(0, "%x", SHORT), *chain(1000, "%x", SHORT)]
    found = ordered(lines)
    assert sorted(found) == sorted(lines)
    places = [found.index(line) for line in lines]
    assert places[:SHORT] == sorted(places[:SHORT])
    assert places[SHORT:] == sorted(places[SHORT:])
    assert max(places[:SHORT]) > 2 * SHORT - 4  # the first one ends together with the second


def test_what_others_wait_for_longest_comes_first() -> None:
    lines = [*(f"  %v{i} = fmul double %x, {i}.0" for i in range(SHORT)), *chain(1000, "%x", 9)]
    assert ordered(lines)[0] == lines[SHORT]


def test_reading_and_writing_memory_keep_their_order() -> None:
    lines = [
        *chain(0, "%x", SHORT),
        "  %v900 = load double, ptr %p, align 8",
        "  store double %x, ptr %p, align 8",
        "  %v901 = load double, ptr %p, align 8",
        "  call void @llvm.masked.store.v8f64.p0(double %v901, ptr %p)",
        "  %v902 = load double, ptr %p, align 8",
    ]
    found = ordered(lines)
    assert [line for line in found if line in lines[SHORT:]] == lines[SHORT:]


def test_code_in_blocks_and_short_code_stay_as_they_are() -> None:
    short = chain(0, "%x", 9)
    assert ordered([*short, "  %v99 = fdiv double %x, 3.0"])[-1] == "  %v99 = fdiv double %x, 3.0"
    lines = [*chain(0, "%x", SHORT), "  br label %next", "next:", *chain(1000, "%x", SHORT)]
    assert ordered(lines) == lines
