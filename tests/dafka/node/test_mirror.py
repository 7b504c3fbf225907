from __future__ import annotations

import pytest

from dafka.errors import MisuseError, NotStoredError
from dafka.model import Batch, Partition
from dafka.node.mirror import Mirror
from dafka.query.client import StoreClient
from dafka.records.batch import BatchBuilder, enclosed, records_of

ORDERS = Partition("orders", "AB" * 16)
OTHER = Partition("orders", "CD" * 16)
SILENCE_S = 10.0


def batch(sequence, count, partition=ORDERS):
    builder = BatchBuilder(1 << 20)
    for number in range(sequence, sequence + count):
        builder.append(5, None, b"%d" % number, ())
    return Batch(partition, sequence, count, enclosed(builder.build(), sequence))


@pytest.fixture
def make_mirror(cluster):
    made = []

    def make(**settings):
        made.append(Mirror(cluster.endpoint, **settings))
        return made[-1]

    yield make
    for mirror in made:
        mirror.close()


def held(cluster):
    with StoreClient(cluster.query) as client:
        return {
            partition: [
                record.value
                for batch in client.scan(partition, 0, head + 1)
                for record in records_of(batch)
            ]
            for partition, head in client.heads().items()
        }


def test_batches_arrive_under_their_names(stored, make_mirror):
    mirror = make_mirror()
    mirror.publish(batch(0, 2), SILENCE_S)
    mirror.publish(batch(2, 1), SILENCE_S)
    mirror.publish(batch(0, 1, OTHER), SILENCE_S)
    mirror.flush(SILENCE_S)
    assert held(stored) == {ORDERS: [b"0", b"1", b"2"], OTHER: [b"0"]}


def test_a_store_that_comes_later_gets_everything(cluster, make_mirror):
    mirror = make_mirror()
    for number in range(10):
        mirror.publish(batch(number, 1), SILENCE_S)
    cluster.store()
    mirror.flush(SILENCE_S)
    assert held(cluster) == {ORDERS: [b"%d" % number for number in range(10)]}


def test_what_is_forgotten_may_begin_again_anywhere(stored, make_mirror):
    mirror = make_mirror()
    mirror.publish(batch(0, 3), SILENCE_S)
    mirror.flush(SILENCE_S)
    mirror.forget([ORDERS])
    mirror.publish(batch(1, 3), SILENCE_S)
    mirror.flush(SILENCE_S)
    assert held(stored) == {ORDERS: [b"0", b"1", b"2", b"3"]}


def test_a_gap_at_the_target_is_waited_for_but_not_for_ever(stored, make_mirror):
    mirror = make_mirror()
    mirror.publish(batch(5, 1), SILENCE_S)
    with pytest.raises(NotStoredError, match=r"for 0\.3 s; unstored are 'orders'/ABAB") as caught:
        mirror.flush(0.3)
    assert caught.value.unstored == {ORDERS: 1}
    mirror.forget([ORDERS])
    mirror.publish(batch(0, 6), SILENCE_S)
    mirror.flush(SILENCE_S)
    assert len(held(stored)[ORDERS]) == 6


def test_the_buffer_is_bounded(cluster, make_mirror):
    mirror = make_mirror(buffer_bytes_max=250)
    for number in range(3):
        mirror.publish(batch(number, 1), SILENCE_S)
    with pytest.raises(NotStoredError, match="unstored are"):
        mirror.publish(batch(3, 1), 0.05)


def test_it_can_be_seen_to_live(cluster, make_mirror):
    mirror = make_mirror()
    assert mirror.alive
    mirror.close()
    assert not mirror.alive


def test_a_tower_that_is_none_is_refused():
    with pytest.raises(MisuseError, match="endpoint"):
        Mirror("nowhere")


def test_stores_skip_what_the_source_has_no_more(stored, make_mirror):
    mirror = make_mirror()
    mirror.begins(ORDERS, 5)
    mirror.publish(batch(5, 2), SILENCE_S)
    mirror.flush(SILENCE_S)
    with StoreClient(stored.query) as client:
        assert client.ranges()[ORDERS] == range(5, 7)
