"""Frames follow from the order, and what is known after each."""

import pytest

from anabranch.inspection.captions import heading, sums
from anabranch.inspection.facts import facts, kind
from anabranch.inspection.frames import Index, frames_of, gradient, state_at, summed


def states(trace):
    index, frames = Index(trace), frames_of(trace)
    return index, [state_at(index, frames, k) for k in range(len(frames))]


@pytest.mark.proves("S1-35", "S1-36")
def test_the_frames_of_the_worked_expression(story):
    kinds = [(f.kind, f.item) for f in frames_of(story)]
    assert kinds == [
        *(("forward", i) for i in range(5)),
        ("seed", 4),
        ("backward", 4),
        ("backward", 3),
        ("backward", 2),
        ("end", 4),
    ]


@pytest.mark.proves("S1-36", "S1-40")
def test_the_gradient_of_x_is_none_then_16_then_64(story):
    index, all_ = states(story)
    assert [gradient(index, s, 0) for s in all_[-5:]] == [
        None,
        None,
        {"v": 16},
        {"v": 64},
        {"v": 64},
    ]
    assert [gradient(index, s, 1) for s in all_[-5:]] == [None, None, None, {"v": 32}, {"v": 32}]


def test_nothing_is_zero_before_it_has_arrived(story):
    index, all_ = states(story)
    assert all(gradient(index, all_[4], n) is None for n in range(5))
    del story["nodes"][1]["grad"], story["edges"][1]["contribution"]
    index, all_ = states(story)
    assert gradient(index, all_[-1], 1) is None


def test_the_captions_are_the_arithmetic(story):
    index, all_ = states(story)
    assert heading(index, all_[2]) == "Forward 3 of 5: p = x × y"
    assert sums(index, all_[2]) == ["∂p/∂x = 3", "∂p/∂y = 2"]
    assert heading(index, all_[8]) == "Backward 4 of 4: p passes its gradient on"
    assert sums(index, all_[8]) == ["x: 16 × 3 = 48, 16 + 48 = 64", "y: 16 × 2 = 32"]
    assert sums(index, all_[6]) == ["s: 1 × 8 = 8", "s: 1 × 8 = 8, 8 + 8 = 16"]
    assert heading(index, all_[9]) == "Result: all gradients are known"


def test_without_a_backward_pass_the_story_ends_after_forward(story):
    story["order"]["backward"] = []
    del story["seed"]
    assert [f.kind for f in frames_of(story)] == ["forward"] * 5


def test_a_closed_scope_is_one_frame_when_its_last_node_ran(story):
    story["scopes"].append({"id": 1, "name": "inner", "parent": 0})
    for i in (0, 2, 3):
        story["nodes"][i]["scope"] = 1
    frames = frames_of(story, set())
    assert [(f.kind, f.item, f.nodes) for f in frames] == [
        ("forward", 1, (1,)),
        ("forward", "s1", (0, 2, 3)),
        ("forward", 4, (4,)),
        ("seed", 4, (4,)),
        ("backward", 4, (4,)),
        ("backward", "s1", (3, 2)),
        ("end", 4, ()),
    ]
    index = Index(story)
    assert heading(index, state_at(index, frames, 1)) == "Forward 2 of 3: inner ran"
    assert frames_of(story, {1}) == frames_of(story)


def test_a_story_made_by_hand(story):
    story["frames"] = [
        {"kind": "forward", "node": 0},
        {"kind": "note", "node": 0, "title": "look", "text": "here"},
        {"kind": "backward", "node": 4},
    ]
    frames = frames_of(story)
    assert [(f.kind, f.part, f.of, f.title) for f in frames] == [
        ("forward", 1, 1, ""),
        ("note", 1, 1, "look"),
        ("backward", 1, 1, ""),
    ]
    index = Index(story)
    assert heading(index, state_at(index, frames, 1)) == "Note: look"


def test_sums_of_tensors_are_kept_where_their_elements_are():
    assert summed([{"v": [1, [2.5]]}, {"v": [3, ["inf"]]}]) == {"v": [4.0, float("inf")]}
    assert summed([{"v": 1}, {"n": 100, "norm": 2}]) == {}


def test_facts_of_what_is_told_only_in_numbers():
    found = facts(
        {
            "n": 100,
            "nan": 1,
            "inf": 2,
            "zero": 3,
            "negative": 40,
            "norm": 5,
            "hist": {"lo": -1, "hi": 1, "bins": list(range(32))},
            "grid": {"rows": 1, "cols": 2, "mean": [1, "nan"]},
        },
        [10, 10],
    )
    assert found.broken == 3 and found.bins == [4 * k + 1 for k in range(16)] and found.cols == 2


@pytest.mark.parametrize(
    ("dtype", "short"),
    [
        ("float32", "f32[2]"),
        ("bfloat16", "bf16[2]"),
        ("uint8", "u8[2]"),
        ("int64", "i64[2]"),
        ("complex128", "c128[2]"),
        ("bool", "bool[2]"),
        ("a\nb", "a␤b[2]"),
    ],
)
def test_types_are_written_short(dtype, short):
    assert kind({"dtype": dtype, "shape": [2]}) == short
