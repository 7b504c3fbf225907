"""Kafka clients of other languages on the gateway's front, over a broker in memory."""

from __future__ import annotations

import re
import time

import confluent_kafka
import pytest

from dafka.gateway.coordinator import CoordinatorSettings
from dafka.gateway.users import load_users
from dafka.records.header import CODEC_MASK, NO_PRODUCER, header_of
from tests.support.certificates import write_users
from tests.support.kafka_members import Librdkafka, until
from tests.support.kafka_programs import CODECS, JAVA, KAFKAJS, PLATFORMATIC, PROGRAMS, SARAMA
from tests.support.kafka_server import served

pytestmark = [pytest.mark.net, pytest.mark.slow]

WAIT_S, AT_ONCE_S = 120, 10
SESSION_MS = 6_000
PARTITIONS = 4
RECORDS = 200
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
RULES = {"read": ["*"], "write": ["*"], "groups": ["*"]}
CLASSIC = [(one, "classic") for one in PROGRAMS]
ASSIGNED = [(one, "consumer") for one in (PLATFORMATIC, JAVA[1])]
"""Programs that let the coordinator assign (KIP-848).

Java 3.9 has it in early access: its `poll` raises IllegalStateException where a partition is taken
from it at that moment.
"""
REFUSAL = "Transactional ?Id authorization failed"
MOVING = [one for one in PROGRAMS if one is not SARAMA]
STATIC = UNSETTING = [PLATFORMATIC, *JAVA]
TRANSACTIONAL = [one for one in PROGRAMS if one is not SARAMA]
REFUSALS = dict.fromkeys(TRANSACTIONAL, REFUSAL) | {KAFKAJS: "Failed to find group coordinator"}
"""What each says of error 53."""


def of(programs):
    return pytest.mark.parametrize("program", programs, ids=lambda one: one.name)


def named(value):
    return getattr(value, "name", value)


every_program = of(PROGRAMS)


@pytest.fixture(scope="module", autouse=True)
def _programs_end():
    yield
    for one in PROGRAMS:
        one.close()


@pytest.fixture
def gateway():
    quick = CoordinatorSettings(
        initial_delay_ms=0, consumer_session_ms=3_000, consumer_heartbeat_ms=200
    )
    with served(coordinated=quick) as there:
        yield there


def values_of(name, records=RECORDS):
    return [f"{name} {number}" for number in range(records)]


def produce(gateway, values, partitions=1, codec="none"):
    """Write as librdkafka does."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": gateway.endpoint, "compression.type": codec, "linger.ms": 5}
    )
    for number, value in enumerate(values):
        producer.produce("orders", value, partition=number % partitions)
    assert producer.flush(WAIT_S) == 0


def consume(gateway, records):
    """Read as librdkafka does."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": gateway.endpoint, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    found = []
    while len(found) < records:
        message = consumer.poll(WAIT_S)
        assert message is not None
        found.append((message.offset(), message.value().decode()))
    consumer.close()
    return found


def headers_of(gateway):
    found = gateway.call(gateway.broker.fetch(("orders", 0), 0, 1 << 30))
    return [header_of(batch) for batch in found.batches]


def written(gateway, program, name, codec="none", idempotent=False):
    options = {"topic": "orders", "records": RECORDS, "name": name, "codec": codec}
    idempotent = str(idempotent).lower()
    program.done("produce", endpoint=gateway.endpoint, idempotent=idempotent, **options)


def read(gateway, program, records=RECORDS, offset=0, group="none"):
    options = {"topic": "orders", "records": records, "offset": offset, "group": group}
    found = program.done("consume", endpoint=gateway.endpoint, **options)["records"]
    return [tuple(one) for one in found]


WRITTEN = [(program, codec) for program in PROGRAMS for codec in program.codecs]


@pytest.mark.parametrize(("program", "codec"), WRITTEN, ids=named)
def test_a_program_and_librdkafka_read_what_each_other_writes_with_a_codec(gateway, program, codec):
    gateway.create("orders")
    written(gateway, program, codec, codec)
    assert {one.attributes & CODEC_MASK for one in headers_of(gateway)} == {CODECS.index(codec)}
    produce(gateway, values_of("librdkafka"), codec=codec)
    both = list(enumerate(values_of(codec) + values_of("librdkafka")))
    assert consume(gateway, 2 * RECORDS) == both
    assert read(gateway, program, 2 * RECORDS) == both


@every_program
def test_an_idempotent_program_writes_each_record_once(gateway, program):
    gateway.create("orders")
    written(gateway, program, "a", idempotent=True)
    written(gateway, program, "b", idempotent=True)
    assert len({one.producer_id for one in headers_of(gateway)} - {NO_PRODUCER}) == 2
    assert consume(gateway, 2 * RECORDS) == list(enumerate(values_of("a") + values_of("b")))


@every_program
def test_a_program_begins_at_any_offset(gateway, program):
    gateway.create("orders")
    produce(gateway, values_of("o"))
    half = RECORDS // 2
    found = read(gateway, program, 10, offset=half)
    assert found == list(enumerate(values_of("o")))[half : half + 10]


@every_program
def test_a_program_finds_offsets_by_time(gateway, program):
    gateway.create("orders")
    began_ms = 1_700_000_000_000
    producer = confluent_kafka.Producer({"bootstrap.servers": gateway.endpoint})
    for number in range(RECORDS):
        producer.produce("orders", b"t", partition=0, timestamp=began_ms + number)
    assert producer.flush(WAIT_S) == 0
    found = program.done(
        "find", endpoint=gateway.endpoint, topic="orders", time_ms=began_ms + RECORDS // 3
    )
    assert found == {"found": RECORDS // 3, "start": 0, "end": RECORDS}


@every_program
def test_a_program_administers_topics(gateway, program):
    found = program.done("administer", endpoint=gateway.endpoint, topic="made")
    assert "made" in found["listed"]
    assert found["partitions"] == gateway.broker.topic("made").partitions == 3
    assert "exists" in found["again"].lower()


@every_program
def test_a_program_alters_topics(gateway, program):
    found = program.done("alter", endpoint=gateway.endpoint, topic="orders")
    assert gateway.broker.topic("orders").configs == {"retention.ms": found["value"]}
    assert found["value"] == "60000"
    by_number = program in (KAFKAJS, PLATFORMATIC)
    assert ("Configuration is invalid" if by_number else "is a number") in found["refused"]


@every_program
def test_a_program_administers_groups(gateway, program):
    gateway.create("orders", PARTITIONS)
    produce(gateway, values_of("g"), PARTITIONS)
    asked = {"endpoint": gateway.endpoint, "topic": "orders"}
    with Librdkafka(gateway.endpoint, "orders") as member:
        until(lambda: len(member.got) == RECORDS, member)
        found = program.done("groups", group="billing", **asked)
    assert found["listed"] == ["billing"]
    assert (found["state"].capitalize(), found["members"]) == ("Stable", 1)
    each = RECORDS // PARTITIONS
    assert sorted(found["offsets"]) == [[number, each] for number in range(PARTITIONS)]


@of(MOVING)
def test_a_program_moves_and_deletes_groups(gateway, program):
    gateway.create("orders", PARTITIONS)
    asked = {"endpoint": gateway.endpoint, "topic": "orders", "group": "billing"}
    program.done("move", offset=17, **asked)
    assert committed(gateway) == {1: 17}
    program.done("forget", **asked)
    assert committed(gateway) == {}


@of(UNSETTING)
def test_a_program_forgets_an_offset_of_a_group(gateway, program):
    gateway.create("orders", PARTITIONS)
    settings = {"bootstrap.servers": gateway.endpoint, "group.id": "billing"}
    places = [confluent_kafka.TopicPartition("orders", number, 9) for number in range(2)]
    consumer = confluent_kafka.Consumer(settings)
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    assert committed(gateway) == {0: 9, 1: 9}
    program.done("unset", endpoint=gateway.endpoint, topic="orders", group="billing")
    assert committed(gateway) == {0: 9}


def every(records):
    return {(number % PARTITIONS, number // PARTITIONS) for number in range(records)}


def split(*members):
    parts = [one.assigned for one in members]
    return all(parts) and sum(map(len, parts)) == len(frozenset().union(*parts)) == PARTITIONS


def committed(gateway):
    found = gateway.call(gateway.broker.committed("billing"))
    return {partition.number: one.offset for partition, one in found.items()}


@pytest.mark.parametrize(("program", "protocol"), CLASSIC + ASSIGNED, ids=named)
def test_programs_share_partitions_and_take_over_what_a_killed_one_had(gateway, program, protocol):
    gateway.create("orders", PARTITIONS)
    produce(gateway, values_of("g"), PARTITIONS)
    options = {
        "endpoint": gateway.endpoint,
        "topic": "orders",
        "group": "billing",
        "protocol": protocol,
        "session_ms": SESSION_MS,
    }
    with program.member(**options) as first, program.member(**options) as second:
        until(lambda: split(first, second), first, second)
        until(lambda: set(first.got + second.got) == every(RECORDS), first, second)
        second.kill()
        killed_s = time.monotonic()
        until(lambda: split(first), first)
        assert time.monotonic() - killed_s > 1, "it was waited for"
        produce(gateway, values_of("h"), PARTITIONS)
        until(lambda: set(first.got + second.got) == every(2 * RECORDS), first)
    assert committed(gateway) == dict.fromkeys(range(PARTITIONS), 2 * RECORDS // PARTITIONS)


@pytest.fixture
def member_of(gateway):
    """A function that makes a member of one group of patient members."""
    gateway.create("orders", PARTITIONS)

    def make(program, **options):
        asked = {"endpoint": gateway.endpoint, "topic": "orders", "group": "billing"}
        return program.member(**asked, protocol="classic", session_ms=30_000, **options)

    return make


@of(JAVA)
def test_cooperative_members_give_away_only_what_others_get(member_of, program):
    with member_of(program, cooperative="true") as first:
        until(lambda: split(first), first)
        with member_of(program, cooperative="true") as second:
            until(lambda: split(first, second), first, second)
            assert all(first.history[1:]), "it always had something"
            assert len(first.assigned) == len(second.assigned) == PARTITIONS // 2


@of(STATIC)
def test_a_static_member_starts_again_without_anybody_else_noticing(member_of, program):
    with member_of(program, instance="a") as first:
        with member_of(program, instance="b") as second:
            until(lambda: split(first, second), first, second)
            had, before = second.assigned, first.history[:]
            second.kill()
        with member_of(program, instance="b") as again:
            until(lambda: split(first, again), first, again)
            assert again.assigned == had
        assert first.history == before


@of(REFUSALS)
def test_a_program_is_told_at_once_that_there_are_no_transactions(gateway, program):
    program.done("administer", endpoint=gateway.endpoint, topic="warm")
    began_s = time.monotonic()
    answer = program.ask("transact", endpoint=gateway.endpoint)
    assert time.monotonic() - began_s < AT_ONCE_S
    assert re.search(REFUSALS[program], answer["error"]), answer


@pytest.fixture
def make_place(tmp_path):
    """A function that serves who logs in, and returns the gateway and what a user is asked for."""
    opened = []

    def make(mechanism, *, tls):
        file, passwords = write_users(tmp_path, tls=tls, shop=RULES)
        opened.append(served(users=load_users(file)))
        gateway = opened[-1].__enter__()
        gateway.create("orders")
        return gateway, {
            "endpoint": gateway.endpoint,
            "topic": "orders",
            "records": 1,
            "name": "login",
            "codec": "none",
            "idempotent": "true",
            "ca": tmp_path / "ca.pem" if tls else None,
            "mechanism": mechanism,
            "username": "shop",
            "password": passwords["shop"],
        }

    yield make
    for one in opened:
        one.__exit__(None, None, None)


@pytest.mark.parametrize("tls", [False, True], ids=["plain text", "TLS"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@every_program
def test_a_program_that_has_the_password_writes(make_place, program, mechanism, tls):
    gateway, asked = make_place(mechanism, tls=tls)
    program.done("produce", **asked)
    assert sum(one.records for one in headers_of(gateway)) == 1


@every_program
def test_a_program_whose_certificate_is_a_login_writes(make_place, tmp_path, program):
    gateway, asked = make_place(None, tls=True)
    program.done("produce", **asked | {"certificate": tmp_path / "shop.pem"})
    assert sum(one.records for one in headers_of(gateway)) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
@of([one for one in PROGRAMS if one is not PLATFORMATIC])
def test_a_program_that_has_not_is_told_so(make_place, program, mechanism):
    """What Platformatic sends after a refused login is never done, and never fails."""
    gateway, asked = make_place(mechanism, tls=False)
    refused = program.ask("produce", **asked | {"password": "wrong"})
    said = "SASL Authentication failed" if program is SARAMA else "no user has these credentials"
    assert said in refused["error"]
    assert headers_of(gateway) == []
