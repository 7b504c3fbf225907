"""Consumers in groups, over real sockets, in this process. Their deaths: tests/processes."""

from __future__ import annotations

import time

import pytest

from dafka.cluster import Cluster
from dafka.errors import MisuseError, NotStoredError, RebalancedError
from dafka.model import Partition
from dafka.node.consumer import Consumer
from dafka.query.client import StoreClient

pytestmark = [pytest.mark.net, pytest.mark.slow]

NEVER_MS = 3_600_000


@pytest.fixture
def running(cluster):
    cluster.start_tower()
    cluster.store()
    return cluster


def member(cluster, **settings):
    settings = {
        "group": "billing",
        "stores": cluster.query,
        "session_timeout_ms": 1_000,
        "auto_commit_ms": NEVER_MS,
    } | settings
    return cluster.consumer("orders", **settings)


def send(producer, numbers):
    for number in numbers:
        producer.send("orders", str(number).encode())
    producer.flush(10)


def take(consumer, count, seconds=120.0):
    found = []
    deadline = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
        record = consumer.poll(0.1)
        if record is not None:
            found.append(record)
    return found


def numbers_of(records):
    return [int(record.value) for record in records]


def committed(cluster, group="billing"):
    with StoreClient(cluster.query) as store:
        return {place: commit.position for place, commit in store.offsets(group).items()}


def test_it_goes_on_behind_its_last_commit(running):
    producer = running.producer()
    send(producer, range(10))
    first = member(running)
    assert numbers_of(take(first, 4)) == [0, 1, 2, 3]
    first.commit()
    place = Partition("orders", producer.address)
    assert committed(running) == {place: 4}
    assert numbers_of(take(first, 2)) == [4, 5]
    first._node.stop()  # as if it had died: nothing is committed at its end
    assert numbers_of(take(member(running), 6)) == [4, 5, 6, 7, 8, 9]


def test_groups_go_on_each_by_itself(running):
    send(running.producer(), range(5))
    with member(running) as billing:
        take(billing, 5)
    assert numbers_of(take(member(running, group="audit"), 5)) == list(range(5))


def test_what_is_processed_is_committed_by_itself(running, until):
    producer = running.producer()
    send(producer, range(10))
    consumer = member(running, auto_commit_ms=20)
    take(consumer, 4)
    place = Partition("orders", producer.address)
    until(lambda: committed(running).get(place) == 3)  # the fourth is in the application's hands
    consumer.poll(0)
    until(lambda: committed(running).get(place) == 4)


def test_closing_commits_what_was_handed_over(running):
    producer = running.producer()
    send(producer, range(10))
    with member(running) as consumer:
        take(consumer, 4)
    assert committed(running) == {Partition("orders", producer.address): 4}


def fail_at(consumer, value):
    for record in consumer:
        if record.value == value:
            raise KeyError


def test_a_record_that_was_not_processed_to_its_end_comes_again(running):
    producer = running.producer()
    send(producer, range(10))
    with pytest.raises(KeyError), member(running) as consumer:
        fail_at(consumer, b"4")
    assert committed(running) == {Partition("orders", producer.address): 4}


def test_whoever_commits_by_himself_is_left_alone(running):
    send(running.producer(), range(10))
    with member(running, auto_commit_ms=None) as consumer:
        take(consumer, 4)
    assert committed(running) == {}


def test_batches_are_committed_whole(running):
    producer = running.producer(linger_ms=200)
    send(producer, range(10))
    place = Partition("orders", producer.address)
    with member(running) as consumer:
        batch = next(consumer.batches())
        assert consumer.positions() == {place: batch.count}
    assert committed(running) == {place: batch.count}


def test_seeking(running, until):
    producer = running.producer()
    times = range(1_000, 1_010)
    for number, time_ms in enumerate(times):
        producer.send("orders", str(number).encode(), timestamp_ms=time_ms)
    producer.flush(10)
    consumer = member(running)
    assert numbers_of(take(consumer, 3)) == [0, 1, 2]
    consumer.seek("orders", producer.address, 7)
    assert numbers_of(take(consumer, 2)) == [7, 8]
    consumer.seek_to_beginning()
    assert numbers_of(take(consumer, 2)) == [0, 1]
    consumer.seek_to_time(1_006)
    assert numbers_of(take(consumer, 2)) == [6, 7]
    consumer.seek_to_time(9_999)
    assert consumer.positions() == {Partition("orders", producer.address): 10}
    consumer.seek_to_end()
    send(producer, [10])
    assert numbers_of(take(consumer, 1)) == [10]
    consumer.seek("orders", producer.address, 5)
    consumer.commit()
    assert committed(running) == {Partition("orders", producer.address): 5}
    with pytest.raises(MisuseError, match="not this consumer's"):
        consumer.seek("orders", "nobody", 0)
    for position in (-1, 2**63):
        with pytest.raises(MisuseError, match=f"is 0 to {2**63 - 1}: {position}"):
            consumer.seek("orders", producer.address, position)
    consumer.seek("orders", producer.address, 2**63 - 1)
    consumer.commit()


def test_the_latest_start_is_where_it_was_when_it_began(running, until):
    producer = running.producer()
    send(producer, range(10))
    place = Partition("orders", producer.address)
    first = member(running, start="latest", auto_commit_ms=20)
    until(lambda: first.poll(0.01) is None and committed(running) == {place: 10})
    first._node.stop()
    send(producer, [10])
    assert numbers_of(take(member(running, start="latest"), 1)) == [10]


def share(consumers, seconds=120.0):
    """Poll all of them until each has something, and all have all; returns who has what."""
    deadline = time.monotonic() + seconds
    found = {consumer: [] for consumer in consumers}
    while time.monotonic() < deadline:
        for consumer in consumers:
            record = consumer.poll(0.01)
            if record is not None:
                found[consumer].append(record)
        parts = [set(consumer.positions()) for consumer in consumers]
        if len(set.union(*parts)) == sum(map(len, parts)) == 12 and all(parts):
            return found
    raise AssertionError([len(part) for part in parts])


def test_members_share_the_partitions_and_nothing_comes_twice(running):
    producers = [running.producer() for _ in range(12)]
    for producer in producers:
        send(producer, range(5))
    first = member(running)
    seen = take(first, 10)
    second = member(running)
    found = share([first, second])
    seen += [record for records in found.values() for record in records]
    while len(seen) < 60:
        seen += [one for one in (first.poll(0.02), second.poll(0.02)) if one is not None]
    assert len({(record.address, record.sequence) for record in seen}) == 60
    first.close()
    for producer in producers:
        send(producer, [5])
    assert {record.sequence for record in take(second, 12)} == {5}
    assert len(second.positions()) == 12


def test_an_application_that_holds_a_record_too_long_loses_its_place(running, until):
    send(running.producer(), range(25))

    def settled_or_failed():
        return other._role.machine._member.settled or idle._role.failure

    for _ in range(20):  # each time the partition is the other's with a chance of one half
        idle = member(running, max_hold_ms=300)
        (held,) = numbers_of(take(idle, 1))
        other = member(running)
        until(settled_or_failed)
        if idle._role.failure:
            break
        idle.close()  # which commits what it has taken
        other.close()
    with pytest.raises(RebalancedError, match="more than 300 ms"):
        idle.poll(1)
    assert numbers_of(take(other, 5)) == list(range(held, held + 5))


def test_commits_of_partitions_that_were_lost_are_refused(running, until):
    producer = running.producer()
    send(producer, range(5))
    consumer = member(running, session_timeout_ms=500)
    take(consumer, 2)
    consumer._role._lines.ask = lambda effect: None  # no store hears it any more
    until(lambda: not consumer.positions())
    with pytest.raises(RebalancedError) as lost:
        consumer.commit()
    assert lost.value.partitions == {("orders", producer.address)}
    del consumer._role._lines.ask
    assert numbers_of(take(consumer, 5)) == list(range(5))


def test_members_with_other_stores_are_refused(running):
    send(running.producer(), range(5))
    take(member(running), 1)
    other = member(running, stores=[running.query, running.query.replace("127.0.0.1", "localhost")])
    with pytest.raises(MisuseError, match="kept by 1 stores, this consumer was given 2"):
        take(other, 1)


def test_a_commit_that_no_store_acknowledges_is_an_error(cluster):
    cluster.start_tower()
    store = cluster.store()
    send(cluster.producer(), range(5))
    consumer = member(cluster, session_timeout_ms=5_000)
    take(consumer, 2)
    store.close()
    with pytest.raises(NotStoredError, match="positions of group 'billing'"):
        consumer.commit(timeout=0.2)
    with pytest.raises(NotStoredError, match="__consumer_offsets"):
        consumer.close(timeout=0.2)


def test_only_members_of_groups_have_positions(running):
    consumer = running.consumer("orders")
    for call in (consumer.commit, consumer.positions, consumer.seek_to_end):
        with pytest.raises(MisuseError, match="in no group"):
            call()


def test_what_cannot_be_combined(running):
    with pytest.raises(MisuseError, match="use seek"):
        Consumer(
            Cluster(running.towers, running.query),
            "orders",
            group="billing",
            positions={Partition("orders", "A1"): 3},
        )
    with pytest.raises(MisuseError, match="query ports"):
        Consumer(Cluster(running.towers), "orders", group="billing")


def test_after_closing_nothing_is_handed_over(running):
    send(running.producer(), range(5))
    consumer = member(running)
    take(consumer, 1)
    consumer.close()
    consumer.close()
    with pytest.raises(MisuseError, match="closed"):
        consumer.commit()
    with pytest.raises(MisuseError, match="closed"):
        consumer.poll(0)
