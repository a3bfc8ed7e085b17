"""The plan of a program's memory: what is alive together lies apart, the rest shares."""

import itertools
import random

from anabranch.backends.native.memory import Gaps, planned


def test_values_of_one_step_lie_apart_and_dead_ones_make_room() -> None:
    rooms, size = planned([[("a", 100)], [("a", 100), ("b", 64)], [("b", 64), ("c", 128)]])
    assert {key: room.offset for key, room in rooms.items()} == {"a": 0, "b": 128, "c": 0}
    assert size == 192  # 100 bytes take 128
    assert (rooms["b"].born, rooms["b"].dies) == (1, 2)


def test_nothing_takes_nothing() -> None:
    rooms, size = planned([[("empty", 0), ("a", 8)], [("empty", 0)]])
    assert size == 64
    assert rooms["empty"].size == 0
    assert planned([]) == ({}, 0)


def test_the_smallest_gap_that_holds_it() -> None:
    gaps = Gaps()
    places = [gaps.take(size) for size in (256, 64, 128, 64)]
    gaps.give(places[0], 256)
    gaps.give(places[2], 128)
    assert gaps.take(128) == places[2]
    assert gaps.take(192) == places[0]
    assert gaps.take(64) == places[0] + 192
    assert gaps.top == 512


def test_neighbours_join_on_either_side() -> None:
    gaps = Gaps()
    places = [gaps.take(64) for _ in range(3)]
    for number in (0, 2, 1):
        gaps.give(places[number], 64)
    assert gaps.take(192) == 0
    assert gaps.top == 192


def test_no_two_values_alive_share_a_byte() -> None:
    rng = random.Random(5)
    alive: dict[int, int] = {}
    uses = []
    for number in range(400):
        alive[number] = rng.choice((8, 64, 200, 1000, 5000))
        for key in rng.sample(sorted(alive), min(len(alive), rng.randrange(3))):
            if key != number:
                alive.pop(key, None)
        uses.append([(number, alive[number]), *rng.sample(sorted(alive.items()), 1)])
    rooms, top = planned(uses)
    for time in range(len(uses)):
        here = sorted((r.offset, r.size) for r in rooms.values() if r.born <= time <= r.dies)
        for (start, size), (following, _) in itertools.pairwise(here):
            assert start + size <= following
        assert here[-1][0] + here[-1][1] <= top
