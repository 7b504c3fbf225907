"""Since when a gateway owns what it does not serve."""

from __future__ import annotations

import time

from dafka.gateway.broker import KafkaPartition
from dafka.gateway.owned_partitions import LateTakeovers, OwnedPartitions

A, B = KafkaPartition("orders", 0), KafkaPartition("orders", 1)


def test_what_is_not_served_yet_is_known_with_how_long_that_lasts():
    there = OwnedPartitions()
    there.look([A, B], [A], 1_000)
    there.look([A, B], [A], 3_000)
    assert list(there.beginning) == [B]
    assert there.longest_ms(4_000) == 3_000
    there.look([A, B], [B], 5_000)
    assert list(there.beginning) == [A]
    assert there.longest_ms(5_000) == 0
    there.look([B], [B], 6_000)
    assert not there.beginning
    assert there.longest_ms(9_000) == 0


def test_what_takes_too_long_is_said_with_what_it_waits_for():
    late = LateTakeovers()
    assert not late.complaint()
    assert late.note(A, "a lease")
    assert not late.note(A, "stores to be read"), "it is late already"
    assert not late.note(B, "a lease"), "that there are several is said of the tenth"
    said = "2 partitions of its own it does not serve yet: orders/0 waits for stores to be read"
    assert late.complaint() == said
    late.over(A)
    assert late.complaint().endswith("orders/1 waits for a lease")
    late.over(B)
    assert not late.complaint()


def test_of_thousands_that_are_late_people_are_told_a_few_times():
    late = LateTakeovers()
    told = [n for n in range(1, 2_001) if late.note(KafkaPartition("orders", n), "a lease")]
    assert told == [1, 10, 100, 1_000]


def test_thousands_that_are_late_do_not_cost_a_lease():
    late = LateTakeovers()
    partitions = [KafkaPartition("orders", number) for number in range(20_000)]
    began_s = time.process_time()
    for partition in partitions:
        late.note(partition, "a lease")
    for partition in partitions:
        late.over(partition)
    assert time.process_time() - began_s < 1
