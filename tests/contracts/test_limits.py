"""Limits on what peers send: taken at the limit, refused one beyond it, before memory is taken."""

from __future__ import annotations

import tracemalloc

import pytest

from dafka.errors import MisuseError, RecordError, WireError
from dafka.groups.membership import Accept, Ballot
from dafka.limits import (
    ADDRESS_BYTES_MAX,
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    DIGESTS_MAX,
    GROUP_BYTES_MAX,
    HEADER_BYTES_MAX,
    HELLO_TOPICS_MAX,
    MEMBERSHIP_BYTES_MAX,
    PARTITIONS_MAX,
    PEERS_MAX,
    QUERY_BYTES_MAX,
    QUESTION_BYTES_MAX,
    READ_SPANS_MAX,
    STORES_MAX,
    TOPIC_BYTES_MAX,
)
from dafka.model import Partition, checked_topic
from dafka.protocol.effects import Dropped
from dafka.protocol.presence import Heard, PresenceMachine, PresenceSettings
from dafka.protocol.receiver import Inflow
from dafka.protocol.stores import KnownStores
from dafka.query import messages as questions
from dafka.query.messages import decode_question
from dafka.records.batch import BatchBuilder, checked_count, enclosed
from dafka.records.envelope import ENVELOPE_BYTES
from dafka.wire import libdafka, messages, rfc46
from dafka.wire.beacon import (
    NodeBeacon,
    TowerBeacon,
    decode_node_beacon,
    encode_node_beacon,
)
from dafka.wire.fields import SEQUENCE_MAX
from dafka.wire.primitives import longstr, number_4, number_8, string

both = pytest.mark.parametrize("dialect", [rfc46, libdafka], ids=["rfc46", "libdafka"])


def reason_of(decode, *given):
    with pytest.raises(WireError) as refused:
        decode(*given)
    return refused.value.reason


def framed(dialect, identity, key, fields):
    """A message as it would be written, were it allowed."""
    if dialect is rfc46:
        return [identity + key, b"\xaa\xa5" + identity + b"\1" + fields]
    return [identity + key + b"\0\1" + fields]


@both
def test_a_topic(dialect):
    head = messages.Head("x" * TOPIC_BYTES_MAX, "AA", 0)
    assert dialect.decode(dialect.encode(head)) == head
    longer = b"x" * (TOPIC_BYTES_MAX + 1)
    fields = string("AA") + string(longer.decode()) + number_8(0)
    assert reason_of(dialect.decode, framed(dialect, b"H", longer, fields)) == "topic"


def test_a_topic_of_ours():
    assert checked_topic("x" * TOPIC_BYTES_MAX)
    with pytest.raises(MisuseError, match="1 to 249 bytes"):
        checked_topic("x" * (TOPIC_BYTES_MAX + 1))


@both
def test_topics_of_a_hello(dialect):
    topics = tuple("x" * (TOPIC_BYTES_MAX - 5) + f"{n:05}" for n in range(HELLO_TOPICS_MAX))
    hello = messages.ConsumerHello("ST", "CC", topics)
    assert dialect.decode(dialect.encode(hello)) == hello
    fields = string("CC") + number_4(HELLO_TOPICS_MAX + 1) + longstr("x") * (HELLO_TOPICS_MAX + 1)
    assert reason_of(dialect.decode, framed(dialect, b"W", b"ST", fields)) == "topic count"
    one_longer = string("CC") + number_4(1) + longstr("x" * (TOPIC_BYTES_MAX + 1))
    assert reason_of(dialect.decode, framed(dialect, b"W", b"ST", one_longer)) == "topic"


@both
def test_a_header(dialect):
    hello = messages.ConsumerHello("ST", "CC", ("flights",))
    frames = dialect.encode(hello)
    frames[-1] += bytes(HEADER_BYTES_MAX - len(frames[-1]))
    assert dialect.decode(frames) == hello
    frames[-1] += b"\0"
    assert reason_of(dialect.decode, frames) == "header size"


@both
def test_an_address(dialect):
    longest = messages.StoreHello("A" * ADDRESS_BYTES_MAX, "S" * ADDRESS_BYTES_MAX)
    assert dialect.decode(dialect.encode(longest)) == longest
    frames = framed(dialect, b"L", b"A" * (ADDRESS_BYTES_MAX + 1), string("ST"))
    assert reason_of(dialect.decode, frames) in ("header size", "topic frame")


def test_an_address_in_a_beacon():
    beacon = NodeBeacon("A" * ADDRESS_BYTES_MAX, "h", 65_535)
    frames = encode_node_beacon(beacon)
    assert decode_node_beacon(frames) == beacon
    assert reason_of(decode_node_beacon, [b"B", frames[1] + b"A", *frames[2:]]) == "beacon address"
    assert reason_of(decode_node_beacon, [*frames[:3], b"65536"]) == "beacon endpoint"


@both
def test_a_sequence_and_a_count(dialect):
    last = messages.Records("x", "AA", SEQUENCE_MAX - BATCH_RECORDS_MAX + 1, BATCH_RECORDS_MAX, b"")
    assert dialect.decode(dialect.encode(last)) == last
    for sequence, count, reason in (
        (last.sequence + 1, last.count, "sequence"),
        (SEQUENCE_MAX + 1, 1, "sequence"),
        (0, BATCH_RECORDS_MAX + 1, "count"),
        (0, 0, "count"),
    ):
        message = messages.Records("x", "AA", sequence, count, b"")
        assert reason_of(dialect.decode, dialect.encode(message)) == reason


def test_a_batch():
    largest = BATCH_BYTES_MAX - ENVELOPE_BYTES
    for size, fits in ((largest - 80, True), (largest, False)):
        builder = BatchBuilder(BATCH_BYTES_MAX)
        builder.append(0, None, bytes(size), ())
        content = enclosed(builder.build(), 0)
        assert (len(content) <= BATCH_BYTES_MAX) is fits
        if fits:
            assert checked_count(content, 0) == 1
        else:
            with pytest.raises(RecordError, match="batch size"):
                checked_count(content, 0)


def test_a_question():
    assert reason_of(decode_question, b"\1" + bytes(QUERY_BYTES_MAX - 1)) == "query message"
    assert reason_of(decode_question, b"\1" + bytes(QUERY_BYTES_MAX)) == "query size"


def test_the_largest_questions_fit_into_what_a_store_takes():
    names = bytes(TOPIC_BYTES_MAX), bytes(ADDRESS_BYTES_MAX)
    spans = ((*names, 2**63 - 1, 2**63 - 1),) * DIGESTS_MAX
    accept = Accept(
        "g" * GROUP_BYTES_MAX, Ballot(2**62, "A" * ADDRESS_BYTES_MAX), bytes(MEMBERSHIP_BYTES_MAX)
    )
    reads = questions.ReadsRequest(spans[:READ_SPANS_MAX], 2**63 - 1)
    for question in (questions.DigestsRequest(spans), reads, questions.AcceptRequest(accept)):
        octets = questions.encode(question)
        assert len(octets) <= QUESTION_BYTES_MAX
        assert decode_question(octets) == question


def test_peers():
    machine = PresenceMachine(NodeBeacon("ME", "h", 1), PresenceSettings(), ["tower"])
    dropped = []
    for number in range(PEERS_MAX + 1):
        beacon = TowerBeacon(f"N{number}", f"tcp://h:{number + 1}")
        effects = machine.handle(Heard(beacon, "tower"), 0)
        dropped += [number for effect in effects if effect == Dropped("too many peers")]
    assert dropped == [PEERS_MAX]


def test_partitions():
    machine = Inflow("ME")
    taken = [machine.start(Partition("x", str(n)), 0) for n in range(PARTITIONS_MAX + 1)]
    assert taken.index(False) == PARTITIONS_MAX


def test_stores():
    machine = KnownStores()
    assert [machine.heard_from(str(n), 0) for n in range(STORES_MAX + 1)].index(False) == STORES_MAX


@both
@pytest.mark.parametrize(
    ("identity", "key", "fields"),
    [
        (b"W", b"ST", string("CC") + number_4(2**32 - 1)),
        (b"W", b"ST", string("CC") + number_4(HELLO_TOPICS_MAX)),
        (b"W", b"ST", string("CC") + number_4(1) + number_4(2**32 - 1)),
        (b"H", b"x", b"\xff"),
    ],
)
def test_a_length_is_checked_before_memory_is_taken(dialect, identity, key, fields):
    frames = framed(dialect, identity, key, fields)
    tracemalloc.start()
    try:
        reason_of(dialect.decode, frames)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024
