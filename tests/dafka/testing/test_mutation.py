"""Mutations change frames, and the seeded ones are the same at every run."""

from __future__ import annotations

import random

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from dafka.testing.mutation import EDITS_MAX, Edit, MutationKind, edited, edits, random_edits

FRAMES = [b"abcdef", b"ghi"]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (Edit(MutationKind.OVERWRITE, 0, 1, b"XY"), [b"aXYdef", b"ghi"]),
        (Edit(MutationKind.OVERWRITE, 1, 2, b"XY"), [b"abcdef", b"ghX"]),
        (Edit(MutationKind.INSERT, 1, 3, b"XY"), [b"abcdef", b"ghiXY"]),
        (Edit(MutationKind.CUT, 0, 2, b"XY"), [b"ab", b"ghi"]),
        (Edit(MutationKind.REMOVE, 0, 1, b"XY"), [b"adef", b"ghi"]),
        (Edit(MutationKind.REPEAT, 1, 1, b"X"), [b"abcdef", b"ghihi"]),
        (Edit(MutationKind.ADD_FRAME, 2, 0, b"X"), [b"abcdef", b"ghi", b"X"]),
        (Edit(MutationKind.DROP_FRAME, 0, 0, b"X"), [b"ghi"]),
        (Edit(MutationKind.SWAP_FRAMES, 0, 1, b"X"), [b"ghi", b"abcdef"]),
        (Edit(MutationKind.CUT, 4, 9, b""), [b"ab", b"ghi"]),
    ],
)
def test_one_edit(edit, expected):
    assert edited(FRAMES, [edit]) == expected


@given(st.lists(st.binary()), edits)
def test_any_frames_can_be_edited(frames, some):
    before = list(frames)
    assert all(isinstance(frame, bytes) for frame in edited(frames, some))
    assert frames == before


def test_the_same_seed_draws_the_same():
    drawn = [random_edits(random.Random(3)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert 1 <= len(drawn[0]) <= EDITS_MAX


def test_every_kind_is_drawn_by_both():
    chance = random.Random(1)
    assert {edit.kind for _ in range(200) for edit in random_edits(chance)} == {*MutationKind}
    first = settings(phases=[Phase.generate], max_examples=2_000)  # not the smallest
    for kind in MutationKind:
        assert find(edits, lambda some, kind=kind: some[0].kind is kind, settings=first)
