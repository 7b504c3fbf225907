"""Since when a gateway owns what it does not serve."""

from __future__ import annotations

from dafka.gateway.broker import KafkaPartition
from dafka.gateway.owned_partitions import SLOW_MS, OwnedPartitions

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


def test_what_takes_too_long_is_said():
    there = OwnedPartitions()
    there.look([A, B], [], 1_000)
    assert not there.complaint(SLOW_MS + 999)
    said = there.complaint(SLOW_MS + 1_000)
    assert said.startswith("partition 0 of topic 'orders' and 1 more have not been taken over")
    assert "for 30 s" in said
    there.look([A, B], [A, B], 99_000)
    assert not there.complaint(99_000)
