"""Kafka's real clients as members of groups, on the gateway's front over a broker in memory."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import confluent_kafka
import kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient
from kafka.errors import GroupSubscribedToTopicError, NonEmptyGroupError

from tests.support.kafka_members import MAKES, WAIT_S, Aiokafka, KafkaPython, Librdkafka, until
from tests.support.kafka_server import served

pytestmark = [pytest.mark.net, pytest.mark.slow]

PARTITIONS = 4
RECORDS = 200
every_make = pytest.mark.parametrize("make", MAKES, ids=lambda make: make.__name__)
others = pytest.mark.parametrize("other", MAKES, ids=lambda make: f"with-{make.__name__}")


@pytest.fixture
def gateway():
    with served() as there:
        there.create("orders", PARTITIONS)
        yield there


def produce(gateway, records=RECORDS, topic="orders"):
    """Write so many, one partition after the other."""
    producer = confluent_kafka.Producer({"bootstrap.servers": gateway.endpoint})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def every(records=RECORDS):
    return [(number % PARTITIONS, number // PARTITIONS) for number in range(records)]


def committed(gateway, group="billing"):
    found = gateway.call(gateway.broker.committed(group))
    # confluent-kafka says a NUL more than it was given.
    return {
        partition.number: (one.offset, one.metadata.rstrip("\0"))
        for partition, one in found.items()
    }


def split(*members):
    """Whether they share all partitions."""
    parts = [member.assigned for member in members]
    return all(parts) and sum(map(len, parts)) == len(frozenset().union(*parts)) == PARTITIONS


@every_make
def test_members_share_partitions_and_read_each_record_once(gateway, make):
    produce(gateway)
    with make(gateway.endpoint, "orders") as first:
        until(lambda: len(first.got) > RECORDS // 4, first)
        with make(gateway.endpoint, "orders") as second:
            until(lambda: split(first, second), first, second)
            produce(gateway)
            until(lambda: len(first.got) + len(second.got) >= 2 * RECORDS, first, second)
            assert second.got
        until(lambda: split(first), first)
        produce(gateway, 40)
        until(lambda: len(first.got) + len(second.got) >= 2 * RECORDS + 40, first)
    assert sorted(first.got + second.got) == sorted(every(2 * RECORDS + 40))
    each = (2 * RECORDS + 40) // PARTITIONS
    assert committed(gateway) == dict.fromkeys(range(PARTITIONS), (each, ""))


def test_members_of_several_makes_are_one_group(gateway):
    produce(gateway)
    with (
        Librdkafka(gateway.endpoint, "orders") as first,
        KafkaPython(gateway.endpoint, "orders") as second,
    ):
        until(lambda: split(first, second), first, second)
        until(lambda: len(first.got) + len(second.got) >= RECORDS, first, second)
    assert sorted(first.got + second.got) == sorted(every())


@every_make
@others
def test_what_was_committed_with_metadata_is_where_others_go_on(gateway, make, other):
    produce(gateway)
    with make(gateway.endpoint, "orders", commits=False) as first:
        until(lambda: split(first), first)
        first.commit({0: 40, 1: 41}, "as of noon")
    assert committed(gateway) == {0: (40, "as of noon"), 1: (41, "as of noon")}
    with other(gateway.endpoint, "orders", commits=False) as second:
        until(lambda: split(second), second)
        offset, metadata = second.committed(1)
        assert offset == 41
        assert metadata in ("as of noon", "as of noon\0", None)
        until(lambda: len(second.got) >= RECORDS - 81, second)
    assert sorted(second.got) == [
        one for one in sorted(every()) if one[1] >= (40, 41, 0, 0)[one[0]]
    ]


@pytest.mark.parametrize("make", [Librdkafka, KafkaPython])
def test_cooperative_members_give_away_only_what_others_get(gateway, make):
    with make(gateway.endpoint, "orders", cooperative=True) as first:
        until(lambda: split(first), first)
        with make(gateway.endpoint, "orders", cooperative=True) as second:
            until(lambda: split(first, second), first, second)
            assert all(first.history[1:]), "it always had something"
            assert len(first.assigned) == len(second.assigned) == PARTITIONS // 2
        until(lambda: split(first), first)


STATIC = [(Librdkafka, True), *((make, False) for make in MAKES)]


@pytest.mark.parametrize(("make", "cooperative"), STATIC)
def test_a_static_member_starts_again_without_anybody_else_noticing(gateway, make, cooperative):
    static = {"session_s": 30, "cooperative": cooperative}
    with make(gateway.endpoint, "orders", instance="a", **static) as first:
        with make(gateway.endpoint, "orders", instance="b", **static) as second:
            until(lambda: split(first, second), first, second)
        before = first.history[:]
        with make(gateway.endpoint, "orders", instance="b", **static) as again:
            until(lambda: split(first, again), first, again)
            assert again.assigned == second.assigned
        assert first.history == before


MEMBER = """
    import confluent_kafka
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": "ENDPOINT", "group.id": "billing", "session.timeout.ms": 3000,
        "heartbeat.interval.ms": 500, "enable.auto.commit": False,
    })
    consumer.subscribe(["orders"], on_assign=lambda _, parts: print(len(parts), flush=True))
    while True:
        consumer.poll(1)
"""


@every_make
def test_what_a_killed_member_had_others_take_over(gateway, make):
    produce(gateway)
    source = textwrap.dedent(MEMBER).replace("ENDPOINT", gateway.endpoint)
    if make is Aiokafka:  # which assigns in another way than librdkafka does by default
        source = source.replace(
            '"group.id"', '"partition.assignment.strategy": "roundrobin", "group.id"'
        )
    with subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == f"{PARTITIONS}\n"
            with make(gateway.endpoint, "orders", session_s=3) as member:
                until(lambda: 0 < len(member.assigned) < PARTITIONS, member)
                process.send_signal(signal.SIGKILL)
                killed_s = time.monotonic()
                until(lambda: split(member), member)
                assert time.monotonic() - killed_s > 1, "it was waited for"
                until(lambda: len(member.got) >= RECORDS, member)
                assert sorted(member.got) == sorted(every())
        finally:
            process.kill()


def test_librdkafka_administers_groups(gateway):
    produce(gateway)
    admin = AdminClient({"bootstrap.servers": gateway.endpoint})
    place = [confluent_kafka.TopicPartition("orders", 1, 17)]
    asked = [ConsumerGroupTopicPartitions("idle", place)]
    (altered,) = admin.alter_consumer_group_offsets(asked).values()
    assert altered.result(WAIT_S).topic_partitions[0].error is None
    with Librdkafka(gateway.endpoint, "orders") as member:
        until(lambda: len(member.got) == RECORDS, member)
        listed = admin.list_consumer_groups().result(WAIT_S)
        states = {one.group_id: one.state for one in listed.valid}
        assert not listed.errors
        assert states == {"billing": ConsumerGroupState.STABLE, "idle": ConsumerGroupState.EMPTY}
        described = admin.describe_consumer_groups(["billing", "idle", "none"])
        found = {name: one.result(WAIT_S) for name, one in described.items()}
        assert found["none"].state is ConsumerGroupState.DEAD
        billing = found["billing"]
        assert (billing.partition_assignor, billing.coordinator.id) == (
            "range",
            gateway.broker.node,
        )
        (row,) = billing.members
        assert (row.client_id, row.host) == ("rdkafka", "/127.0.0.1")
        assert len(row.assignment.topic_partitions) == PARTITIONS
        with pytest.raises(KafkaException) as refused:
            admin.delete_consumer_groups(["billing"])["billing"].result(WAIT_S)
        assert refused.value.args[0].name() == "NON_EMPTY_GROUP"
        asked = [ConsumerGroupTopicPartitions("billing", place)]
        (altered,) = admin.alter_consumer_group_offsets(asked).values()
        error = altered.result(WAIT_S).topic_partitions[0].error
        assert error.name() == "UNKNOWN_MEMBER_ID"
    asked = [ConsumerGroupTopicPartitions("idle")]
    (offsets,) = admin.list_consumer_group_offsets(asked).values()
    told = [(one.partition, one.offset) for one in offsets.result(WAIT_S).topic_partitions]
    assert told == [(1, 17)]
    admin.delete_consumer_groups(["idle"])["idle"].result(WAIT_S)
    assert committed(gateway, "idle") == {}


def test_kafka_python_administers_groups(gateway):
    produce(gateway)
    admin = kafka.KafkaAdminClient(bootstrap_servers=gateway.endpoint)
    places = [kafka.TopicPartition("orders", number) for number in range(2)]
    try:
        moved = {place: kafka.OffsetAndMetadata(5, "moved", -1) for place in places}
        admin.alter_group_offsets("billing", moved)
        assert committed(gateway) == {0: (5, "moved"), 1: (5, "moved")}
        admin.delete_group_offsets("billing", places[1:])
        assert committed(gateway) == {0: (5, "moved")}
        found = admin.list_group_offsets("billing")
        assert "moved" in str(found)
        with KafkaPython(gateway.endpoint, "orders") as member:
            until(lambda: split(member), member)
            assert "Stable" in str(admin.describe_groups(["billing"]))
            assert "billing" in str(admin.list_groups())
            assert NonEmptyGroupError.__name__ in str(admin.delete_groups(["billing"]))
            refused = admin.delete_group_offsets("billing", places[:1])
            assert GroupSubscribedToTopicError.__name__ in str(refused)
        admin.delete_groups(["billing"])
        assert committed(gateway) == {}
    finally:
        admin.close()


def test_aiokafka_administers_groups(gateway):
    async def ask():
        admin = AIOKafkaAdminClient(bootstrap_servers=gateway.endpoint)
        await admin.start()
        try:
            groups = await admin.list_consumer_groups()
            offsets = await admin.list_consumer_group_offsets("billing")
            (described,) = await admin.describe_consumer_groups(["billing"])
            return (
                groups,
                {place.partition: one.offset for place, one in offsets.items()},
                described,
            )
        finally:
            await admin.close()

    produce(gateway)
    with Aiokafka(gateway.endpoint, "orders") as member:
        until(lambda: len(member.got) == RECORDS, member)
        groups, offsets, described = asyncio.run(ask())
    assert groups == [("billing", "consumer")]
    assert offsets == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    assert "Stable" in str(described)


@pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat: make tools")
def test_kcat_reads_as_a_group(gateway):
    produce(gateway)
    kcat = ["kcat", "-b", gateway.endpoint, "-q", "-X", "auto.offset.reset=earliest"]
    format_ = ["-f", "%p %o\n", "-c", str(RECORDS)]
    read = subprocess.run(
        [*kcat, *format_, "-G", "billing", "orders"],
        capture_output=True,
        check=True,
        timeout=WAIT_S,
    )
    found = [tuple(map(int, line.split())) for line in read.stdout.splitlines()]
    assert sorted(found) == sorted(every())
    assert committed(gateway).keys() == set(range(PARTITIONS))


def test_a_coordinator_that_takes_over_knows_nobody_and_members_join_it_again(gateway):
    admin = AdminClient({"bootstrap.servers": gateway.endpoint})

    def joined():
        found = admin.describe_consumer_groups(["billing"])["billing"].result(WAIT_S)
        return (found.state, len(found.members)) == (ConsumerGroupState.STABLE, 2)

    produce(gateway)
    with Librdkafka(gateway.endpoint, "orders") as first:
        until(lambda: len(first.got) == RECORDS, first)
        with KafkaPython(gateway.endpoint, "orders") as second:
            until(lambda: split(first, second), first, second)
            gateway.broker.coordinated = gateway.broker.coordinated._replace(epoch=9)
            # Not before: who does not know yet that it is no member any more cannot commit.
            until(lambda: joined() and split(first, second), first, second)
            produce(gateway)
            until(lambda: len(first.got) + len(second.got) >= 2 * RECORDS, first, second)
    assert sorted(first.got + second.got) == sorted(every(2 * RECORDS))
    assert committed(gateway) == dict.fromkeys(range(PARTITIONS), (2 * RECORDS // PARTITIONS, ""))
