"""librdkafka as a member of groups in which the coordinator assigns (KIP-848)."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient

from dafka.gateway.coordinator import CoordinatorSettings
from tests.support.kafka_members import WAIT_S, Librdkafka, until
from tests.support.kafka_server import served

pytestmark = [pytest.mark.net, pytest.mark.slow]

PARTITIONS = 4
RECORDS = 200
QUICK = CoordinatorSettings(consumer_session_ms=3_000, consumer_heartbeat_ms=200)
PATIENT = CoordinatorSettings(consumer_heartbeat_ms=200)


@pytest.fixture
def gateway():
    with served(coordinated=PATIENT) as there:
        there.create("orders", PARTITIONS)
        yield there


def produce(gateway, records=RECORDS):
    producer = confluent_kafka.Producer({"bootstrap.servers": gateway.endpoint})
    for number in range(records):
        producer.produce("orders", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def member(gateway, **settings):
    return Librdkafka(gateway.endpoint, "orders", assigned_by_coordinator=True, **settings)


def split(*members):
    parts = [one.assigned for one in members]
    return all(parts) and sum(map(len, parts)) == len(frozenset().union(*parts)) == PARTITIONS


def every(records):
    return [(number % PARTITIONS, number // PARTITIONS) for number in range(records)]


def test_members_share_partitions_and_read_each_record_once(gateway):
    produce(gateway)
    with member(gateway) as first:
        until(lambda: len(first.got) > RECORDS // 4, first)
        with member(gateway) as second, member(gateway) as third:
            until(lambda: split(first, second, third), first, second, third)
            assert all(first.history[1:]), "it always had something"
            produce(gateway)
            found = lambda: first.got + second.got + third.got  # noqa: E731
            until(lambda: len(found()) >= 2 * RECORDS, first, second, third)
        until(lambda: split(first), first)
        produce(gateway, 40)
        until(lambda: len(found()) >= 2 * RECORDS + 40, first)
    assert sorted(found()) == sorted(every(2 * RECORDS + 40))


def test_what_was_committed_is_where_others_go_on_in_either_protocol(gateway):
    produce(gateway)
    with member(gateway) as first:
        until(lambda: len(first.got) == RECORDS, first)
    with Librdkafka(gateway.endpoint, "orders") as second:
        until(lambda: split(second), second)
        produce(gateway, 40)
        until(lambda: len(second.got) >= 40, second)
    produce(gateway, 40)
    with member(gateway) as third:
        until(lambda: len(third.got) >= 40, third)
    assert sorted(first.got + second.got + third.got) == sorted(every(RECORDS + 80))


def test_a_static_member_comes_back_to_what_it_had(gateway):
    with member(gateway, instance="a") as first:
        with member(gateway, instance="b") as second:
            until(lambda: split(first, second), first, second)
        before = first.history[:]
        with member(gateway, instance="b") as again:
            until(lambda: split(first, again), first, again)
            assert again.assigned == second.assigned
        assert first.history == before


def test_a_coordinator_that_takes_over_knows_nobody_and_members_join_it_again(gateway):
    produce(gateway)
    with member(gateway) as first, member(gateway) as second:
        until(lambda: split(first, second), first, second)
        until(lambda: len(first.got) + len(second.got) >= RECORDS, first, second)
        gateway.broker.coordinated = gateway.broker.coordinated._replace(epoch=9)
        groups = gateway.server._handlers._groups._all.by_name
        until(lambda: "billing" in groups and groups["billing"].epoch == 9, first, second)
        until(lambda: len(groups["billing"].machine.members) == 2, first, second)
        until(lambda: groups["billing"].machine.state == "Stable", first, second)
        produce(gateway)
        until(lambda: len(first.got) + len(second.got) >= 2 * RECORDS, first, second)
        until(lambda: split(first, second), first, second)
    assert set(first.got + second.got) == set(every(2 * RECORDS))


def test_tools_are_shown_such_groups(gateway):
    with member(gateway) as one:
        until(lambda: split(one), one)
        admin = AdminClient({"bootstrap.servers": gateway.endpoint})
        (listed,) = admin.list_consumer_groups().result(WAIT_S).valid
        assert (listed.group_id, listed.type) == ("billing", ConsumerGroupType.CONSUMER)
        described = admin.describe_consumer_groups(["billing"])["billing"].result(WAIT_S)
        assert described.state is ConsumerGroupState.STABLE
        assert described.partition_assignor == "uniform"
        assert len(described.members[0].assignment.topic_partitions) == PARTITIONS


MEMBER = """
    import confluent_kafka
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": "ENDPOINT", "group.id": "billing", "group.protocol": "consumer",
    })
    consumer.subscribe(["orders"], on_assign=lambda _, parts: print(len(parts), flush=True))
    while True:
        consumer.poll(1)
"""


def test_what_a_killed_member_had_others_take_over():
    with served(coordinated=QUICK) as gateway:
        gateway.create("orders", PARTITIONS)
        source = textwrap.dedent(MEMBER).replace("ENDPOINT", gateway.endpoint)
        with subprocess.Popen(
            [sys.executable, "-c", source], stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout.readline() == f"{PARTITIONS}\n"
                with member(gateway) as other:
                    until(lambda: len(other.assigned) == PARTITIONS // 2, other)
                    process.send_signal(signal.SIGKILL)
                    killed_s = time.monotonic()
                    until(lambda: split(other), other)
                    assert time.monotonic() - killed_s > 1, "it was waited for"
            finally:
                process.kill()
