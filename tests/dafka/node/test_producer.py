"""Producers over real sockets: what is sent, what is stored, and who is told."""

from __future__ import annotations

import threading
import time

import pytest

from dafka.cluster import Cluster
from dafka.errors import (
    BufferFullError,
    ConnectionWarning,
    MisuseError,
    NotStoredError,
    SerializationError,
    UnreachableError,
)
from dafka.limits import BATCH_BYTES_MAX, RECORD_BYTES_MAX
from dafka.model import Header
from dafka.node.delivery import Delivery
from dafka.node.loop import NodeFailedError
from dafka.node.producer import Producer
from dafka.node.store import Store
from dafka.query.client import StoreClient
from dafka.records.batch import is_compressed

pytestmark = pytest.mark.net

NOBODY = "tcp://127.0.0.1:9"


def test_what_is_sent_is_what_is_received(stored, take):
    producer = stored.producer()
    headers = [("one", b"1"), ("one", b"\xff\x00"), ("none", None), ("empty", b"")]
    producer.send("orders", b"value\0\xff", key=b"key", headers=headers, timestamp_ms=123)
    producer.send("orders", None, key=b"", timestamp_ms=0)
    producer.send("orders", b"", timestamp_ms=5)
    producer.flush(10)
    first, second, third = take(stored.consumer("orders"), 3)
    assert first.topic == "orders"
    assert first.address == producer.address
    assert (first.key, first.value, first.timestamp_ms) == (b"key", b"value\0\xff", 123)
    assert first.headers == tuple(Header(*header) for header in headers)
    assert (first.copy_flags, first.origin) == (0, 0)
    assert (second.key, second.value, second.headers) == (b"", None, ())
    assert (third.key, third.value) == (None, b"")
    assert [record.sequence for record in (first, second, third)] == [0, 1, 2]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_is_compressed_stays_so_until_it_is_read(stored, take, codec):
    values = [b"value %d" % number for number in range(500)]
    with stored.producer(compression=codec) as producer:
        producer.send_many("orders", values)
        producer.flush(timeout=60)
    consumer = stored.consumer("orders", start="earliest")
    assert [record.value for record in take(consumer, 500)] == values
    with StoreClient(stored.query) as client:
        ((partition, head),) = client.heads().items()
        (batch,) = client.scan(partition, 0, head + 1)
        assert is_compressed(batch.content)
        exact = client.digest(partition, 100, 300, exact=True)
        assert (exact.start, exact.end) == (100, 300)


def test_a_compression_that_cannot_be_is_refused(stored):
    with pytest.raises(MisuseError, match="no compression 'brotli'"):
        stored.producer(compression="brotli")
    with pytest.raises(MisuseError, match="raw content has no batches that zstd could compress"):
        stored.producer(compression="zstd", content="raw")


def test_a_record_without_a_timestamp_has_the_time_of_sending(stored, take):
    before = time.time_ns() // 1_000_000
    stored.producer().send("orders", b"now")
    (record,) = take(stored.consumer("orders"), 1)
    assert before <= record.timestamp_ms <= time.time_ns() // 1_000_000


def test_records_of_a_topic_arrive_in_the_order_of_sending(stored, take):
    producer = stored.producer(batch_bytes_max=500)
    for number in range(2_000):
        producer.send("orders", str(number).encode())
    records = take(stored.consumer("orders"), 2_000)
    assert [record.value for record in records] == [str(n).encode() for n in range(2_000)]
    assert [record.sequence for record in records] == list(range(2_000))


def test_each_topic_is_a_partition_of_its_own(stored, take):
    producer = stored.producer()
    for number in range(30):
        producer.send(f"topic-{number % 3}", str(number).encode())
    records = take(stored.consumer("topic-0", "topic-1", "topic-2"), 30)
    for topic in range(3):
        own = [record for record in records if record.topic == f"topic-{topic}"]
        assert [record.sequence for record in own] == list(range(10))
        assert [int(record.value) for record in own] == list(range(topic, 30, 3))


def test_a_future_tells_where_its_batch_went(stored):
    producer = stored.producer(linger_ms=60_000)
    first, second = producer.send("orders", b"1"), producer.send("orders", b"2")
    assert first is second
    producer.flush(10)
    assert first.result(0) == Delivery("orders", producer.address, 0, 2)
    third = producer.send("orders", b"3")
    producer.flush(10)
    assert third.result(0) == Delivery("orders", producer.address, 2, 1)


def test_without_lingering_a_record_goes_out_at_once(stored):
    producer = stored.producer(linger_ms=0)
    for number in range(5):
        assert producer.send("orders", b"x").result(10).sequence == number


def test_a_lingering_batch_goes_out_without_a_flush(stored):
    producer = stored.producer(linger_ms=20)
    futures = [producer.send("orders", b"x") for _ in range(10)]
    assert futures[-1].result(10).topic == "orders"


def test_several_threads_may_send(stored, take):
    producer = stored.producer(batch_bytes_max=300)

    def work(name):
        for number in range(200):
            producer.send("orders", f"{name}-{number}".encode())

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush(10)
    records = take(stored.consumer("orders"), 800)
    assert [record.sequence for record in records] == list(range(800))
    for name in "abcd":
        own = [record.value for record in records if record.value.startswith(name.encode())]
        assert own == [f"{name}-{number}".encode() for number in range(200)]


@pytest.mark.parametrize("content", ["batches", "classic", "raw"])
def test_whatever_it_sends_it_hears_that_many_topics_are_stored(stored, content):
    producer = stored.producer(content=content)
    for number in range(50):
        producer.send(f"t{number}", b"x")
    producer.flush(10)


def test_a_flush_without_a_store_names_what_is_not_stored(cluster):
    producer = cluster.producer()
    for _ in range(3):
        producer.send("orders", b"x")
    producer.send("payments", b"x")
    with pytest.raises(NotStoredError) as caught:
        producer.flush(0.1)
    assert "3 records of 'orders'" in str(caught.value)
    assert "1 records of 'payments'" in str(caught.value)
    assert "0.1 s" in str(caught.value)
    assert caught.value.retriable


def test_a_flush_of_nothing_returns_at_once(cluster):
    cluster.producer().flush(0)


def test_what_was_sent_before_a_store_came_is_stored_when_it_comes(cluster, take):
    producer = cluster.producer()
    future = producer.send("orders", b"early")
    with pytest.raises(NotStoredError):
        producer.flush(0.05)
    cluster.store()
    producer.flush(10)
    assert future.result(0).count == 1


def test_closing_without_a_store_fails_the_futures_too(cluster):
    producer = cluster.producer()
    future = producer.send("orders", b"x")
    with pytest.raises(NotStoredError, match="1 records of 'orders'"):
        producer.close(0.05)
    with pytest.raises(NotStoredError, match="ended before"):
        future.result(5)


def test_closing_stores_everything_and_may_be_repeated(stored):
    producer = stored.producer(linger_ms=60_000)
    future = producer.send("orders", b"x")
    producer.close()
    producer.close()
    assert future.result(0).count == 1


def test_a_closed_producer_sends_nothing(stored):
    with Producer(stored.endpoint) as producer:
        producer.send("orders", b"x")
    with pytest.raises(MisuseError, match="producer is closed"):
        producer.send("orders", b"x")


def test_leaving_the_block_stores_what_is_left(stored, take):
    with Producer(stored.endpoint, linger_ms=60_000) as producer:
        producer.send("orders", b"last words")
    (record,) = take(stored.consumer("orders"), 1)
    assert record.value == b"last words"


def test_a_full_buffer_blocks_for_a_while_and_then_says_who_is_missing(cluster):
    producer = cluster.producer(
        batch_bytes_max=200, buffer_bytes_max=1_000, max_block_ms=60, linger_ms=0
    )
    began = time.monotonic()

    def fill():
        for _ in range(100):
            producer.send("orders", bytes(100))

    with pytest.raises(BufferFullError) as caught:
        fill()
    assert time.monotonic() - began >= 0.06
    assert "1000 bytes stayed full for 60 ms" in str(caught.value)
    assert "records of 'orders'" in str(caught.value)
    assert caught.value.retriable


def test_a_full_buffer_takes_more_as_soon_as_a_store_acknowledges(stored, take):
    producer = stored.producer(batch_bytes_max=200, buffer_bytes_max=1_000)
    for number in range(300):
        producer.send("orders", str(number).encode().ljust(100))
    records = take(stored.consumer("orders"), 300)
    assert [int(record.value) for record in records] == list(range(300))


def test_whoever_waits_for_room_is_told_when_the_producer_closes(cluster):
    producer = cluster.producer(batch_bytes_max=200, buffer_bytes_max=100)
    producer.send("orders", bytes(300))
    failures = []

    def work():
        try:
            producer.send("other", b"x")
        except MisuseError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(NotStoredError):
        producer.close(0.05)
    thread.join(60)
    assert not thread.is_alive()
    assert "closed" in str(failures[0])


def test_a_record_may_be_as_large_as_the_limit_and_no_larger(stored, take):
    producer = stored.producer()
    producer.send("orders", bytes(RECORD_BYTES_MAX - 3), key=b"key")
    with pytest.raises(MisuseError, match=f"'orders'.*at most {RECORD_BYTES_MAX}"):
        producer.send("orders", bytes(RECORD_BYTES_MAX - 2), key=b"key")
    with pytest.raises(MisuseError, match="cannot be sent"):
        producer.send("orders", b"", headers=[("h", bytes(RECORD_BYTES_MAX))])
    producer.flush(20)
    (record,) = take(stored.consumer("orders"), 1)
    assert len(record.value) == RECORD_BYTES_MAX - 3


@pytest.mark.parametrize("topic", ["", "a\0b", "x" * 250, "é" * 125, "\ud800", 5, None, b"orders"])
def test_a_topic_that_cannot_travel_is_refused(cluster, topic):
    with pytest.raises(MisuseError, match="topic"):
        cluster.producer().send(topic, b"x")


@pytest.mark.parametrize(
    "record",
    [
        {"value": "text"},
        {"value": 5},
        {"value": b"", "key": "text"},
        {"value": b"", "timestamp_ms": "now"},
        {"value": b"", "timestamp_ms": 1 << 70},
        {"value": b"", "timestamp_ms": -1},
        {"value": b"", "headers": [("name", "text")]},
        {"value": b"", "headers": [(b"name", b"")]},
        {"value": b"", "headers": [("name",)]},
        {"value": b"", "headers": 5},
        {"value": b"", "headers": [5]},
        {"value": b"", "headers": [("\ud800", b"")]},
    ],
    ids=repr,
)
def test_a_record_of_the_wrong_types_is_refused_and_the_next_one_sent(stored, take, record):
    producer = stored.producer()
    with pytest.raises(MisuseError, match="cannot be sent"):
        producer.send("orders", **record)
    producer.send("orders", b"good")
    producer.flush(10)
    (good,) = take(stored.consumer("orders"), 1)
    assert (good.sequence, good.value) == (0, b"good")


@pytest.mark.parametrize(
    "settings",
    [
        {"linger_ms": -1},
        {"max_block_ms": -1},
        {"min_acks": 0},
        {"buffer_bytes_max": 0},
        {"batch_bytes_max": 0},
        {"batch_bytes_max": BATCH_BYTES_MAX + 1},
    ],
    ids=repr,
)
def test_a_setting_that_makes_no_sense_is_refused(settings):
    with pytest.raises(MisuseError):
        Producer(NOBODY, **settings)


@pytest.mark.parametrize("towers", [[], "127.0.0.1:5556", "tcp://127.0.0.1", "tcp://h:65535", [5]])
def test_a_tower_that_is_no_endpoint_is_refused(towers):
    with pytest.raises(MisuseError, match=r"tower|endpoint"):
        Producer(Cluster(towers))


def test_a_host_of_another_machine_is_refused():
    with pytest.raises(MisuseError, match=r"cannot bind a node at '192\.0\.2\.1'"):
        Producer(Cluster(NOBODY, host="192.0.2.1", insecure=True))


def test_two_acknowledgements_take_two_stores(stored, tmp_path):
    producer = stored.producer(min_acks=2)
    future = producer.send("orders", b"x")
    with pytest.raises(NotStoredError, match="fewer than 2 stores"):
        producer.flush(0.3)
    with Store(tmp_path / "second", stored.endpoint, query="tcp://127.0.0.1:*"):
        assert future.result(10).count == 1


def test_a_failed_node_shows_at_the_next_call(cluster, until):
    producer = cluster.producer()
    future = producer.send("orders", b"x")
    producer._node.post(None, "no event")
    until(lambda: producer._node.failure)
    with pytest.raises(NotStoredError):
        future.result(5)
    with pytest.raises(NodeFailedError, match="producer has failed"):
        producer.flush(1)


def test_records_not_handed_over_yet_fail_with_the_node(cluster, until):
    producer = cluster.producer(linger_ms=60_000)
    future = producer.send("orders", b"x")
    producer._node.post(None, "no event")
    with pytest.raises(NotStoredError, match="ended before a store had 1 records"):
        future.result(5)
    with pytest.raises(NodeFailedError, match="producer has failed"):
        producer.send("orders", b"x")


def test_a_refused_record_leaves_no_empty_batch_behind(stored, take):
    producer = stored.producer(linger_ms=0)
    with pytest.raises(MisuseError):
        producer.send("orders", "text")
    producer.flush(10)
    assert producer.send("orders", b"good").result(10).sequence == 0
    with pytest.raises(MisuseError):
        producer.send("orders", "text")
    assert producer.send("orders", b"good").result(10).sequence == 1
    assert len(take(stored.consumer("orders"), 2)) == 2


def test_a_future_cannot_be_cancelled(stored):
    producer = stored.producer(linger_ms=20)
    future = producer.send("orders", b"x")
    assert not future.cancel()
    assert future.result(10).count == 1
    assert producer.send("orders", b"x").result(10).sequence == 1


def test_threads_that_wait_for_room_together_lose_nothing(stored, take):
    producer = stored.producer(batch_bytes_max=300, buffer_bytes_max=300, linger_ms=1)

    def work(name):
        for number in range(50):
            producer.send("orders", f"{name}-{number}".encode().ljust(150))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush(10)
    records = take(stored.consumer("orders"), 200)
    expected = {f"{name}-{number}" for name in "abcd" for number in range(50)}
    assert {record.value.decode().strip() for record in records} == expected


def test_many_values_are_sent_as_one_by_one(stored, take):
    producer = stored.producer(batch_bytes_max=1_000)
    values = [str(number).encode() for number in range(500)]
    producer.send("orders", b"first")
    future = producer.send_many("orders", values, timestamp_ms=7)
    producer.send("orders", b"last")
    producer.flush(20)
    assert future.result().sequence + future.result().count in (501, 502)
    records = take(stored.consumer("orders"), 502)
    assert [record.value for record in records] == [b"first", *values, b"last"]
    assert {record.timestamp_ms for record in records[1:-1]} == {7}
    assert producer.send_many("orders", []) is None


def test_of_many_values_those_before_a_wrong_one_are_sent(stored, take):
    producer = stored.producer()
    with pytest.raises(MisuseError, match="'orders'"):
        producer.send_many("orders", [b"a", b"b", "c", b"d"])
    with pytest.raises(MisuseError, match="at most"):
        producer.send_many("orders", [b"e", bytes(RECORD_BYTES_MAX + 1)])
    producer.flush(20)
    records = take(stored.consumer("orders"), 3)
    assert [record.value for record in records] == [b"a", b"b", b"e"]


def test_a_record_of_the_wrong_type_leaves_no_way_around_the_size_limit(stored):
    producer = stored.producer(linger_ms=10_000)
    with pytest.raises(MisuseError):
        producer.send("orders", 5)
    with pytest.raises(MisuseError, match="at most"):
        producer.send("orders", bytes(RECORD_BYTES_MAX + 1))
    with pytest.raises(MisuseError, match="at most"):
        producer.send_many("orders", [bytes(RECORD_BYTES_MAX + 1)])


def test_what_serializers_make_of_keys_and_values_is_sent(stored, take):
    producer = stored.producer(key_serializer=str.encode, value_serializer=as_octets)
    producer.send("orders", 1, key="k")
    producer.send("orders", None)
    producer.send_many("orders", [2, 3])
    producer.flush(60)
    records = take(stored.consumer("orders"), 4)
    assert [record.value for record in records] == [b"1", None, b"2", b"3"]
    assert [record.key for record in records] == [b"k", None, None, None]


def as_octets(value):
    return b"%d" % value


def test_a_value_that_cannot_be_serialized_is_refused_and_nothing_of_it_is_sent(stored, take):
    producer = stored.producer(value_serializer=as_octets)
    with pytest.raises(SerializationError, match="value of a record for topic 'orders'"):
        producer.send("orders", "one")
    with pytest.raises(SerializationError):
        producer.send_many("orders", [1, "two"])
    producer.send("orders", 3).result(60)
    assert [record.value for record in take(stored.consumer("orders"), 1)] == [b"3"]


@pytest.mark.parametrize("what", ["flush", "send"])
def test_who_waits_where_no_tower_is_hears_of_it_and_then_gets_an_error(what):
    producer = Producer(NOBODY, connect_timeout=3, batch_bytes_max=1, buffer_bytes_max=1)
    producer.send("orders", b"0")
    wait = producer.flush if what == "flush" else lambda: producer.send("orders", b"1")
    with (
        pytest.warns(ConnectionWarning, match=f"nothing answers of the tower at {NOBODY}") as told,
        pytest.raises(UnreachableError, match="within 3 s"),
    ):
        wait()
    assert told[0].filename == __file__
    with pytest.raises(NotStoredError, match="1 records of 'orders'"):
        producer.close()


def test_it_is_shown_in_a_line(cluster):
    producer = cluster.producer(linger_ms=0)
    producer.send("orders", b"secret")
    producer.seal()
    shown = repr(producer)
    start = f"Producer('{cluster.endpoint}', address={producer.address[:8]}…, topics=1, unstored"
    assert shown.startswith(start)
    assert "secret" not in shown
    cluster.store()
    producer.flush(60)
    assert repr(producer).endswith("unstored_bytes=0, connected)")
    producer.close()
    assert repr(producer).endswith("closed)")
