"""A gateway in front of a real store, over real sockets, without Kafka's wire."""

from __future__ import annotations

import asyncio
import time

import pytest

from dafka.gateway.broker import (
    EARLIEST_MS,
    LATEST_MS,
    MAX_TIMESTAMP_MS,
    NOBODY,
    Entrance,
    ErrorCode,
    Found,
    KafkaPartition,
    Offsets,
)
from dafka.gateway.effects import OffsetsShown, PartitionLate
from dafka.gateway.topic_retention import TopicRetention
from dafka.node.gateway import GatewayNode
from dafka.query.client import StoreClient
from dafka.transport.access import Access, Rights
from dafka.transport.keys import Credentials, new_keys
from tests.support.gateways import (
    ORDERS,
    appended,
    batch_of,
    compared,
    die,
    made,
    read,
    topic_of,
    until,
)
from tests.support.small_cluster import SmallCluster

pytestmark = [pytest.mark.net, pytest.mark.slow]


@pytest.fixture
def make_cluster(tmp_path, free_ports, reopened):
    made = []

    def make(stores=1, **settings):
        cluster = SmallCluster(tmp_path, free_ports, reopened, stores=stores)
        made.append(cluster)
        cluster.start_tower(**settings)
        return cluster

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def running(make_cluster):
    cluster = make_cluster()
    cluster.store()
    return cluster


@pytest.fixture
def gateway(running, free_ports):
    """A function that opens a gateway."""
    opened = []

    def open_one():
        place, _ = running.place(None, {"stores": running.queries})
        opened.append(GatewayNode(place, "127.0.0.1", free_ports(1)))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def test_what_is_appended_is_read_by_offset(gateway):
    broker = gateway()

    async def scenario():
        await made(broker, "orders", 1)
        first = await appended(broker, ORDERS, batch_of(b"a", b"b"))
        assert (first.error, first.offset) == (ErrorCode.NONE, 0)
        second = await appended(broker, ORDERS, batch_of(b"c"))
        assert second.offset == 2
        assert broker.offsets(ORDERS) == Offsets(0, 3)
        fetched = await broker.fetch(ORDERS, 1, 1_000)
        assert read(fetched.batches) == [(0, b"a"), (1, b"b"), (2, b"c")]
        assert (await broker.fetch(ORDERS, 3, 1_000)).batches == ()
        assert (await broker.fetch(ORDERS, 4, 1_000)).error is ErrorCode.OFFSET_OUT_OF_RANGE

    asyncio.run(scenario())


def test_records_of_dafka_producers_get_offsets_too(gateway, running):
    broker = gateway()
    producer = running.producer()

    async def scenario():
        await made(broker, "orders", 1)
        await appended(broker, ORDERS, batch_of(b"a"))
        producer.send("orders", b"b")
        producer.flush(10)
        await broker.arrival({ORDERS: 1}, 30)
        fetched = await broker.fetch(ORDERS, 1, 1_000)
        assert read(fetched.batches) == [(1, b"b")]
        assert (await appended(broker, ORDERS, batch_of(b"c"))).offset == 2

    asyncio.run(scenario())


def test_a_dafka_consumer_reads_what_was_appended(gateway, running):
    broker = gateway()
    consumer = running.consumer("orders")

    async def scenario():
        await made(broker, "orders", 4)
        for number in range(4):
            await appended(broker, KafkaPartition("orders", number), batch_of(b"%d" % number))

    asyncio.run(scenario())
    assert {consumer.poll(120).value for _ in range(4)} == {b"0", b"1", b"2", b"3"}


def test_who_looks_sees_what_another_has_made_also_if_that_was_not_heard(gateway, monkeypatch):
    first, second = gateway(), gateway()
    monkeypatch.setattr(second._machine, "_overhear", lambda *_: [])

    async def looked():
        await second.look()
        return second.topic("orders") == first.topic("orders")

    async def scenario():
        await made(first, "orders", 1)
        await until(looked)

    asyncio.run(scenario())


def test_another_goes_on_where_one_has_died(gateway):
    first = gateway()

    async def before():
        await made(first, "orders", 1)
        assert (await appended(first, ORDERS, batch_of(b"a", b"b", producer=7))).offset == 0
        sent = batch_of(b"c", producer=7, sequence=2)
        assert (await appended(first, ORDERS, sent)).offset == 2

    asyncio.run(before())
    die(first)
    second = gateway()

    async def after():
        await until(lambda: topic_of(second, "orders"))
        again = await appended(second, ORDERS, batch_of(b"c", producer=7, sequence=2))
        assert (again.error, again.offset) == (ErrorCode.NONE, 2)
        assert (await appended(second, ORDERS, batch_of(b"d", producer=7, sequence=3))).offset == 3
        gap = await second.append(ORDERS, batch_of(b"x", producer=7, sequence=9), -1, 30)
        assert gap.error is ErrorCode.NOT_LEADER_OR_FOLLOWER, "what is missing may come"
        assert read(await all_of(second, ORDERS)) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]

    asyncio.run(after())


async def all_of(broker, partition):
    """All batches of a partition."""
    offsets = broker.offsets(partition)
    found, offset = [], offsets.start
    while offset < offsets.end:
        fetched = await broker.fetch(partition, offset, 100)
        found += fetched.batches
        offset = read(fetched.batches[-1:])[-1][0] + 1
    return found


def test_gateways_share_partitions_and_send_clients_to_each_other(gateway):
    first, second = gateway(), gateway()
    brokers = {one.node: one for one in (first, second)}
    partitions = [KafkaPartition("orders", number) for number in range(8)]

    async def agreed():
        views = [one.gateways() for one in brokers.values()]
        return all({one.node for one in view} == brokers.keys() for view in views)

    async def shared():
        owners = [{one.leader(place).node for one in brokers.values()} for place in partitions]
        return all(len(one) == 1 for one in owners) and set.union(*owners) == brokers.keys()

    async def scenario():
        await until(agreed)
        await made(first, "orders", len(partitions))
        await until(lambda: topic_of(second, "orders"))
        assert first.controller() == second.controller()
        await until(shared)
        for place in partitions:
            await until(lambda place=place: served_by_one(place))

    async def served_by_one(place):
        """Shares may be evened at any time: then clients ask again."""
        leader = brokers[first.leader(place).node]
        placed = await leader.append(place, batch_of(b"a"), -1, 30)
        if placed.error is not ErrorCode.NONE:
            assert placed.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
            return False
        (other,) = [one for one in brokers.values() if one is not leader]
        asked = [
            other.offsets(place),
            (await other.append(place, batch_of(b"x"), -1, 30)).error,
            (await other.fetch(place, 0, 100)).error,
        ]
        return placed.offset == 0 and set(asked) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}

    asyncio.run(scenario())


def test_clients_are_sent_to_nobody_while_the_owner_may_be_dead(gateway):
    first, second = gateway(), gateway()
    partitions = [KafkaPartition("orders", number) for number in range(64)]

    async def scenario():
        await made(first, "orders", len(partitions))

        async def owned():
            return [one for one in partitions if second.leader(one).node == first.node]

        (place, *_) = await until(owned)
        groups = [str(number) for number in range(100)]
        group = next(one for one in groups if second.coordinator(one).node == first.node)
        die(first)

        async def sent_to(node):
            return second.leader(place).node == second.coordinator(group).node == node

        async def sent_to_nobody_though_it_may_be_alive():
            return await sent_to(NOBODY) and first.node in {one.node for one in second.gateways()}

        await until(sent_to_nobody_though_it_may_be_alive)
        await until(lambda: sent_to(second.node))

    asyncio.run(scenario())


def test_one_of_three_stores_may_be_away(make_cluster, free_ports):
    cluster = make_cluster(stores=3)
    stores = [cluster.store(number) for number in range(3)]
    place, _ = cluster.place(None, {"stores": cluster.queries})

    async def before(broker):
        await made(broker, "orders", 1)
        assert (await appended(broker, ORDERS, batch_of(b"a", b"b"))).offset == 0
        await compared(broker)
        stores[0].close()
        assert (await appended(broker, ORDERS, batch_of(b"c"))).offset == 2

    async def after(broker):
        await until(lambda: topic_of(broker, "orders"))
        assert (await appended(broker, ORDERS, batch_of(b"d"))).offset == 3
        assert read(await all_of(broker, ORDERS)) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]

    with GatewayNode(place, "127.0.0.1", free_ports(1)) as first:
        asyncio.run(before(first))
    with GatewayNode(place, "127.0.0.1", free_ports(1)) as second:
        asyncio.run(after(second))


def test_the_first_record_of_a_time_or_later_is_found(gateway):
    broker = gateway()

    async def scenario():
        await made(broker, "orders", 1)
        await appended(broker, ORDERS, batch_of(b"a", b"b", time_ms=1_000))
        await appended(broker, ORDERS, batch_of(b"c", time_ms=2_000))
        assert await broker.find(ORDERS, 500) == Found(ErrorCode.NONE, 0, 1_000)
        assert await broker.find(ORDERS, 1_001) == Found(ErrorCode.NONE, 2, 2_000)
        assert await broker.find(ORDERS, 2_001) == Found(ErrorCode.NONE)
        assert (await broker.find(ORDERS, EARLIEST_MS)).offset == 0
        assert (await broker.find(ORDERS, LATEST_MS)).offset == 3
        assert await broker.find(ORDERS, MAX_TIMESTAMP_MS) == Found(ErrorCode.NONE, 2, 2_000)

    asyncio.run(scenario())


def test_the_ends_of_a_partition_are_known_without_a_walk_over_its_ledger(gateway):
    broker = gateway()

    async def scenario():
        await made(broker, "orders", 1)
        await appended(broker, ORDERS, batch_of(b"a"))
        for time_ms, offset in ((EARLIEST_MS, 0), (LATEST_MS, 1)):
            found = asyncio.create_task(broker.find(ORDERS, time_ms))
            await asyncio.sleep(0)
            assert found.done(), "the node was asked"
            assert found.result() == Found(ErrorCode.NONE, offset)
        assert (await broker.find(ORDERS._replace(number=9), LATEST_MS)).error

    asyncio.run(scenario())


def test_a_topic_is_made_once(gateway):
    broker = gateway()

    async def scenario():
        made = await asyncio.gather(
            broker.create("orders", 1, {}, 60),
            broker.create("orders", 2, {"retention.ms": "1"}, 60),
        )
        assert sorted(made) == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
        assert await broker.create("orders", 3, {}, 60) is ErrorCode.TOPIC_ALREADY_EXISTS
        assert await broker.create("__ledger", 3, {}, 60) is ErrorCode.INVALID_TOPIC
        assert broker.topic("orders").partitions == 1 + made.index(ErrorCode.NONE)

    asyncio.run(scenario())


def test_a_topic_is_made_though_its_client_does_not_wait(gateway):
    broker = gateway()

    async def scenario():
        assert await broker.create("orders", 1, {}, 0) is ErrorCode.REQUEST_TIMED_OUT
        await until(lambda: topic_of(broker, "orders"))

    asyncio.run(scenario())


def test_the_log_start_follows_what_stores_drop(make_cluster, free_ports):
    cluster = make_cluster()
    cluster.store(deletable=True)
    place, _ = cluster.place(None, {"stores": cluster.queries})

    async def scenario(broker):
        await made(broker, "orders", 1)
        for value in (b"a", b"b", b"c"):
            await appended(broker, ORDERS, batch_of(value))
        with StoreClient(cluster.query) as store:
            assert store.delete("orders") == 3

        async def dropped():
            return broker.offsets(ORDERS) == Offsets(3, 3)

        await until(dropped)
        assert (await broker.fetch(ORDERS, 1, 100)).error is ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await appended(broker, ORDERS, batch_of(b"d"))).offset == 3
        assert read(await all_of(broker, ORDERS)) == [(3, b"d")]

    with GatewayNode(place, "127.0.0.1", free_ports(1)) as broker:
        asyncio.run(scenario(broker))


def test_what_is_not_served_for_long_is_a_word_for_who_asks_and_once_in_the_log(gateway, caplog):
    broker = gateway()

    async def scenario():
        await made(broker, "orders", 1)
        await appended(broker, ORDERS, batch_of(b"a"))

    asyncio.run(scenario())
    assert broker.unready() == ""
    for waits_for in ("a lease", "stores to be read"):
        broker._perform(PartitionLate(ORDERS, waits_for))
    assert "1 partition" in broker.unready()
    assert "orders/0 waits for stores to be read" in broker.unready()
    said = [one.getMessage() for one in caplog.records if "takeover" in one.getMessage()]
    assert [one.rpartition(" waits for ")[2] for one in said] == ["a lease"]
    broker._perform(OffsetsShown(ORDERS, Offsets(0, 1)))
    assert broker.unready() == ""


def test_what_comes_wakes_who_waits(gateway):
    broker = gateway()

    async def scenario():
        await made(broker, "orders", 1)
        await appended(broker, ORDERS, batch_of(b"a"))
        began_s = time.monotonic()
        waiting = asyncio.create_task(broker.arrival({ORDERS: 1}, 60))
        await asyncio.sleep(0)
        assert not waiting.done()
        await appended(broker, ORDERS, batch_of(b"b"))
        await waiting
        assert time.monotonic() - began_s < 30
        await broker.arrival({ORDERS: 2}, 0.01)

    asyncio.run(scenario())


def test_in_a_cluster_with_keys_it_needs_no_more_than_to_read_and_write(make_cluster, free_ports):
    infrastructure, own = new_keys(), new_keys()
    access = Access(infrastructure[0], {own[0]: Rights(("",), ("",))})
    of_stores, of_gateways = (Credentials(access, *pair) for pair in (infrastructure, own))
    cluster = make_cluster(credentials=of_stores)
    cluster.store(credentials=of_stores)
    settings = {"stores": cluster.queries, "credentials": of_gateways}
    place, _ = cluster.place(None, settings)

    async def scenario(broker, offset):
        if not offset:
            await made(broker, "orders", 1)
        await until(lambda: topic_of(broker, "orders"))
        assert (await appended(broker, ORDERS, batch_of(b"a"))).offset == offset
        assert len(read(await all_of(broker, ORDERS))) == offset + 1

    for offset in range(2):
        with GatewayNode(place, "127.0.0.1", free_ports(1)) as broker:
            assert broker.entrance == Entrance(place.stores, place.towers, keys=True, wire="rfc46")
            asyncio.run(scenario(broker, offset))


def test_a_topic_is_deleted_made_again_and_altered(gateway):
    """With the next gateway, which finds the same."""
    broker = gateway()

    async def before():
        await made(broker, "orders", 1)
        await appended(broker, ORDERS, batch_of(b"a", b"b"))
        first = broker.topic("orders").id
        assert await broker.delete("orders", 60) is ErrorCode.NONE
        assert broker.topic("orders") is None
        gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await broker.delete("orders", 60) is broker.offsets(ORDERS) is gone
        assert await broker.create("orders", 2, {}, 60) is ErrorCode.INVALID_PARTITIONS
        await made(broker, "orders", 1)
        assert broker.topic("orders").id != first
        assert broker.offsets(ORDERS) == Offsets(2, 2)
        assert (await appended(broker, ORDERS, batch_of(b"c"))).offset == 2
        altered = {"retention.ms": "60000"}
        assert await broker.alter("orders", altered, whole=False) is ErrorCode.NONE
        assert broker.topic("orders").configs == altered

    asyncio.run(before())
    known = broker.topic("orders")
    die(broker)
    second = gateway()

    async def after():
        await until(lambda: topic_of(second, "orders"))
        assert (await appended(second, ORDERS, batch_of(b"d"))).offset == 3
        await until(lambda: same(second, known))
        assert second.offsets(ORDERS) == Offsets(2, 4)
        assert read(await all_of(second, ORDERS)) == [(2, b"c"), (3, b"d")]

    asyncio.run(after())


async def same(broker, topic):
    return broker.topic(topic.name) == topic


def test_what_is_older_than_a_topic_says_is_let_go(gateway):
    broker = gateway()

    async def scenario():
        assert await broker.create("orders", 1, {"retention.ms": "1000"}, 60) is ErrorCode.NONE
        await appended(broker, ORDERS, batch_of(b"a", b"b", time_ms=1_000))
        await appended(broker, ORDERS, batch_of(b"c", time_ms=5_000))
        await TopicRetention(broker, lambda: 3_000).look()
        assert broker.offsets(ORDERS) == Offsets(2, 3)
        await TopicRetention(broker, lambda: 6_001).look()
        assert broker.offsets(ORDERS) == Offsets(3, 3)

    asyncio.run(scenario())
