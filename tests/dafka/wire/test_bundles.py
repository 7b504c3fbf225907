from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import WireError
from dafka.limits import BUNDLE_MAX, PARTITIONS_MAX
from dafka.testing.strategies import wire_messages
from dafka.wire import libdafka, messages, rfc46
from dafka.wire.bundles import Bundles, NamedTopics
from dafka.wire.messages import MessageId

ACKS = [messages.Ack(f"t{number}", "AA", "S1", number, number) for number in range(3)]
HEADS = [messages.Head(f"t{number}", "AA", number, stored=number > 1) for number in range(3)]


@pytest.fixture
def ours():
    return Bundles(rfc46, written=True)


def travelled(sender, published):
    """The frames of each message that left: at once, and at the end of the turn."""
    at_once = [frames for message in published if (frames := sender.add(message)) is not None]
    return at_once + list(sender.flush())


def place(message):
    return message.id, "" if message.id is MessageId.HEAD else rfc46.encode(message)[0]


@given(st.lists(wire_messages | st.sampled_from(ACKS + HEADS), max_size=30))
def test_everything_arrives_and_what_goes_to_the_same_listeners_in_order(published):
    sender = Bundles(rfc46, written=True)
    sent, arrived = defaultdict(list), defaultdict(list)
    for message in published:
        sent[place(message)].append(message)
    for frames in travelled(sender, published):
        for message in Bundles(rfc46, written=True).opened(frames):
            arrived[place(message)].append(message)
    assert arrived == sent
    assert list(sender.flush()) == []


@given(st.lists(wire_messages, max_size=10), st.sampled_from([(libdafka, True), (rfc46, False)]))
def test_where_others_may_be_each_leaves_at_once_and_by_itself(published, where):
    wire, written = where
    sender = Bundles(wire, written=written)
    assert [sender.add(message) for message in published] == [
        wire.encode(message) for message in published
    ]
    assert list(sender.flush()) == []


def test_one_alone_is_written_as_the_rfc_says(ours):
    assert travelled(ours, [ACKS[0], HEADS[0]]) == [rfc46.encode(ACKS[0]), rfc46.encode(HEADS[0])]


def test_literal_bytes(ours):
    (frames,) = travelled(ours, [messages.Head("a", "AB", 1), messages.Head("b", "AB", 2, True)])
    assert [frame.hex() for frame in frames] == [
        "48",
        "aaa54801",
        "000d" + "024142" + "0161" + "0000000000000001"
        "000e" + "024142" + "0162" + "0000000000000002" + "53",
    ]


def test_records_do_not_wait(ours):
    ours.add(ACKS[0])
    records = messages.Records("t", "AA", 0, 1, b"")
    assert ours.add(records) == rfc46.encode(records)


def test_of_a_topic_that_somebody_listens_for_heads_come_by_themselves(ours):
    ours.listened(MessageId.HEAD, "t1")
    ours.listened(MessageId.RECORDS, "t2")
    assert ours.add(HEADS[1]) == rfc46.encode(HEADS[1])
    (together,) = travelled(ours, [HEADS[0], HEADS[2]])
    assert ours.opened(together) == [HEADS[0], HEADS[2]]


def test_who_writes_none_reads_them(ours):
    (together,) = travelled(ours, ACKS)
    assert Bundles(rfc46, written=False).opened(together) == ACKS


def test_of_too_many_such_topics_every_head_comes_by_itself(ours):
    for number in range(PARTITIONS_MAX):
        ours.listened(MessageId.HEAD, f"other {number}")
    assert ours.add(HEADS[2]) == rfc46.encode(HEADS[2])


def test_a_full_bundle_leaves_at_once(ours):
    acks = [messages.Ack("t", "AA", "S1", number) for number in range(2 * BUNDLE_MAX + 1)]
    left = [len(ours.opened(frames)) for frames in travelled(ours, acks)]
    assert left == [BUNDLE_MAX, BUNDLE_MAX, 1]


def bundle(published):
    (frames,) = travelled(Bundles(rfc46, written=True), published)
    return frames


def refusals():
    topic, header, body = bundle(ACKS)
    yield "frame count", [topic, header, body, b""]
    yield "frame count", [topic, header + b"\0", body]
    yield "topic frame", [b"H" + topic[1:], header, body]
    yield "topic frame", [topic + b"A" * 254, header, body]
    yield "address", [b"K", header, body]
    yield "count", [topic, header, b""]
    yield "count", [topic, header, body[: len(body) // 3]]
    yield "topic frame", [b"Ht0", *bundle(HEADS)[1:]]
    yield "count", [topic, header, body[: len(body) // 3] * (BUNDLE_MAX + 1)]
    yield "truncated", [topic, header, body[:-1]]
    yield "truncated", [topic, header, body + b"\0"]
    yield "signature", [topic, b"\0" + header[1:], body]


@pytest.mark.parametrize(("reason", "frames"), [*refusals()])
def test_what_is_refused(ours, reason, frames):
    with pytest.raises(WireError, match=reason):
        ours.opened(frames)


def test_mutated_bytes_raise_nothing_else(ours):
    chance = random.Random(46)
    accepted = refused = 0
    for case in range(2_000):
        frames = [bytearray(frame) for frame in bundle((ACKS, HEADS)[case % 2])]
        for _ in range(chance.randint(1, 3)):
            frame = chance.choice(frames)
            if chance.random() < 0.7:
                frame[chance.randrange(len(frame))] = chance.randrange(256)
            else:
                del frame[chance.randrange(1, len(frame) + 1) :]
        try:
            opened = ours.opened([bytes(frame) for frame in frames])
        except WireError:
            refused += 1
        else:
            # What is accepted can be sent on.
            assert all(rfc46.decode(rfc46.encode(message)) == message for message in opened)
            accepted += 1
    assert accepted > 100
    assert refused > 500


def test_who_listens_for_all_names_none():
    topics = NamedTopics()
    topics.listened("")
    assert "orders" not in topics
    topics.listened("orders")
    assert "orders" in topics
    assert "others" not in topics


def test_who_cannot_be_remembered_is_thought_to_be_there():
    topics = NamedTopics()
    for number in range(PARTITIONS_MAX):
        assert "anything" not in topics
        topics.listened(str(number))
    topics.listened("others")
    assert "others" in topics
    assert "anything" in topics
