from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import WireError
from dafka.model import Slots
from dafka.testing.strategies import addresses, wire_messages
from dafka.wire import messages, rfc46
from dafka.wire.messages import MessageId

# Written by hand from the Protocol Grammar of 46/DAFKA: signature, id, version, then the fields.
# 02 is the length of the strings; sequences have eight octets, counts four.
VECTORS = [
    (
        messages.RecordMessage("he", "AB", 1, b"content"),
        ["4D 6865", "AAA5 4D 01 02 4142 02 6865 0000000000000001", b"content".hex()],
    ),
    (
        messages.DirectRecord("CC", "he", "AB", 2**63 - 2, b""),
        ["44 4343", "AAA5 44 01 02 4142 02 6865 7FFFFFFFFFFFFFFE", ""],
    ),
    (
        messages.Records("he", "AB", 256, 1_000, b"x"),
        ["42 6865", "AAA5 42 01 02 4142 02 6865 0000000000000100 000003E8", "78"],
    ),
    (
        messages.SlotRecords("he", "AB", 256, 1_000, b"x"),  # CRC-32 of AB is 30694C07
        [
            f"53 {b'110000000111'.hex()}",
            "AAA5 53 01 02 4142 02 6865 0000000000000100 000003E8",
            "78",
        ],
    ),
    (
        messages.DirectRecords("CC", "he", "AB", 0, 1, b"x"),
        ["52 4343", "AAA5 52 01 02 4142 02 6865 0000000000000000 00000001", "78"],
    ),
    (
        messages.StoredRecords("ST", "he", "AB", 256, 1_000, b"x"),
        ["50 53542F6865", "AAA5 50 01 02 4142 02 6865 0000000000000100 000003E8 02 5354", "78"],
    ),
    (
        messages.Fetch("he", "AB", "CC", 5, 3),
        ["46 4142", "AAA5 46 01 02 4343 02 6865 0000000000000005 00000003"],
    ),
    (
        messages.Ack("he", "AB", "ST", 9),
        ["4B 4142", "AAA5 4B 01 02 5354 02 6865 0000000000000009"],
    ),
    (
        messages.Head("he", "AB", 9),
        ["48 6865", "AAA5 48 01 02 4142 02 6865 0000000000000009"],
    ),
    (
        messages.DirectHead("CC", "he", "AB", 9),
        ["45 4343", "AAA5 45 01 02 4142 02 6865 0000000000000009"],
    ),
    (
        messages.DirectHead("CC", "he", "AB", 9, "ST"),
        ["45 4343", "AAA5 45 01 02 4142 02 6865 0000000000000009 02 5354"],
    ),
    (
        messages.DirectHead("CC", "he", "AB", 9, "ST", 7),
        ["45 4343", "AAA5 45 01 02 4142 02 6865 0000000000000009 02 5354 0000000000000007"],
    ),
    (
        messages.Fetch("he", "AB", "CC", 9, 5, messages.ANY_STORE),
        ["46 4142", "AAA5 46 01 02 4343 02 6865 0000000000000009 00000005 01 2A"],
    ),
    (messages.GetHeads("he", "CC"), ["47 6865", "AAA5 47 01 02 4343"]),
    (messages.GetHeads("", "CC"), ["47", "AAA5 47 01 02 4343"]),
    (
        messages.ConsumerHello("ST", "CC", ("he", "hello")),
        [
            "57 5354",
            "AAA5 57 01 02 4343 00000002 00000002 6865 00000005 68656C6C6F",
        ],
    ),
    (messages.ConsumerHello("ST", "CC", ()), ["57 5354", "AAA5 57 01 02 4343 00000000"]),
    (messages.StoreHello("CC", "ST"), ["4C 4343", "AAA5 4C 01 02 5354"]),
    (
        messages.StoreHello("CC", "ST", Slots.of([range(9), range(4_095, 4_096)])),
        ["4C 4343", "AAA5 4C 01 02 5354 00000002 00000000 00000008 00000FFF 00000FFF"],
    ),
    (
        messages.Fetch("he", "AB", "CC", 9, 5, "ST"),
        ["46 4142", "AAA5 46 01 02 4343 02 6865 0000000000000009 00000005 02 5354"],
    ),
    (
        messages.LogStart("CC", "he", "AB", 9, "ST"),
        ["54 4343", "AAA5 54 01 02 4142 02 6865 0000000000000009 02 5354"],
    ),
]


@pytest.mark.parametrize(("message", "frames"), VECTORS, ids=lambda v: type(v).__name__)
def test_literal_bytes(message, frames):
    octets = [bytes.fromhex(frame) for frame in frames]
    assert rfc46.encode(message) == octets
    assert rfc46.decode(octets) == message


WITH_TRAILER = (MessageId.ACK, MessageId.DIRECT_HEAD, MessageId.FETCH, MessageId.RECORD)


def test_only_stored_records_have_a_key_of_two_names():
    longest = messages.channel("S" * 255, "t" * 249)
    prefix = rfc46.prefix(MessageId.STORED_RECORDS, longest)
    assert rfc46.subscription(prefix) == (MessageId.STORED_RECORDS, longest)
    assert rfc46.subscription(rfc46.prefix(MessageId.RECORDS, longest)) is None
    assert rfc46.subscription(prefix + b"t") is None
    message = messages.StoredRecords("S" * 255, "t" * 249, "AB", 0, 1, b"x")
    assert rfc46.decode(rfc46.encode(message)) == message
    topic_frame, header, content = rfc46.encode(message)
    with pytest.raises(WireError):
        rfc46.decode([topic_frame[:-1], header, content])


def test_every_message_has_a_vector():
    assert {type(message).id for message, _ in VECTORS} == set(MessageId)


@given(wire_messages)
def test_every_message_survives(message):
    assert rfc46.decode(rfc46.encode(message)) == message


@given(wire_messages)
def test_the_topic_frame_is_what_peers_subscribe_to(message):
    topic_frame = rfc46.encode(message)[0]
    message_id, key = rfc46.subscription(topic_frame)
    assert message_id is message.id
    assert rfc46.prefix(message_id, key) == topic_frame
    assert topic_frame.startswith(rfc46.prefix(message_id, ""))


@given(wire_messages, st.binary(max_size=20))
def test_what_follows_the_fields_is_for_later_versions(message, trailer):
    if message.id in WITH_TRAILER:
        return  # what follows there has a meaning
    frames = rfc46.encode(message)
    frames[1] += trailer
    assert rfc46.decode(frames) == message


def test_mutated_bytes_raise_nothing_else():
    chance = random.Random(46)
    accepted = refused = 0
    for case in range(5_600):
        frames = [bytearray(frame) for frame in rfc46.encode(VECTORS[case % len(VECTORS)][0])]
        for _ in range(chance.randint(1, 4)):
            mutate(chance, frames)
        try:
            message = rfc46.decode([bytes(frame) for frame in frames])
        except WireError:
            refused += 1
        else:
            # What is accepted can be sent on.
            assert rfc46.decode(rfc46.encode(message)) == message
            accepted += 1
    assert accepted > 100
    assert refused > 1_000


def mutate(chance, frames):
    frame = chance.choice(frames) if frames else bytearray()
    match chance.randrange(6):
        case 0 | 1 if frame:
            frame[chance.randrange(len(frame))] = chance.randrange(256)
        case 2 if frame:
            del frame[chance.randrange(len(frame)) :]
        case 3:
            position = chance.randint(0, len(frame))
            frame[position:position] = chance.randbytes(chance.randint(1, 9))
        case 4:
            frames.insert(chance.randint(0, len(frames)), bytearray(chance.randbytes(5)))
        case 5 if frames:
            del frames[chance.randrange(len(frames))]


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_any_bytes_raise_nothing_else(frames):
    with pytest.raises(WireError):
        rfc46.decode(frames)


@pytest.mark.parametrize(
    "message",
    [
        messages.Head("hello", "AB", 1),
        messages.RecordMessage("hello", "AB", 1, b""),
        messages.Records("hello", "AB", 1, 1, b""),
    ],
)
def test_a_topic_frame_that_is_only_the_beginning_is_refused(message):
    frames = rfc46.encode(message)
    frames[0] = frames[0][:3]  # as if it had been published under `he`
    with pytest.raises(WireError, match="topic frame"):
        rfc46.decode(frames)


def refusals():
    head = ["48 6865", "AAA5 48 01 02 4142 02 6865 0000000000000009"]
    record = ["4D 6865", "AAA5 4D 01 02 4142 02 6865 0000000000000001", "78"]
    no_address = "AAA5 48 01 00 02 6865 0000000000000009"
    yield "frame count", head[:1]
    yield "frame count", []
    yield "frame count", [*record, "78"]
    yield "frame count", [*head, "78"]
    yield "frame count", record[:2]
    yield "signature", [head[0], "AAA0" + head[1][4:]]
    yield "signature", [head[0], ""]
    yield "message id", ["5A 6865", "AAA5 5A" + head[1][7:]]
    yield "message id", ["4D 6865", head[1]]
    yield "message id", ["", head[1]]
    yield "version", [head[0], head[1].replace("48 01", "48 02")]
    yield "version", [head[0], "AAA5 48"]
    yield "header size", ["48" + "61" * 256, head[1]]
    yield "header size", [head[0], head[1] + "00" * (4 << 20)]
    yield "truncated", [head[0], head[1][:-2]]
    yield "address", [head[0], no_address]
    yield "address", ["46", "AAA5 46 01 02 4343 02 6865 0000000000000005 00000003"]
    yield "address", ["46 4142", "AAA5 46 01 00 02 6865 0000000000000005 00000003"]
    yield "address", ["4B", "AAA5 4B 01 02 5354 02 6865 0000000000000009"]
    yield "topic", ["48", "AAA5 48 01 02 4142 00 0000000000000009"]
    yield "topic", ["48 6800", "AAA5 48 01 02 4142 02 6800 0000000000000009"]
    yield "topic", ["48" + "61" * 250, "AAA5 48 01 02 4142 FA" + "61" * 250 + "00" * 8]
    yield "topic frame", ["48 68", head[1]]
    yield "topic frame", ["48 68656C6C6F", head[1]]
    yield "sequence", [head[0], "AAA5 48 01 02 4142 02 6865 8000000000000000"]
    yield "count", ["42 6865", "AAA5 42 01 02 4142 02 6865 0000000000000000 00000000", "78"]
    yield "count", ["42 6865", "AAA5 42 01 02 4142 02 6865 0000000000000000 000186A1", "78"]
    yield "content size", [*record[:2], "00" * ((16 << 20) + 1)]
    yield "slots", ["4C 4343", "AAA5 4C 01 02 5354 00000801" + "00000000" * 4_098]
    yield "slots", ["4C 4343", "AAA5 4C 01 02 5354 00000001 00000009 00000008"]
    yield "slots", ["4C 4343", "AAA5 4C 01 02 5354 00000001 00000000 00001000"]
    twice = "00000002 00000000 00000004 00000004 00000009"
    yield "slots", ["4C 4343", f"AAA5 4C 01 02 5354 {twice}"]
    yield "truncated", ["4C 4343", "AAA5 4C 01 02 5354 00000001 00000000"]
    yield "topic count", ["57 5354", "AAA5 57 01 02 4343 FFFFFFFF"]
    yield "topic count", ["57 5354", "AAA5 57 01 02 4343 00002711" + "00000000" * 10_001]
    yield "topic count", ["57 5354", "AAA5 57 01 02 4343 00000002 00000000"]
    yield "topic", ["57 5354", "AAA5 57 01 02 4343 00000001 000000FA" + "61" * 250]


@pytest.mark.parametrize(("reason", "frames"), list(refusals()), ids=lambda v: str(v)[:40])
def test_refusals(reason, frames):
    with pytest.raises(WireError) as refusal:
        rfc46.decode([bytes.fromhex(frame) for frame in frames])
    assert refusal.value.reason == reason


@given(st.sampled_from(MessageId), addresses)
def test_subscriptions_survive(message_id, key):
    assert rfc46.subscription(rfc46.prefix(message_id, key)) == (message_id, key)


@pytest.mark.parametrize("octets", [b"", b"Zhe", b"M" + b"a" * 256])
def test_what_is_no_subscription(octets):
    assert rfc46.subscription(octets) is None
