from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import pytest

from dafka.gateway.broker import ErrorCode, Fetched, KafkaPartition, Offsets, Topic
from dafka.gateway.fetch import HeldBytes
from dafka.gateway.handlers import Handlers
from dafka.gateway.users import KafkaUser
from dafka.gateway.wire import SERVED, Api
from dafka.process.clock import now_ms
from dafka.records.client_batch import placed
from dafka.testing.broker import MemoryBroker
from dafka.transport.access import EVERYTHING, Rights
from tests.support.kafka_messages import ask, client_batch, fetching

LATEST = 12
"""The last version that has names of topics."""
BY_ID = SERVED[Api.FETCH][-1]
LATEST_LIST = SERVED[Api.LIST_OFFSETS][-1]
BATCH = client_batch()
WAIT_S = 120
ALL = Rights(EVERYTHING, EVERYTHING)


async def filled(batches=3, partitions=2, **configs):
    """A broker of which partition 0 has batches of three records."""
    broker = MemoryBroker()
    await broker.create("orders", partitions, configs)
    for _ in range(batches):
        await broker.append(KafkaPartition("orders", 0), BATCH, -1, 1)
    return broker


def late_broker():
    """One that hears of a topic that another has made when it looks."""
    broker = MemoryBroker()
    broker.unheard["orders"] = Topic("orders", 2, UUID(int=9), {})
    return broker


def fetched(version=LATEST, **asked):
    async def run():
        broker = await filled()
        for topic in asked["topics"]:
            topic["topic_id"] = broker.topic("orders").id
        return await ask(Handlers(broker, now_ms), Api.FETCH, version, **asked)

    answer = asyncio.run(run())
    return [one for topic in answer.responses for one in topic.partitions]


def stored(*offsets):
    return b"".join(placed(BATCH, offset, 3) for offset in offsets)


@pytest.mark.parametrize("version", SERVED[Api.FETCH])
def test_batches_come_as_they_are_with_their_offsets(version):
    (found,) = fetched(version, **fetching(("orders", 0, 0)))
    assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, 9)
    assert found.records == stored(0, 3, 6)


@pytest.mark.parametrize(("offset", "first"), [(0, 0), (2, 0), (3, 3), (8, 6)])
def test_an_offset_within_a_batch_brings_all_of_it(offset, first):
    (found,) = fetched(**fetching(("orders", 0, offset)))
    assert found.records == stored(*range(first, 9, 3))


def test_at_the_end_there_is_nothing_and_beyond_it_that_is_said():
    (found,) = fetched(**fetching(("orders", 0, 9)))
    assert (found.error_code, found.records) == (ErrorCode.NONE, b"")
    (found,) = fetched(**fetching(("orders", 0, 10)))
    assert (found.error_code, found.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, 9)


@pytest.mark.parametrize("bytes_max", [0, 1, len(BATCH), 2 * len(BATCH) - 1])
def test_one_batch_comes_however_little_was_asked_for(bytes_max):
    (found,) = fetched(**fetching(("orders", 0, 0), max_bytes=bytes_max))
    assert found.records == stored(0)
    (found,) = fetched(**fetching(("orders", 0, 0), partition_max_bytes=bytes_max))
    assert found.records == stored(0)


def test_what_is_left_of_the_bytes_is_for_the_next_partition():
    again, none = fetched(**fetching(("orders", 0, 0), ("orders", 0, 3), max_bytes=3 * len(BATCH)))
    assert (again.records, none.records) == (stored(0, 3, 6), b"")


@pytest.mark.parametrize(
    ("place", "error"),
    [
        (("other", 0, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("orders", 2, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("orders", -1, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_not_there_is_said_at_once(place, error):
    there, found = fetched(**fetching(("orders", 0, 9), place, max_wait_ms=600_000))
    assert (there.error_code, found.error_code) == (0, error)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_client_may_name_the_leader_that_it_means(epoch, error):
    (found,) = fetched(**fetching(("orders", 0, 0), current_leader_epoch=epoch))
    assert found.error_code == error


def test_topics_are_looked_up_once_for_a_fetch_however_many_it_asks_for():
    class CountingBroker(MemoryBroker):
        looked = 0

        def topics(self):
            self.looked += 1
            return super().topics()

    async def run():
        broker = CountingBroker()
        await broker.create("orders", 1, {})
        asked = fetching(("orders", 0, 0))
        known = asked["topics"][0] | {"topic_id": broker.topic("orders").id}
        asked["topics"] = [known] + [known | {"topic_id": uuid4()} for _ in range(9)]
        answer = await ask(Handlers(broker, now_ms), Api.FETCH, BY_ID, **asked)
        errors = [one.partitions[0].error_code for one in answer.responses]
        assert errors == [ErrorCode.NONE] + 9 * [ErrorCode.UNKNOWN_TOPIC_ID]
        assert broker.looked == 1

    asyncio.run(run())


def test_a_topic_that_is_asked_for_by_id_is_answered_by_id():
    async def run(topic_id=None):
        broker = await filled()
        asked = fetching(("", 0, 0))
        asked["topics"][0]["topic_id"] = topic_id or broker.topic("orders").id
        answer = await ask(Handlers(broker, now_ms), Api.FETCH, BY_ID, **asked)
        (found,) = answer.responses
        assert found.topic_id == asked["topics"][0]["topic_id"]
        return found.partitions[0]

    assert asyncio.run(run()).records == stored(0, 3, 6)
    assert asyncio.run(run(uuid4())).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_who_reads_what_was_made_a_moment_ago_is_not_told_that_it_is_not_there():
    broker, asked = late_broker(), fetching(("orders", 0, 0))
    answer = asyncio.run(ask(Handlers(broker, now_ms), Api.FETCH, LATEST, **asked))
    (found,) = answer.responses[0].partitions
    assert found.error_code == ErrorCode.NONE


def test_there_are_no_sessions():
    async def run():
        asked = fetching(("orders", 0, 0)) | {"session_id": 5}
        return await ask(Handlers(await filled(), now_ms), Api.FETCH, LATEST, **asked)

    assert asyncio.run(run()).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def waited(asked, then):
    """What comes to somebody who waits, while something else is done."""

    async def run():
        broker = await filled()
        waiting = asyncio.create_task(ask(Handlers(broker, now_ms), Api.FETCH, LATEST, **asked))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        await then(broker)
        answer = await asyncio.wait_for(waiting, WAIT_S)
        return [one for topic in answer.responses for one in topic.partitions]

    return asyncio.run(run())


def test_who_waits_is_woken_by_what_comes():
    async def then(broker):
        await broker.append(KafkaPartition("orders", 1), BATCH, -1, 1)

    asked = fetching(("orders", 0, 9), ("orders", 1, 0), max_wait_ms=600_000)
    none, found = waited(asked, then)
    assert (none.records, found.records) == (b"", stored(0))


def test_who_wants_more_waits_for_more():
    async def then(broker):
        for _ in range(2):
            await asyncio.sleep(0)
            await broker.append(KafkaPartition("orders", 1), BATCH, -1, 1)

    asked = fetching(("orders", 1, 0), max_wait_ms=600_000, min_bytes=len(BATCH) + 1)
    (found,) = waited(asked, then)
    assert found.records == stored(0, 3)


def test_what_was_read_is_not_read_again_while_more_is_waited_for():
    asked = fetching(("orders", 0, 0), max_wait_ms=600_000, min_bytes=4 * len(BATCH))

    async def then(broker):
        reads = []
        fetch = broker.fetch

        async def counted(partition, offset, bytes_max):
            reads.append(offset)
            return await fetch(partition, offset, bytes_max)

        broker.fetch = counted
        await broker.append(KafkaPartition("orders", 0), BATCH, -1, 1)
        while not reads:
            await asyncio.sleep(0)
        assert reads == [9]

    (found,) = waited(asked, then)
    assert found.records == stored(0, 3, 6, 9)


def test_fetches_that_wait_hold_only_so_much_together():
    asked = fetching(("orders", 0, 0), max_wait_ms=600_000, min_bytes=4 * len(BATCH))

    async def run():
        broker = await filled()
        handlers = Handlers(broker, now_ms, held=HeldBytes(7 * len(BATCH)))
        users = [handlers, handlers.permitted(KafkaUser("shop", ALL, {})), handlers]
        waiting = [asyncio.create_task(ask(one, Api.FETCH, LATEST, **asked)) for one in users]
        async with asyncio.timeout(WAIT_S):
            done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            (early,) = done
            assert early is waiting[-1], "the first two have all the room there is"
            await broker.append(KafkaPartition("orders", 0), BATCH, -1, 1)
            return [early.result(), *[await one for one in others]]

    answers = [one.responses[0].partitions[0].records for one in asyncio.run(run())]
    assert answers == [stored(0, 3, 6), stored(0, 3, 6, 9), stored(0, 3, 6, 9)]


def test_who_waits_is_told_when_the_partition_is_somebody_else_s():
    async def then(broker):
        await broker.delete("orders", 1)

    (found,) = waited(fetching(("orders", 0, 9), max_wait_ms=600_000), then)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_time_to_wait_ends():
    (found,) = fetched(**fetching(("orders", 0, 9), max_wait_ms=20))
    assert (found.error_code, found.records) == (ErrorCode.NONE, b"")


def test_offsets_at_which_nothing_is_left_do_not_keep_anybody_busy():
    """Kafka allows holes: a partition may end with offsets that name no record."""

    class Holes(MemoryBroker):
        reads = 0

        def offsets(self, partition):
            return Offsets(0, 9)

        async def fetch(self, partition, offset, bytes_max):
            self.reads += 1
            return Fetched(ErrorCode.NONE, Offsets(0, 9))

        async def arrival(self, ends, timeout_s):
            assert ends == {("orders", 0): 9}
            await asyncio.sleep(timeout_s)

    async def run():
        broker = Holes()
        await broker.create("orders", 1, {})
        asked = fetching(("orders", 0, 3), max_wait_ms=20)
        await ask(Handlers(broker, now_ms), Api.FETCH, LATEST, **asked)
        return broker.reads

    assert asyncio.run(run()) <= 3


def found_at(
    time_ms, version=LATEST_LIST, topic="orders", partition=0, epoch=-1, late=False, **configs
):
    async def run():
        broker = late_broker() if late else await filled(**configs)
        one = {"partition_index": partition, "timestamp": time_ms, "current_leader_epoch": epoch}
        asked = {"replica_id": -1, "topics": [{"name": topic, "partitions": [one]}]}
        answer = await ask(Handlers(broker, now_ms), Api.LIST_OFFSETS, version, **asked)
        found = answer.topics[0].partitions[0]
        return found.error_code, found.offset, found.timestamp

    return asyncio.run(run())


@pytest.mark.parametrize("version", SERVED[Api.LIST_OFFSETS])
@pytest.mark.parametrize(
    ("time_ms", "found"),
    [
        (-1, (0, 9, -1)),
        (-2, (0, 0, -1)),
        (-3, (0, 2, 1_002)),
        (-4, (0, 0, -1)),
        (-5, (0, -1, -1)),
        (0, (0, 0, 1_000)),
        (1_001, (0, 1, 1_001)),
        (1_003, (0, -1, -1)),
        (-6, (ErrorCode.INVALID_REQUEST, -1, -1)),
    ],
)
def test_offsets_are_found_by_time(version, time_ms, found):
    assert found_at(time_ms, version) == found


def test_the_log_start_is_the_earliest():
    assert found_at(-2, **{"retention.bytes": "0"}) == (0, 6, -1)


def test_who_asks_where_to_begin_in_what_was_made_a_moment_ago_is_told():
    assert found_at(-2, late=True) == (0, 0, -1)


def test_offsets_of_what_is_not_there_are_not_found():
    assert found_at(-1, topic="other")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found_at(-1, partition=2)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found_at(-1, epoch=2)[0] == ErrorCode.FENCED_LEADER_EPOCH
