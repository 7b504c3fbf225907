"""What Kafka groups have committed, as rows among the commits of their cluster."""

from __future__ import annotations

import pytest

from dafka.gateway.broker import KafkaCommit, KafkaPartition
from dafka.gateway.commits import (
    OFFSETS,
    REACHED,
    GroupOffsets,
    covered_by,
    holding,
    is_row,
    merged,
    row_of,
    version_of,
)
from dafka.groups.commit import Commit, CommitKey, decode, encode
from dafka.limits import TOPIC_BYTES_MAX
from dafka.model import Partition
from topology.model import Topics

FIRST = KafkaPartition("orders", 0)
POSITION = Partition("orders", "A")


def numbers(topic):
    return int(topic == "orders")


def told(**rows):
    """What a group is told by an offset committed, one worked out and a position, by versions."""
    places = {"offset": row_of(OFFSETS, FIRST), "reached": row_of(REACHED, FIRST)}
    return holding({places.get(name, POSITION): one for name, one in rows.items()}, numbers)


def test_the_longest_topic_and_number_fit():
    key = CommitKey("g", row_of(OFFSETS, KafkaPartition("x" * TOPIC_BYTES_MAX, 4_095)))
    assert decode(*encode(key, Commit(1, 1, 1)))[0] == key


def test_no_link_carries_rows():
    assert not any(Topics().copies(name) for name in (OFFSETS, REACHED))


@pytest.mark.parametrize(
    ("place", "partition"),
    [
        (row_of(OFFSETS, FIRST), FIRST),
        (row_of(REACHED, FIRST), FIRST),
        (POSITION, FIRST),
        (Partition("others", "A"), None),
        (Partition(OFFSETS, "orders/1"), None),
        (Partition(OFFSETS, "others/0"), None),
        (Partition(OFFSETS, "orders/x"), None),
        (Partition(OFFSETS, "orders"), None),
    ],
)
def test_which_kafka_partition_a_commit_is_about(place, partition):
    assert covered_by(place, numbers) == partition
    assert is_row(place) == (place.topic in (OFFSETS, REACHED))


def test_of_several_stores_the_newest_holds():
    old, new = Commit(5, 1, 9), Commit(3, 2, 1)
    assert merged([{POSITION: old}, {POSITION: new}, {}]) == {POSITION: new}
    assert version_of(new) > version_of(old)


def test_the_newer_of_the_offsets_holds_and_of_equals_the_one_committed():
    committed, found = Commit(7, 2, 1, metadata="m"), Commit(5, 1, 9)
    assert told(offset=committed, reached=found).commits == {FIRST: KafkaCommit(7, metadata="m")}
    assert told(offset=found, reached=committed).commits == {FIRST: KafkaCommit(7, metadata="m")}
    assert told(offset=Commit(7, 1, 1), reached=Commit(5, 1, 1)).commits == {FIRST: KafkaCommit(7)}


def test_while_positions_are_newer_nothing_is_told():
    unclear = GroupOffsets({}, frozenset({FIRST}))
    assert told(offset=Commit(7, 1, 1), position=Commit(3, 1, 2)) == unclear
    assert told(position=Commit(3, 1, 2)) == unclear
    assert told(reached=Commit(2, 1, 2), position=Commit(3, 1, 2)).commits == {
        FIRST: KafkaCommit(2)
    }


def test_what_is_forgotten_is_nothing():
    assert told(offset=Commit(None, 2, 1), reached=Commit(5, 1, 1)) == GroupOffsets({}, frozenset())
    assert told() == GroupOffsets({}, frozenset())
