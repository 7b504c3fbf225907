"""Producers of coroutines, over real sockets."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from dafka.aio.producer import MAX_BLOCK_MS, AsyncProducer, ProducerOptions
from dafka.errors import (
    BufferFullError,
    ConnectionWarning,
    MisuseError,
    NotStoredError,
    SerializationError,
    UnreachableError,
)
from dafka.node.loop import NodeFailedError
from dafka.node.producer import Producer

pytestmark = pytest.mark.net

NOBODY = "tcp://127.0.0.1:9"

TURNS = 40
"""More than anything here takes while nobody answers."""


def produced(cluster, **settings):
    place, _ = cluster.place(None, {})
    return AsyncProducer(place, **settings)


def numbered(count):
    return [b"%d" % number for number in range(count)]


def test_its_options_are_a_producers():
    known = dict(inspect.signature(Producer).parameters)
    del known["cluster"]
    assert ProducerOptions.__annotations__.keys() == known.keys()
    assert known["max_block_ms"].default == MAX_BLOCK_MS


def test_what_is_sent_arrives_and_is_told(stored, take, run):
    async def scenario():
        async with produced(stored) as producer:
            pending = await producer.send(
                "orders", b"x", key=b"k", headers=[("a", b"1")], timestamp_ms=5
            )
            delivery = await pending
            assert (delivery.topic, delivery.address) == ("orders", producer.address)
            assert pending.done()
            assert await pending == delivery

    run(scenario())
    (record,) = take(stored.consumer("orders"), 1)
    assert (record.value, record.key, record.timestamp_ms) == (b"x", b"k", 5)
    assert record.headers == (("a", b"1"),)


def test_many_tasks_may_send(stored, take, run):
    async def scenario():
        async with produced(stored) as producer:
            await asyncio.gather(*(producer.send("orders", value) for value in numbered(1_000)))

    run(scenario())
    found = [record.value for record in take(stored.consumer("orders"), 1_000)]
    assert sorted(found) == sorted(numbered(1_000))


def test_many_values_pass_through_a_small_buffer_in_order(stored, take, run):
    async def scenario():
        async with produced(stored, buffer_bytes_max=1_000, batch_bytes_max=200) as producer:
            pending = await producer.send_many("orders", numbered(3_000))
            assert (await pending).count > 0
            assert await producer.send_many("orders", []) is None

    run(scenario())
    assert [one.value for one in take(stored.consumer("orders"), 3_000)] == numbered(3_000)


def test_a_full_buffer_keeps_nobody_else_waiting_and_says_who_is_missing(cluster, run):
    async def scenario():
        small = {"buffer_bytes_max": 1, "batch_bytes_max": 1, "max_block_ms": 300}
        producer = produced(cluster, **small)
        await producer.send("orders", b"first")
        waiting = asyncio.create_task(producer.send("orders", b"second"))
        turns = 0
        while not waiting.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert turns > 10
        with pytest.raises(BufferFullError, match="full for 300 ms: no store has acknowledged"):
            await waiting
        with pytest.raises(BufferFullError) as full:
            await producer.send_many("lines", numbered(5))
        assert full.value.sent == 0
        with pytest.raises(NotStoredError, match=r"within 0\.1 s"):
            await producer.close(0.1)

    run(scenario())


def test_a_full_buffer_takes_more_once_a_store_comes(cluster, take, run):
    async def scenario():
        async with produced(cluster, buffer_bytes_max=1, batch_bytes_max=1) as producer:
            await producer.send("orders", b"0")
            waiting = asyncio.create_task(producer.send("orders", b"1"))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            cluster.store()
            await (await waiting)

    run(scenario())
    assert [one.value for one in take(cluster.consumer("orders"), 2)] == numbered(2)


def test_who_is_cancelled_while_he_awaits_a_delivery_cancels_nobody_else(cluster, run, cancelled):
    async def scenario():
        async with produced(cluster) as producer:
            pending = await producer.send("orders", b"x")

            async def awaits():
                return await pending

            gone = await cancelled(3, awaits())
            assert isinstance(gone, asyncio.CancelledError)
            cluster.store()
            assert (await pending).count == 1

    run(scenario())


@pytest.mark.parametrize("what", ["flush", "persist"])
def test_waiting_can_be_cancelled_at_any_turn_and_begun_again(
    cluster, take, run, cancelled, tmp_path, what
):
    async def scenario():
        async with produced(cluster, spool=tmp_path / "spool") as producer:
            for turns in range(TURNS):
                await producer.send("orders", b"%d" % turns)
                await cancelled(turns, getattr(producer, what)())
            await producer.persist(60)
            cluster.store()
            await producer.flush(60)

    run(scenario())
    assert [one.value for one in take(cluster.consumer("orders"), TURNS)] == numbered(TURNS)


def test_a_cancelled_send_was_sent_or_was_not(cluster, take, run, cancelled):
    """Whoever is cancelled while waiting for room has sent nothing."""

    async def scenario():
        async with produced(cluster, buffer_bytes_max=1, batch_bytes_max=1) as producer:
            await producer.send("orders", b"first")
            for turns in range(TURNS):
                gone = await cancelled(turns, producer.send("orders", b"cancelled"))
                assert isinstance(gone, asyncio.CancelledError)
            cluster.store()
            await producer.flush(60)
            await producer.send("orders", b"last")

    run(scenario())
    assert [one.value for one in take(cluster.consumer("orders"), 2)] == [b"first", b"last"]


def test_a_cancelled_close_leaves_all_the_same(stored, run, cancelled, until):
    async def scenario():
        for turns in range(6):
            producer = produced(stored)
            await producer.send("orders", b"x")
            await cancelled(turns, producer.close())
            if turns:
                until(lambda one=producer: not one._producer._node._thread.is_alive())
            await producer.close()
            with pytest.raises(MisuseError, match="closed"):
                await producer.send("orders", b"y")

    run(scenario())


def test_a_flush_names_what_is_not_stored(cluster, run):
    async def scenario():
        producer = produced(cluster)
        await producer.send("orders", b"x")
        with pytest.raises(NotStoredError, match=r"1 records of 'orders' within 0\.2 s"):
            await producer.flush(0.2)
        with pytest.raises(NotStoredError):
            await producer.close(0)

    run(scenario())


def test_without_a_spool_nothing_persists(stored, run):
    async def scenario():
        async with produced(stored) as producer:
            with pytest.raises(MisuseError, match="no spool"):
                await producer.persist()

    run(scenario())


def test_a_failed_node_ends_what_waits_for_it(cluster, run):
    async def scenario():
        producer = produced(cluster)
        pending = await producer.send("orders", b"x")
        flushing = asyncio.create_task(producer.flush())
        await asyncio.sleep(0)
        producer._producer._node.post(None, "no event")
        with pytest.raises(NodeFailedError):
            await flushing
        with pytest.raises(NotStoredError):
            await pending
        with pytest.raises(NodeFailedError):
            await producer.send("orders", b"y")
        await producer.close()

    run(scenario())


def test_a_setting_that_makes_no_sense_is_refused():
    with pytest.raises(MisuseError, match="max_block_ms"):
        AsyncProducer("tcp://127.0.0.1:9", max_block_ms=-1)


def test_what_serializers_make_of_keys_and_values_is_sent(stored, take, run):
    asked = []

    def as_octets(value):
        asked.append(value)
        return b"%d" % value

    async def scenario():
        # A small buffer: who waits for room has nothing serialized twice.
        settings = {"buffer_bytes_max": 1, "batch_bytes_max": 1}
        async with produced(
            stored, key_serializer=str.encode, value_serializer=as_octets, **settings
        ) as producer:
            await producer.send("orders", 1, key="k")
            await producer.send_many("orders", [2, None, 3])
            with pytest.raises(SerializationError):
                await producer.send("orders", "four")
            await producer.flush(60)

    run(scenario())
    records = take(stored.consumer("orders"), 4)
    assert [record.value for record in records] == [b"1", b"2", None, b"3"]
    assert [record.key for record in records] == [b"k", None, None, None]
    assert asked == [1, 2, 3, "four"]


async def flushed(producer, pending):
    await producer.flush()


async def sent(producer, pending):
    await producer.send("orders", b"1")


async def delivered(producer, pending):
    await pending


@pytest.mark.parametrize("wait", [flushed, sent, delivered])
def test_who_waits_where_no_tower_is_hears_of_it_and_then_gets_an_error(run, wait):
    async def scenario():
        producer = AsyncProducer(
            NOBODY, connect_timeout=3, batch_bytes_max=1, buffer_bytes_max=1, linger_ms=0
        )
        pending = await producer.send("orders", b"0")
        with (
            pytest.warns(ConnectionWarning, match=f"the tower at {NOBODY}"),
            pytest.raises(UnreachableError, match="within 3 s"),
        ):
            await wait(producer, pending)
        assert repr(producer).startswith(f"AsyncProducer('{NOBODY}', address=")
        with pytest.raises(NotStoredError):
            await producer.close()

    run(scenario())
