from __future__ import annotations

import re
from contextlib import closing
from itertools import count, islice

import pytest

from dafka.cluster import Cluster
from dafka.errors import ConnectionWarning, MisuseError, UnreachableError
from dafka.limits import HELLO_TOPICS_MAX, LISTENED_BYTES_MAX, LISTENED_NAME_BYTES
from dafka.model import Partition
from dafka.node.consumer import Consumer, listened
from dafka.node.loop import NodeFailedError
from dafka.node.mirror import Mirror
from dafka.query.client import StoreClient
from dafka.records.serialization import DeserializationError
from dafka.transport.access import Access
from dafka.transport.keys import Credentials, new_keys
from dafka.transport.sockets import OPEN_NAMES
from tests.support.batches import make_batch, unreadable_from

pytestmark = pytest.mark.net

NOBODY = "tcp://127.0.0.1:9"


def send(producer, topic, numbers):
    for number in numbers:
        producer.send(topic, str(number).encode())
    producer.flush(10)


def numbers_of(records):
    return [int(record.value) for record in records]


def test_a_late_consumer_gets_everything_from_the_beginning(stored, take):
    producer = stored.producer(batch_bytes_max=200)
    send(producer, "orders", range(100))
    assert numbers_of(take(stored.consumer("orders"), 100)) == list(range(100))


def test_a_consumer_gets_what_a_producer_that_has_left_has_sent(stored, take):
    producer = stored.producer()
    send(producer, "orders", range(10))
    producer.close()
    records = take(stored.consumer("orders"), 10)
    assert numbers_of(records) == list(range(10))
    assert {record.address for record in records} == {producer.address}


def as_records(consumer):
    return (record.value for record in consumer)


def by_polling(consumer):
    return (consumer.poll(120).value for _ in count())


def as_batches(consumer):
    return (value for batch in consumer.batches() for value in batch.values())


def as_records_of_batches(consumer):
    return (record.value for batch in consumer.batches() for record in batch)


@pytest.mark.parametrize("read", [as_records, by_polling, as_batches, as_records_of_batches])
@pytest.mark.parametrize("group", [None, "billing"])
def test_records_that_nobody_can_read_end_no_consumer(stored, read, group, caplog):
    with closing(Mirror(stored.endpoint)) as mirror:
        mirror.publish(make_batch([b"0", b"1"]), 10)
        mirror.publish(unreadable_from(make_batch([b"2", b"3", b"4"], 2), 1), 10)
        mirror.publish(unreadable_from(make_batch([b"5"], 5), 0), 10)
        mirror.publish(make_batch([b"6"], 6), 10)
        mirror.flush(10)
    settings = {"group": group, "stores": stored.query, "session_timeout_ms": 2_000}
    settings = settings if group else {}
    consumer = stored.consumer("orders", **settings)
    assert list(islice(read(consumer), 4)) == [b"0", b"1", b"2", b"6"]
    told = [(one.first, one.last) for one in caplog.records if "unreadable" in one.getMessage()]
    assert told == [(3, 4), (5, 5)]
    if group is not None:
        consumer.commit()
        with StoreClient(stored.query) as client:
            assert [commit.position for commit in client.offsets(group).values()] == [7]


def test_a_consumer_of_as_many_topics_as_it_may_have_hears_of_all_and_of_no_other(stored, take):
    topics = [f"{number:08}" for number in range(HELLO_TOPICS_MAX)]
    producer = stored.producer()
    producer.send("other", b"stored")
    for topic in (topics[0], topics[-1]):
        producer.send(topic, b"stored")
    producer.flush(10)
    consumer = stored.consumer(*topics)
    assert {record.topic for record in take(consumer, 2)} == {topics[0], topics[-1]}
    for topic in ("other", topics[1], topics[-2]):
        producer.send(topic, b"live")
    assert {record.topic for record in take(consumer, 2)} == {topics[1], topics[-2]}


@pytest.mark.parametrize(
    ("bytes_each", "listens_to_all"),
    [
        (LISTENED_BYTES_MAX // 1_024 - LISTENED_NAME_BYTES, False),
        (LISTENED_BYTES_MAX // 1_024 - LISTENED_NAME_BYTES + 1, True),
    ],
)
def test_who_has_no_key_does_not_have_publishers_keep_many_names(bytes_each, listens_to_all):
    topics = tuple(f"{number:0{bytes_each}}" for number in range(1_024))
    assert listened(topics, Cluster(NOBODY)) == (() if listens_to_all else topics)


def test_short_names_count_with_what_a_subscription_has_beside_them():
    # Of 10,000 with five letters half a MiB came when some were taken back and asked for again: the
    # consumer was cut, came again, and was cut again.
    topics = tuple(f"t{number:04}" for number in range(HELLO_TOPICS_MAX))
    assert listened(topics, Cluster(NOBODY)) == ()
    asked_for, taken_back_and_asked_for = 3, 2 * 2
    assert LISTENED_BYTES_MAX * (asked_for + taken_back_and_asked_for) <= OPEN_NAMES.connection


def test_who_has_a_key_subscribes_to_nothing_else():
    pair = new_keys()
    credentials = Credentials(Access(pair[0], {}), *pair)
    topics = tuple(f"{number:0128}" for number in range(1_024))
    assert listened(topics, Cluster("tcp://127.0.0.1:1", credentials=credentials)) == topics


def test_more_topics_than_that_are_refused():
    topics = [f"{number}" for number in range(HELLO_TOPICS_MAX + 1)]
    with pytest.raises(MisuseError, match="10,001 topics are too many for one consumer"):
        Consumer(NOBODY, topics)


def test_the_latest_start_skips_what_is_there(stored, take, until):
    producer = stored.producer(linger_ms=0)
    send(producer, "orders", range(50))
    consumer = stored.consumer("orders", start="latest")
    found = []

    def hears():
        producer.send("orders", b"999").result(10)
        record = consumer.poll(0.02)
        found.extend([record] if record else [])
        return found

    until(hears)
    assert found[0].value == b"999"
    assert found[0].sequence >= 50


def test_a_position_decides_where_a_partition_begins(stored, take):
    producer = stored.producer(batch_bytes_max=200)
    send(producer, "orders", range(100))
    partition = Partition("orders", producer.address)
    for start in ("earliest", "latest"):
        consumer = stored.consumer("orders", positions={partition: 42}, start=start)
        records = take(consumer, 58)
        assert [record.sequence for record in records] == list(range(42, 100))


def test_a_position_may_be_given_as_a_plain_pair(stored, take):
    producer = stored.producer()
    send(producer, "orders", range(5))
    consumer = stored.consumer("orders", positions={("orders", producer.address): 4})
    assert numbers_of(take(consumer, 1)) == [4]


def test_several_consumers_each_get_everything(stored, take):
    consumers = [stored.consumer("orders") for _ in range(3)]
    send(stored.producer(), "orders", range(100))
    for consumer in consumers:
        assert numbers_of(take(consumer, 100)) == list(range(100))


def test_other_topics_are_not_heard_not_even_those_that_begin_alike(stored, take):
    producer = stored.producer(linger_ms=0)
    consumer = stored.consumer("order")
    for number in range(20):
        producer.send("orders", b"other").result(10)
        producer.send("orde", b"other").result(10)
        producer.send("order", str(number).encode()).result(10)
    records = take(consumer, 20)
    assert numbers_of(records) == list(range(20))
    assert consumer.poll(0.05) is None


@pytest.mark.parametrize("buffer_bytes_max", [2_000, 20_000])
def test_an_application_with_a_small_buffer_still_gets_everything(stored, take, buffer_bytes_max):
    # Batches of half of it, and of less than the part of it that is given back at once.
    consumer = stored.consumer("orders", buffer_bytes_max=buffer_bytes_max)
    producer = stored.producer(batch_bytes_max=1_000)
    for number in range(2_000):
        producer.send("orders", str(number).encode().ljust(50))
    producer.flush(20)
    assert numbers_of(take(consumer, 2_000, 30)) == list(range(2_000))


def test_a_single_topic_may_be_given_as_a_string(stored, take):
    send(stored.producer(), "orders", [1])
    with Consumer(Cluster([stored.endpoint]), "orders") as consumer:
        assert numbers_of(take(consumer, 1)) == [1]


def test_iterating_goes_on_from_record_to_record(stored):
    send(stored.producer(), "orders", range(10))
    records = iter(stored.consumer("orders"))
    assert [int(next(records).value) for _ in range(10)] == list(range(10))


def test_polling_ends_when_nothing_comes(cluster):
    assert cluster.consumer("orders").poll(0) is None
    assert cluster.consumer("orders").poll(0.02) is None


@pytest.mark.parametrize("read", [as_records, as_batches])
def test_iterating_ends_when_nothing_has_come_for_the_timeout(stored, read):
    send(stored.producer(), "orders", range(3))
    assert [int(one) for one in read(stored.consumer("orders", timeout=4))] == [0, 1, 2]
    assert list(read(stored.consumer("invoices", timeout=0))) == []


def test_closing_may_be_repeated_and_ends_the_thread(cluster):
    with Consumer(cluster.endpoint, "orders") as consumer:
        pass
    consumer.close()
    assert consumer._node.join(0)


@pytest.mark.parametrize(
    ("topics", "settings"),
    [
        ([], {}),
        ("", {}),
        (["orders", ""], {}),
        (["x" * 250], {}),
        ([5], {}),
        ("orders", {"start": "middle"}),
        ("orders", {"start": None}),
        ("orders", {"timeout": -1}),
        ("orders", {"positions": {("orders", "A" * 32): -1}}),
    ],
    ids=repr,
)
def test_an_argument_that_makes_no_sense_is_refused(topics, settings):
    with pytest.raises(MisuseError):
        Consumer(NOBODY, topics, **settings)


@pytest.mark.parametrize("towers", [[], "here", "tcp://127.0.0.1:0"])
def test_a_tower_that_is_no_endpoint_is_refused(towers):
    with pytest.raises(MisuseError):
        Consumer(Cluster(towers), "orders")


def test_a_failed_node_shows_at_the_next_poll(cluster, until):
    consumer = cluster.consumer("orders")
    consumer._node.post(None, "no event")
    until(lambda: consumer._node.failure)
    with pytest.raises(NodeFailedError, match="consumer has failed") as caught:
        consumer.poll(0)
    assert isinstance(caught.value.__cause__, AssertionError)


def test_iterating_again_goes_on_where_it_was_left(stored):
    producer = stored.producer()
    for number in range(10):
        producer.send("orders", str(number).encode())
    producer.flush(20)
    consumer = stored.consumer("orders")
    seen = []
    for _ in range(10):
        for record in consumer:
            seen.append(record.sequence)
            break
    assert seen == list(range(10))


def test_iterating_over_a_closed_consumer_ends_with_an_error(cluster):
    consumer = cluster.consumer("orders")
    consumer.close()
    with pytest.raises(MisuseError, match="closed"):
        next(iter(consumer))


def test_batches_bring_everything_in_order_as_values_or_records(stored):
    producer = stored.producer(batch_bytes_max=500)
    send(producer, "orders", range(100))
    consumer = stored.consumer("orders")
    seen = []
    for batch in consumer.batches():
        assert batch.sequence == len(seen)
        assert [int(value) for value in batch.values()] == numbers_of(batch)
        assert (batch.topic, batch.address) == ("orders", producer.address)
        seen += batch.values()
        assert batch.count == len(batch.values())
        if len(seen) == 100:
            break
    assert [int(value) for value in seen] == list(range(100))


def test_batches_begin_with_what_is_left_of_the_batch_being_iterated(stored, take):
    send(stored.producer(), "orders", range(10))
    consumer = stored.consumer("orders")
    assert numbers_of(take(consumer, 4)) == [0, 1, 2, 3]
    batch = next(consumer.batches())
    assert (batch.sequence, batch.count) == (4, 6)
    assert numbers_of(batch) == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("group", [None, "billing"])
def test_who_asks_for_what_is_stored_gets_nothing_before_a_store_has_it(
    stored, cluster, until, group
):
    producer = stored.producer()
    send(producer, "orders", range(5))
    where = Cluster(stored.endpoint, stored.query)
    with Consumer(where, "orders", isolation="stored", group=group) as consumer:
        assert numbers_of(islice(consumer, 5)) == list(range(5))
        send(producer, "orders", range(5, 8))
        assert numbers_of(islice(consumer, 3)) == [5, 6, 7]


def test_without_a_store_nothing_is_stored(cluster, until):
    producer = cluster.producer()
    with (
        Consumer(cluster.endpoint, "orders") as eager,
        Consumer(cluster.endpoint, "orders", isolation="stored") as patient,
    ):

        def told():
            producer.send("orders", b"1")
            return eager.poll(0.05)

        until(told)
        assert patient.poll(1) is None


def test_another_isolation_is_refused():
    with pytest.raises(MisuseError, match="published"):
        Consumer(NOBODY, "orders", isolation="read_committed")


def as_values(consumer):
    """Numbers, or what could not be read as one."""
    while True:
        try:
            for record in consumer:
                yield record.value
        except DeserializationError as error:
            yield error.record.value
        else:
            return


def polled_values(consumer):
    while True:
        try:
            record = consumer.poll(60)
        except DeserializationError as error:
            yield error.record.value
            continue
        if record is None:
            return
        yield record.value


def send_mixed(cluster):
    producer = cluster.producer(linger_ms=1_000)
    for value in [b"0", b"one", b"2", None, b"3"]:
        producer.send("orders", value, key=b"k")
    producer.flush(60)


@pytest.mark.parametrize("read", [as_values, polled_values])
@pytest.mark.parametrize("group", [None, "billing"])
def test_who_reads_on_after_an_error_of_a_deserializer_gets_what_follows(stored, read, group):
    send_mixed(stored)
    settings = {"group": group, "stores": stored.query, "session_timeout_ms": 2_000}
    consumer = stored.consumer(
        "orders", value_deserializer=int, timeout=60, **(settings if group else {})
    )
    assert list(islice(read(consumer), 5)) == [0, b"one", 2, None, 3]


def test_who_is_thrown_out_by_a_deserializer_gets_the_record_again(stored):
    send_mixed(stored)
    settings = {"group": "billing", "stores": stored.query, "session_timeout_ms": 2_000}
    with (
        pytest.raises(DeserializationError),
        stored.consumer("orders", value_deserializer=int, **settings) as consumer,
    ):
        for _ in consumer:
            pass
    with stored.consumer("orders", **settings) as consumer:
        assert consumer.poll(60).value == b"one"


def test_batches_have_what_deserializers_make_of_them(stored):
    send(stored.producer(linger_ms=1_000), "orders", range(3))
    with stored.consumer("orders", value_deserializer=int) as consumer:
        assert consumer.poll(60).value == 0
        batch = consumer.poll_batch(60)
        assert batch.values() == [1, 2]


@pytest.mark.parametrize("group", [None, "billing"])
def test_of_a_large_batch_only_so_many_records_are_taken(stored, group):
    send(stored.producer(linger_ms=1_000), "orders", range(10))
    settings = {"group": group, "stores": stored.query, "session_timeout_ms": 2_000}
    with stored.consumer("orders", **(settings if group else {})) as consumer:
        assert consumer.poll_batch(60, 3).values() == [b"0", b"1", b"2"]
        if group:
            assert [*consumer.positions().values()] == [3]
        assert consumer.poll(60).value == b"3"
        assert consumer.poll_batch(60, 2).values() == [b"4", b"5"]
        assert consumer.poll_batch(60, 100).values() == [b"6", b"7", b"8", b"9"]
        with pytest.raises(MisuseError, match="records_max must be 1 or more: 0"):
            consumer.poll_batch(1, 0)
        if group:
            assert [*consumer.positions().values()] == [10]


def test_the_next_records_as_a_table(stored):
    producer = stored.producer(batch_bytes_max=300)
    send(producer, "orders", range(100))
    with stored.consumer("orders", value_deserializer=int) as consumer:
        assert consumer.poll(60).value == 0
        table = consumer.to_arrow(max_records=60)
        assert table["value"].to_pylist() == [b"%d" % number for number in range(1, 61)]
        assert set(table["partition"].to_pylist()) == {producer.address}
        assert consumer.poll(60).value == 61
        assert consumer.to_arrow(timeout=2)["offset"].to_pylist() == list(range(62, 100))
        assert len(consumer.to_pandas(timeout=0.1)) == 0
        with pytest.raises(MisuseError, match="needs max_records or timeout"):
            consumer.to_arrow()


def test_it_is_shown_in_a_line(stored):
    send(stored.producer(), "orders", range(3))
    with stored.consumer("orders") as consumer:
        consumer.poll(60)
        place = re.escape(f"Consumer('{stored.endpoint}', topics=['orders'], at=orders/")
        assert re.fullmatch(place + r"[0-9A-F]{8}…/0, connected\)", repr(consumer))
    assert repr(consumer).endswith("closed)")
    settings = {"group": "billing", "stores": stored.query, "session_timeout_ms": 2_000}
    with stored.consumer("orders", **settings) as consumer:
        assert "group='billing', lag=0" in repr(consumer)


def test_who_waits_where_no_tower_is_hears_of_it_and_then_gets_an_error():
    with (
        Consumer(NOBODY, "orders", connect_timeout=3) as consumer,
        pytest.warns(ConnectionWarning, match=f"nothing answers of the tower at {NOBODY}") as told,
        pytest.raises(UnreachableError, match=rf"within 3 s: .* {NOBODY};"),
    ):
        consumer.poll(60)
    assert told[0].filename == __file__
    assert repr(consumer) == f"Consumer('{NOBODY}', topics=['orders'], closed)"


def test_a_member_of_a_group_whose_stores_are_not_there_is_not_connected(cluster):
    settings = {"group": "billing", "stores": cluster.query, "connect_timeout": 6}
    consumer = cluster.consumer("orders", **settings)
    with (
        pytest.warns(ConnectionWarning, match="no other node is found"),
        pytest.raises(UnreachableError),
    ):
        consumer.poll(60)
    consumer.close(0)


@pytest.mark.parametrize("group", [None, "billing"])
def test_a_frame_that_is_interrupted_takes_no_record_with_it(stored, group, monkeypatch):
    producer = stored.producer()
    for first in range(0, 12, 3):  # a batch each
        send(producer, "orders", range(first, first + 3))
    settings = {"stores": stored.query, "session_timeout_ms": 2_000, "auto_commit_ms": None}
    settings = settings | {"group": group} if group else {}
    with stored.consumer("orders", **settings) as consumer:
        assert consumer.poll(60).value == b"0"
        polled, left = consumer.poll_batch, [1, 2, 3]

        def interrupted(*arguments):
            if not left:
                raise KeyboardInterrupt
            left.pop()
            return polled(*arguments)

        monkeypatch.setattr(consumer, "poll_batch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.to_arrow(max_records=10)
        monkeypatch.undo()
        assert consumer.poll(60).value == b"1"
        table = consumer.to_arrow(max_records=10)
        assert table["value"].to_pylist() == [b"%d" % number for number in range(2, 12)]
        if group:
            consumer.commit()
            assert [*consumer.positions().values()] == [12]


def test_a_group_that_commits_by_itself_makes_no_frames(stored):
    settings = {"group": "billing", "stores": stored.query, "session_timeout_ms": 2_000}
    with (
        stored.consumer("orders", **settings) as consumer,
        pytest.raises(MisuseError, match="to_pandas of a group that commits by itself"),
    ):
        consumer.to_pandas(timeout=1)
