from __future__ import annotations

import random

import pytest

from dafka.gateway.assignors import ASSIGNORS, by_range, uniform
from dafka.gateway.broker import KafkaPartition

ONE = frozenset({"orders"})
BOTH = frozenset({"orders", "other"})


def numbers(shares):
    return {name: sorted(one.number for one in share) for name, share in shares.items()}


def test_partitions_are_shared_evenly_and_few_move():
    first = uniform({"a": ONE}, {"orders": 7}, {})
    assert numbers(first) == {"a": list(range(7))}
    second = uniform({"a": ONE, "b": ONE}, {"orders": 7}, first)
    assert sorted(map(len, second.values())) == [3, 4]
    assert second["a"] < first["a"]
    third = uniform({"a": ONE, "b": ONE, "c": ONE}, {"orders": 7}, second)
    assert sorted(map(len, third.values())) == [2, 2, 3]
    assert third["a"] <= second["a"]
    assert third["b"] <= second["b"]
    left = uniform({"a": ONE, "c": ONE}, {"orders": 7}, third)
    assert third["a"] <= left["a"]
    assert third["c"] <= left["c"]


def test_members_get_only_what_they_want():
    wanted = {"a": ONE, "b": BOTH, "c": frozenset()}
    shares = uniform(wanted, {"orders": 4, "other": 2}, {})
    assert {one.topic for one in shares["a"]} == {"orders"}
    assert {KafkaPartition("other", 0), KafkaPartition("other", 1)} <= shares["b"]
    assert [len(shares[name]) for name in "abc"] == [3, 3, 0]


def test_a_range_has_the_same_numbers_of_each_topic():
    shares = by_range({"b": BOTH, "a": BOTH}, {"orders": 5, "other": 5}, {})
    assert numbers(shares) == {"a": [0, 0, 1, 1, 2, 2], "b": [3, 3, 4, 4]}


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("seed", range(50))
def test_whatever_is_wanted_each_partition_that_somebody_wants_has_one_member(name, seed):
    chance = random.Random(seed)
    before = {}
    for _ in range(10):
        counts = {topic: chance.randrange(6) for topic in "xyz"}
        members = chance.sample("abcdef", chance.randrange(7))
        wanted = {one: frozenset(chance.sample("xyz", chance.randrange(4))) for one in members}
        shares = ASSIGNORS[name](wanted, counts, before)
        assert shares.keys() == wanted.keys()
        given = [partition for share in shares.values() for partition in share]
        assert sorted(given) == sorted(
            KafkaPartition(topic, number)
            for topic, count in counts.items()
            for number in range(count)
            if any(topic in topics for topics in wanted.values())
        )
        for one, share in shares.items():
            assert {partition.topic for partition in share} <= wanted[one]
        if name == "uniform" and len(set(wanted.values())) == 1:
            sizes = [len(share) for share in shares.values()]
            assert max(sizes) - min(sizes) <= 1
        before = shares
