from __future__ import annotations

import random
from collections import Counter

import pytest

from dafka.groups import assignment
from dafka.groups.assignment import evened, owner
from dafka.groups.membership import Member
from dafka.limits import GROUP_MOVED_MAX
from dafka.model import Partition

PARTITIONS = [Partition("orders", f"{number:032X}") for number in range(1_000)]
WANTS = Member((b"orders",), 1_000)


def members(count):
    return {f"M{number}": WANTS for number in range(count)}


def test_nobody_takes_what_nobody_wants():
    assert owner(PARTITIONS[0], {}) is None
    assert owner(PARTITIONS[0], {"M0": Member((b"other",), 1_000)}) is None


def test_only_who_wants_the_topic_takes_it():
    both = {"M0": Member((b"other",), 1_000), "M1": Member((b"other", b"orders"), 1_000)}
    assert {owner(partition, both) for partition in PARTITIONS} == {"M1"}


def test_the_order_in_which_members_are_named_does_not_matter():
    there = members(5)
    back = dict(reversed(there.items()))
    assert [owner(one, there) for one in PARTITIONS] == [owner(one, back) for one in PARTITIONS]


def test_shares_are_about_equal():
    shares = Counter(owner(partition, members(4)) for partition in PARTITIONS)
    assert len(shares) == 4
    assert min(shares.values()) > 200
    assert max(shares.values()) < 300


def test_a_member_that_goes_moves_only_its_own_share():
    before, after = members(4), members(3)
    for partition in PARTITIONS:
        was = owner(partition, before)
        assert was == "M3" or owner(partition, after) == was


def drawn(count, seed):
    chance = random.Random(seed)
    return [Partition("orders", f"{chance.getrandbits(128):032X}") for _ in range(count)]


def shares_of(partitions, there, moved):
    shares = Counter(dict.fromkeys(there, 0))
    shares.update(owner(partition, there, moved) for partition in partitions)
    return shares


@pytest.mark.parametrize(("count", "of"), [(12, 4), (4, 4), (5, 3), (2, 4), (100, 7), (3_000, 5)])
def test_nobody_has_much_more_than_others_once_it_is_evened(count, of):
    there = members(of)
    moves = []
    for seed in range(50 if count < 1_000 else 3):
        partitions = drawn(count, seed)
        moved = evened(partitions, there, {})
        shares = shares_of(partitions, there, moved)
        assert max(shares.values()) <= -(-count // of) + 1
        assert min(shares.values()) >= (1 if count >= of else 0)
        assert evened(partitions, there, moved) == moved, "it stays as it is"
        plain = shares_of(partitions, there, {})
        due = sum(max(0, share - count // of) for share in plain.values())
        assert len(moved) <= due, "no more than what some have above the average"
        moves.append(len(moved))
    assert sum(moves) < len(moves) * count / 2


def test_who_comes_or_goes_moves_little_also_of_what_was_moved():
    for seed in range(50):
        partitions = drawn(24, seed)
        four, three = members(4), members(3)
        before = evened(partitions, four, {})
        after = evened(partitions, three, before)
        assert set(after.values()) <= three.keys()
        was = {one: owner(one, four, before) for one in partitions}
        now = {one: owner(one, three, after) for one in partitions}
        lost = sum(name == "M3" for name in was.values())
        moved = sum(was[one] != now[one] for one in partitions)
        assert moved <= lost + 5


def test_what_is_moved_goes_to_who_wants_it():
    a, b, both = (Member(topics, 1_000) for topics in ((b"a",), (b"b",), (b"a", b"b")))
    there = {"A": a, "B": b, "C": both}
    partitions = [Partition(topic, f"{number:X}") for topic in "ab" for number in range(12)]
    moved = evened(partitions, there, {})
    for partition in partitions:
        found = owner(partition, there, moved)
        assert partition.topic.encode() in there[found].topics
    assert max(shares_of(partitions, there, moved).values()) <= 9
    stray = {assignment._mark(assignment._place(partitions[0])): "B"}
    assert owner(partitions[0], there, stray) in ("A", "C"), "who does not want it has none"


def test_of_very_many_hashing_has_to_do():
    partitions, there = drawn(20_000, 0), members(4)
    assert evened(partitions, there, {"00" * 8: "M1", "11" * 8: "gone"}) == {"00" * 8: "M1"}
    assert evened([], {}, {}) == {}


def test_what_is_moved_is_bounded():
    partitions, there = drawn(200, 1), members(4)
    assert len(evened(partitions, there, {})) > 3
    stale = {f"{number:016x}": "M1" for number in range(GROUP_MOVED_MAX)}
    room_for_three = dict(list(stale.items())[3:])
    assert len(evened(partitions, there, room_for_three)) == GROUP_MOVED_MAX
    assert evened(partitions, there, stale).keys() & stale.keys() == set()


def test_literal_owner():
    # What is on other machines of this group must come to the same.
    assert [owner(partition, members(3)) for partition in PARTITIONS[:6]] == LITERAL


LITERAL = ["M0", "M2", "M2", "M0", "M2", "M0"]
