from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import WireError
from dafka.groups.membership import NOBODY, Member, Membership, decode, encode
from dafka.limits import (
    GROUP_MEMBERS_MAX,
    GROUP_MOVED_MAX,
    GROUP_TOPICS_MAX,
    MEMBERSHIP_BYTES_MAX,
)
from dafka.model import replace

topics = st.lists(st.binary(min_size=1, max_size=20), max_size=3).map(tuple)
members = st.dictionaries(
    st.text("0123456789ABCDEF.", min_size=1, max_size=34),
    st.builds(Member, topics, st.integers(100, 3_600_000)),
    max_size=4,
)
marks = st.text("0123456789abcdef", min_size=16, max_size=16)
moves = st.dictionaries(marks, st.text("0123456789ABCDEF.", min_size=1, max_size=34), max_size=4)
memberships = st.builds(Membership, st.integers(0, 2**62), st.integers(0, 9), members, moves)


@given(memberships)
def test_every_membership_survives(membership):
    assert decode(encode(membership)) == membership


def test_nobody_has_no_bytes():
    assert encode(NOBODY) == b""
    assert decode(b"") == NOBODY


def test_literal_bytes():
    membership = Membership(7, 3, {"A.1": Member((b"orders", b"\xff"), 2_000)})
    assert encode(membership) == b'[7, 3, {"A.1": [["orders", "\\udcff"], 2000]}]'
    moved = replace(membership, moved={"0f" * 8: "A.1", "1f" * 8: "A.1"})
    marks = b', {"A.1": ["0f0f0f0f0f0f0f0f", "1f1f1f1f1f1f1f1f"]}]'
    assert encode(moved) == encode(membership)[:-1] + marks


@pytest.mark.parametrize(
    "found",
    [
        7,
        [],
        [1, 2],
        [1, 2, 3],
        [-1, 2, {}],
        [True, 2, {}],
        [1.5, 2, {}],
        [2**63, 2, {}],
        [1, 2, {"A": []}],
        [1, 2, {}, 5],
        [1, 2, {}, {"A": 5}],
        [1, 2, {}, {"A": [5]}],
        [1, 2, {}, {"A": ["0F" * 8]}],
        [1, 2, {}, {"A": ["00" * 9]}],
        [1, 2, {}, {"A": [f"{number:016x}" for number in range(GROUP_MOVED_MAX + 1)]}],
        [1, 2, {}, {}, {}],
        [1, 2, {"A": [["t"], 99]}],
        [1, 2, {"A": [["t"], 3_600_001]}],
        [1, 2, {"A": [[7], 1_000]}],
        [1, 2, {"A": [7, 1_000]}],
        [1, 2, {"\ud800": [["t"], 1_000]}],
        [1, 2, {"A": [["\ud800"], 1_000]}],
        [1, 2, {"A": [["t"] * (GROUP_TOPICS_MAX + 1), 1_000]}],
        [1, 2, {str(number): [[], 1_000] for number in range(GROUP_MEMBERS_MAX + 1)}],
    ],
    ids=lambda found: str(found)[:40],
)
def test_what_is_no_membership_is_refused(found):
    with pytest.raises(WireError, match="membership"):
        decode(json.dumps(found).encode())


@pytest.mark.parametrize("octets", [b"\xff", b"[", b"[" * 50_000, bytes(MEMBERSHIP_BYTES_MAX + 1)])
def test_bytes_that_are_none_are_refused(octets):
    with pytest.raises(WireError, match="membership"):
        decode(octets)


@given(st.binary(max_size=100))
def test_any_bytes_raise_nothing_else(octets):
    try:
        decode(octets)
    except WireError:
        return
    assert octets == b""
