"""Producers and consumers that connect to stores only, in this process over TCP."""

from __future__ import annotations

import time

import pytest

from dafka.model import SLOTS, Slots
from tests.support.small_cluster import SmallCluster, endpoints, peers, send, values

pytestmark = pytest.mark.net


@pytest.fixture
def cluster(tmp_path, free_ports, reopened):
    """A tower and two stores."""
    cluster = SmallCluster(tmp_path, free_ports, reopened, stores=2)
    cluster.start_tower()
    for number in range(2):
        cluster.store(number)
    yield cluster
    cluster.close()


@pytest.mark.parametrize("writes", ["direct", "stores"])
@pytest.mark.parametrize("reads", ["direct", "stores"])
@pytest.mark.parametrize("isolation", ["published", "stored"])
def test_records_get_from_each_kind_to_each(cluster, writes, reads, isolation):
    consumer = cluster.consumer("orders", delivery=reads, isolation=isolation)
    producer = cluster.producer(delivery=writes)
    send(producer, *range(10))
    assert values(consumer, 10) == [*range(10)]
    send(producer, *range(10, 20))
    assert values(consumer, 10) == [*range(10, 20)]


def test_guests_are_connected_to_stores_only(cluster, until):
    consumers = [cluster.consumer("orders", delivery="stores") for _ in range(3)]
    producer = cluster.producer(delivery="stores")
    send(producer, 1)
    assert [values(consumer, 1) for consumer in consumers] == [[1]] * 3
    until(lambda: peers(producer, *consumers) == [2] * 4)
    assert len({tuple(endpoints(one)) for one in (producer, *consumers)}) == 1


def test_guests_of_stores_that_share_slots_get_everything_and_listen_at_each_share(
    make_cluster, until
):
    cluster = make_cluster(towers=1, stores=4)
    cluster.start_tower()
    shares = [Slots.of([range(2_048)]), Slots.of([range(2_048, SLOTS)])] * 2
    stores = [cluster.store(number, slots=slots) for number, slots in enumerate(shares)]
    consumer = cluster.consumer("orders", delivery="stores")
    producers = [cluster.producer(delivery="stores", min_acks=2) for _ in range(8)]
    for number, producer in enumerate(producers):
        send(producer, number)
    assert sorted(values(consumer, 8)) == [*range(8)]
    until(lambda: peers(*producers, consumer) == [4] * 9)
    # Of each share one is gone: what the others have stored since comes at once.
    for store in stores[:2]:
        store.close()
    for number, producer in enumerate(producers):
        producer.send("orders", str(number + 8).encode())
    assert sorted(values(consumer, 8)) == [*range(8, 16)]


def test_a_late_guest_gets_everything_and_a_group_shares_it(cluster):
    producer = cluster.producer(delivery="stores", batch_bytes_max=200)
    send(producer, *range(100))
    producer.close()
    assert values(cluster.consumer("orders", delivery="stores"), 100) == [*range(100)]
    member = cluster.consumer("orders", delivery="stores", group="billing", stores=cluster.queries)
    assert values(member, 100) == [*range(100)]


def test_a_member_that_is_a_guest_has_found_its_cluster_with_one_store(make_cluster):
    cluster = make_cluster(towers=1)
    cluster.start_tower()
    cluster.store()
    member = cluster.consumer(
        "orders", delivery="stores", group="billing", stores=cluster.queries, connect_timeout=2
    )
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert member.poll(1) is None


def test_a_guest_that_reads_slowly_gets_everything(cluster):
    consumer = cluster.consumer("orders", delivery="stores", buffer_bytes_max=10_000)
    producer = cluster.producer(delivery="stores", batch_bytes_max=2_000)
    send(producer, *range(20_000))
    assert values(consumer, 20_000) == [*range(20_000)]
