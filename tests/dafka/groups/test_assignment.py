from __future__ import annotations

from collections import Counter

from dafka.groups.assignment import owner
from dafka.groups.membership import Member
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


def test_literal_owner():
    # What is on other machines of this group must come to the same.
    assert [owner(partition, members(3)) for partition in PARTITIONS[:6]] == LITERAL


LITERAL = ["M0", "M2", "M2", "M0", "M2", "M0"]
