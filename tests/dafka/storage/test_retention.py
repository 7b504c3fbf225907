from __future__ import annotations

import random

from dafka.model import Batch, Partition
from dafka.storage.memory import MemoryLog
from dafka.storage.retention import NO_FLOOR, HoldBounds, Retainer, Retention

A, B = Partition("orders", "A"), Partition("orders", "B")
OTHER = Partition("other", "A")


class Filled:
    """A log of batches of 100 bytes and 10 records, each arrived when the test says."""

    def __init__(self):
        self.now_ms = 0
        self.log = MemoryLog("AB" * 16, clock=lambda: self.now_ms)

    def add(self, partition, time_ms, size=100):
        self.now_ms = time_ms
        sequence = self.log.heads().get(partition, -1) + 1
        self.log.append([Batch(partition, sequence, 10, bytes(size))])

    def due(self, *rules, now_ms, batches_max=1_000, floors=None):
        floors = floors or {}
        return Retainer(rules).due(
            self.log, now_ms, batches_max, lambda partition: floors.get(partition, 0)
        )

    def step(self, *rules, now_ms, batches_max=1_000, floors=None):
        trims = self.due(*rules, now_ms=now_ms, batches_max=batches_max, floors=floors).trims
        self.log.append([], trims=trims)
        return trims


def test_without_rules_everything_is_kept():
    filled = Filled()
    filled.add(A, 0)
    assert filled.step(now_ms=10**15) == {}
    assert filled.step(Retention(topics="other", age_ms=1), now_ms=10**15) == {}


def test_old_batches_go():
    filled = Filled()
    for time_ms in (100, 200, 300):
        filled.add(A, time_ms)
    filled.add(B, 250)
    rule = Retention(topics="ord*", age_ms=1_000)
    assert filled.step(rule, now_ms=1_100) == {}
    assert filled.step(rule, now_ms=1_201) == {A: 20}
    assert filled.step(rule, now_ms=5_000) == {A: 30, B: 10}
    assert filled.step(rule, now_ms=5_000) == {}
    assert filled.log.heads() == {A: 29, B: 9}


def test_a_late_clock_keeps_longer():
    filled = Filled()
    filled.add(A, 9_000)
    filled.add(A, 100)
    assert filled.step(Retention(topics="*", age_ms=1_000), now_ms=2_000) == {}


def test_the_oldest_of_a_topic_go_first_whatever_their_partition():
    filled = Filled()
    for time_ms, partition in ((1, A), (2, B), (3, B), (4, A), (5, A)):
        filled.add(partition, time_ms)
    filled.add(OTHER, 0)
    rule = Retention(topics="*", bytes_max=250)
    assert filled.step(rule, now_ms=0) == {A: 10, B: 20}
    assert filled.step(rule, now_ms=0) == {}
    assert filled.log.heads()[OTHER] == 9


def test_the_first_rule_that_matches_counts():
    filled = Filled()
    filled.add(A, 0)
    filled.add(OTHER, 0)
    rules = Retention(topics="orders"), Retention(topics="*", age_ms=1)
    assert filled.step(*rules, now_ms=100) == {OTHER: 10}


def test_what_goes_by_age_counts_for_the_bytes():
    filled = Filled()
    for time_ms in range(10):
        filled.add(A, time_ms)
    rule = Retention(topics="*", age_ms=5, bytes_max=600)
    assert filled.step(rule, now_ms=10) == {A: 50}
    assert filled.step(rule, now_ms=10) == {}


def test_a_step_is_bounded_and_the_next_goes_on():
    filled = Filled()
    for time_ms in range(10):
        filled.add(A, time_ms)
        filled.add(OTHER, time_ms)
    rules = Retention(topics="orders", age_ms=0), Retention(topics="other", bytes_max=100)
    steps = []
    while trims := filled.step(*rules, now_ms=100, batches_max=4):
        steps.append(trims)
    assert steps == [{A: 40}, {A: 80}, {A: 100, OTHER: 20}, {OTHER: 60}, {OTHER: 90}]


def test_age_and_bytes_of_one_topic_are_both_kept_to():
    for seed in range(50):
        chance = random.Random(seed)
        filled = Filled()
        for time_ms in range(60):
            filled.add(chance.choice((A, B)), time_ms, chance.randrange(1, 200))
        rule = Retention(topics="*", age_ms=chance.randrange(1, 60), bytes_max=2_000)
        while filled.step(rule, now_ms=60, batches_max=chance.randrange(1, 70)):
            pass
        kept = filled.log.extents()
        assert sum(one.size for one in kept.values()) <= 2_000
        for one in kept.values():
            assert one.start > one.head or one.oldest_ms >= 60 - rule.age_ms


def test_no_rule_for_everything_drops_what_the_cluster_itself_needs():
    for pattern in ("*", "[_a]*", "?schemas"):
        assert not Retention(topics=pattern).covers("_schemas")
    assert Retention(topics="*").covers("orders_1")
    assert Retention(topics="_sch*").covers("_schemas")


HELD = Retention(
    topics="*", age_ms=100, bytes_max=1_000, hold=HoldBounds(age_ms=1_000, bytes_max=2_000)
)


def filled_with(count, partition=A):
    filled = Filled()
    for time_ms in range(count):
        filled.add(partition, time_ms)
    return filled


def test_silence_holds():
    filled = filled_with(5)
    assert filled.step(HELD, now_ms=999) == {}


def test_what_nobody_lacks_goes_by_its_rule():
    filled = filled_with(5)
    assert filled.step(HELD, now_ms=150, floors={A: 29}) == {A: 20}
    assert filled.step(HELD, now_ms=150, floors={A: 30}) == {A: 30}
    assert filled.step(HELD, now_ms=150, floors={A: NO_FLOOR}) == {A: 50}


def test_a_hold_ends_with_its_age_and_that_is_told():
    filled = filled_with(5)
    due = filled.due(HELD, now_ms=500)
    assert (due.trims, due.used, due.released(filled.log.extents())) == ({}, 0.5, {})
    due = filled.due(HELD, now_ms=1_002, floors={A: 15})
    assert due.trims == {A: 20}
    assert due.released(filled.log.extents()) == {A: 5}
    filled.step(HELD, now_ms=1_002)
    assert filled.due(HELD, now_ms=1_003).released(filled.log.extents()) == {A: 10}


def test_what_is_not_old_by_its_rule_is_not_said_to_be_held():
    filled = filled_with(5)
    assert filled.due(HELD, now_ms=100).used == 0.0


def test_beyond_its_bytes_a_topic_keeps_what_is_held_up_to_those_of_the_hold():
    filled = filled_with(15)
    due = filled.due(HELD, now_ms=20)
    assert (due.trims, due.used) == ({}, 0.75)
    assert filled.step(HELD, now_ms=20, floors={A: 20}) == {A: 20}
    assert filled.step(HELD, now_ms=20, floors={A: NO_FLOOR}) == {A: 50}


def test_beyond_the_bytes_of_a_hold_the_oldest_go_and_that_is_told():
    filled = filled_with(25)
    due = filled.due(HELD, now_ms=30, floors={A: 20})
    assert due.trims == {A: 50}
    assert due.released(filled.log.extents()) == {A: 30}


def test_of_a_topic_those_partitions_go_that_nobody_lacks():
    filled = Filled()
    for time_ms in range(6):
        filled.add(A, time_ms)
        filled.add(B, time_ms)
    assert filled.step(HELD, now_ms=20, floors={B: 60}) == {B: 20}


def test_without_a_hold_floors_are_not_asked_for():
    filled = filled_with(15)
    rule = Retention(topics="*", age_ms=100, bytes_max=1_000)
    due = filled.due(rule, now_ms=20)
    assert (due.trims, due.floors, due.used) == ({A: 50}, {}, 0.0)


def test_nothing_that_is_held_goes_before_a_bound_of_its_hold():
    """Whatever floors are: what is dropped is below them, or a bound is reached."""
    for seed in range(100):
        chance = random.Random(seed)
        filled = Filled()
        for time_ms in range(chance.randrange(60)):
            filled.add(chance.choice((A, B)), time_ms, chance.randrange(1, 200))
        floors = {A: chance.randrange(600), B: chance.randrange(600)}
        now_ms = chance.randrange(1_100)
        before = dict(filled.log.extents())
        while due := filled.step(
            HELD, now_ms=now_ms, batches_max=chance.randrange(1, 9), floors=floors
        ):
            after = filled.log.extents()
            over = sum(one.size for one in before.values()) > HELD.hold.bytes_max
            assert now_ms > HELD.hold.age_ms or over or all(due[one] <= floors[one] for one in due)
            before = dict(after)
        kept = filled.log.extents().values()
        assert sum(one.size for one in kept) <= HELD.hold.bytes_max
        assert all(one.start > one.head or one.oldest_ms >= now_ms - 1_000 for one in kept)
