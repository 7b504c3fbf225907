"""Consumers of coroutines, over real sockets."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from dafka.aio.consumer import AsyncConsumer, ConsumerOptions
from dafka.errors import ConnectionWarning, MisuseError, UnreachableError
from dafka.node.consumer import Consumer
from dafka.node.loop import NodeFailedError
from dafka.query.client import StoreClient
from dafka.records.serialization import DeserializationError
from tests.support.small_cluster import send

pytestmark = pytest.mark.net

TURNS = 30


def consumed(cluster, **settings):
    place, others = cluster.place(None, settings)
    return AsyncConsumer(place, "orders", **others)


def grouped(cluster, **settings):
    settings = {"stores": cluster.query, "group": "billing", "session_timeout_ms": 2_000} | settings
    return consumed(cluster, **settings)


async def taken(records, count):
    return [int((await anext(records)).value) for _ in range(count)]


def committed(cluster):
    with StoreClient(cluster.query) as client:
        return [commit.position for commit in client.offsets("billing").values()]


def test_its_options_are_a_consumers():
    known = dict(inspect.signature(Consumer).parameters)
    del known["cluster"], known["topics"]
    assert ConsumerOptions.__annotations__.keys() == known.keys()


def test_records_come_in_order_and_iterating_goes_on(stored, run):
    send(stored.producer(), *range(10))

    async def scenario():
        async with consumed(stored) as consumer:
            async for record in consumer:
                if record.value == b"4":
                    break
            assert await taken(aiter(consumer), 5) == [5, 6, 7, 8, 9]

    run(scenario())


def test_polling_ends_when_nothing_comes(stored, run):
    async def scenario():
        async with consumed(stored) as consumer:
            assert await consumer.poll(0.05) is None
            assert await consumer.poll_batch(0.05) is None

    run(scenario())


def test_iterating_ends_when_nothing_has_come_for_the_timeout(stored, run):
    send(stored.producer(), *range(3))

    async def scenario():
        async with consumed(stored, timeout=1.5) as consumer:
            assert [int(record.value) async for record in consumer] == [0, 1, 2]
            assert [batch async for batch in consumer.batches()] == []

    run(scenario())


def test_whoever_waits_is_woken_by_the_first_record(stored, run):
    async def scenario():
        async with consumed(stored) as consumer:
            waiting = asyncio.create_task(consumer.poll(60))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await asyncio.to_thread(send, stored.producer(), 7)
            assert (await waiting).value == b"7"

    run(scenario())


def test_batches_begin_with_what_is_left_and_others_have_a_turn(stored, run):
    producer = stored.producer()
    for number in range(50):
        send(producer, 2 * number, 2 * number + 1)  # a batch each

    async def scenario():
        turns, found = 0, []

        async def turning():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with consumed(stored) as consumer:
            assert (await consumer.poll(60)).value == b"0"
            other = asyncio.create_task(turning())
            async for batch in consumer.batches():
                found += map(int, batch.values())
                if found[-1] == 99:
                    break
            other.cancel()
        assert found == list(range(1, 100))
        assert turns >= 49

    run(scenario())


def test_cancelled_at_any_turn_no_record_is_missed(stored, run, cancelled):
    send(stored.producer(), *range(5))

    async def scenario():
        async with consumed(stored) as consumer:
            found = []
            for turns in range(TURNS):
                record = await cancelled(turns, consumer.poll(60))
                if not isinstance(record, asyncio.CancelledError):
                    found.append(int(record.value))
            while len(found) < 5:
                found.append(int((await consumer.poll(60)).value))
            assert found == list(range(5))

    run(scenario())


def test_a_group_goes_on_behind_what_is_committed(stored, run):
    send(stored.producer(), *range(10))

    async def scenario():
        async with grouped(stored, auto_commit_ms=None) as consumer:
            assert await taken(aiter(consumer), 4) == [0, 1, 2, 3]
            ((place, position),) = consumer.positions().items()
            assert position == 4
            await consumer.commit(60)
            consumer.seek(place.topic, place.address, 2)
            assert await taken(aiter(consumer), 1) == [2]
            await consumer.seek_to_beginning()
            assert await taken(aiter(consumer), 1) == [0]
            await consumer.seek_to_end()
            assert set(consumer.positions().values()) == {10}
            await consumer.seek_to_time(0)
            assert await taken(aiter(consumer), 1) == [0]
        assert committed(stored) == [4]
        async with grouped(stored) as consumer:
            assert await taken(aiter(consumer), 1) == [4]

    run(scenario())


def test_who_is_thrown_out_of_a_record_has_not_processed_it(stored, run):
    send(stored.producer(), *range(10))

    async def scenario():
        async with grouped(stored) as consumer:
            async for record in consumer:
                1 / (3 - int(record.value))

    with pytest.raises(ZeroDivisionError):
        run(scenario())
    assert committed(stored) == [3]


def test_a_cancelled_commit_may_be_made_again(stored, run, cancelled):
    send(stored.producer(), *range(3))

    async def scenario():
        async with grouped(stored, auto_commit_ms=None) as consumer:
            assert await taken(aiter(consumer), 2) == [0, 1]
            for turns in range(5):
                await cancelled(turns, consumer.commit(60))
            await consumer.commit(60)

    run(scenario())
    assert committed(stored) == [2]


def test_outside_a_group_nothing_is_committed(stored, run):
    async def scenario():
        async with consumed(stored) as consumer:
            with pytest.raises(MisuseError, match="in no group"):
                await consumer.commit()

    run(scenario())


def test_a_cancelled_close_leaves_all_the_same(stored, run, cancelled, until):
    async def scenario():
        consumer = consumed(stored)
        await cancelled(1, consumer.close())
        until(lambda: not consumer._consumer._node._thread.is_alive())
        await consumer.close()
        with pytest.raises(MisuseError, match="closed"):
            await consumer.poll(1)

    run(scenario())


def test_a_failed_node_shows_to_whoever_waits(stored, run):
    async def scenario():
        consumer = consumed(stored)
        waiting = asyncio.create_task(consumer.poll(60))
        await asyncio.sleep(0.05)
        consumer._consumer._node.post(None, "no event")
        with pytest.raises(NodeFailedError):
            await waiting
        await consumer.close()

    run(scenario())


def test_a_member_that_overslept_is_handed_nothing_until_it_is_in_again(stored, run, monkeypatch):
    send(stored.producer(), *range(3))

    async def scenario():
        async with grouped(stored) as consumer:
            assert await taken(aiter(consumer), 1) == [0]
            role = consumer._consumer._group
            renewed = role._lease_ms
            monkeypatch.setattr(role, "_clock", Late(role._clock))
            waiting = asyncio.create_task(consumer.poll(60))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            assert renewed is not None
            monkeypatch.undo()
            assert (await waiting).value == b"1"

    run(scenario())


class Late:
    """A clock by which every lease is over."""

    def __init__(self, clock):
        self._clock = clock

    def now_ms(self):
        return self._clock.now_ms() + 3_600_000

    def __getattr__(self, name):
        return getattr(self._clock, name)


def test_who_reads_on_after_an_error_of_a_deserializer_gets_what_follows(stored, run):
    producer = stored.producer(linger_ms=1_000)
    for value in [b"0", b"one", b"2", b"3", b"4"]:
        producer.send("orders", value)
    producer.flush(60)

    async def scenario():
        async with consumed(stored, value_deserializer=int) as consumer:
            with pytest.raises(DeserializationError, match="sequence 1 of topic 'orders'"):
                [record async for record in consumer]
            assert (await consumer.poll(60)).value == 2
            assert (await consumer.poll_batch(60, 1)).values() == [3]
            table = await consumer.to_arrow(max_records=1)
            assert table["value"].to_pylist() == [b"4"]
            assert len(await consumer.to_pandas(timeout=0.1)) == 0

    run(scenario())


def test_who_waits_where_no_tower_is_hears_of_it_and_then_gets_an_error(run):
    async def scenario():
        place = "tcp://127.0.0.1:9"
        async with AsyncConsumer(place, "orders", connect_timeout=3) as consumer:
            with (
                pytest.warns(ConnectionWarning, match=f"the tower at {place}"),
                pytest.raises(UnreachableError, match="within 3 s"),
            ):
                async for _ in consumer:
                    pass
            shown = f"AsyncConsumer('{place}', topics=['orders'], not connected)"
            assert repr(consumer) == shown

    run(scenario())


def test_a_frame_that_is_cancelled_at_any_turn_takes_no_record_with_it(stored, run, cancelled):
    producer = stored.producer()
    for number in range(5):
        send(producer, 2 * number, 2 * number + 1)  # a batch each

    async def scenario():
        async with consumed(stored) as consumer:
            assert (await consumer.poll(60)).value == b"0"
            for turns in range(TURNS):
                await cancelled(turns, consumer.to_arrow(max_records=1_000))
            table = await consumer.to_arrow(max_records=9)
            assert table["offset"].to_pylist() == list(range(1, 10))

    run(scenario())
