"""Fields that no dialect may let through."""

from __future__ import annotations

import pytest

from dafka.errors import WireError
from dafka.wire import fields, messages
from dafka.wire.messages import MessageId
from dafka.wire.primitives import Reader

PLACE = "02 4142 02 6865 0000000000000009"


def control(message_id, key, octets):
    return fields.read_control(message_id, key, Reader(bytes.fromhex(octets)))


def test_fields_stand_in_the_order_of_the_grammar():
    key, octets, content = fields.parts(messages.RecordMessage("he", "AB", 9, b"one"))
    assert (key, octets, content) == ("he", bytes.fromhex(PLACE), b"one")
    assert control(MessageId.HEAD, "he", PLACE) == messages.Head("he", "AB", 9)


def test_a_record_that_is_in_a_batch_too_says_so():
    record = messages.RecordMessage("he", "AB", 9, b"one", batched=True)
    key, octets, content = fields.parts(record)
    assert octets == bytes.fromhex(PLACE) + b"B"
    assert fields.read_batch(MessageId.RECORD, key, Reader(octets), content) == record


def test_a_head_that_is_stored_says_so():
    head = messages.Head("he", "AB", 9, stored=True)
    key, octets, content = fields.parts(head)
    assert (octets, content) == (bytes.fromhex(PLACE) + b"S", None)
    assert fields.read_control(MessageId.HEAD, key, Reader(octets)) == head


@pytest.mark.parametrize(
    ("reason", "message_id", "key", "octets"),
    [
        ("address", MessageId.DIRECT_HEAD, "", PLACE),
        ("address", MessageId.DIRECT_HEAD, "A\0B", PLACE),
        ("address", MessageId.HEAD, "he", "02 4100 02 6865 0000000000000009"),
        ("address", MessageId.GET_HEADS, "he", "00"),
        ("address", MessageId.STORE_HELLO, "CC", "01 00"),
        ("address", MessageId.DIRECT_HEAD, "CC", PLACE + "01 00"),
        ("topic", MessageId.HEAD, "he", "02 4142 02 6800 0000000000000009"),
        ("topic", MessageId.CONSUMER_HELLO, "ST", "02 4343 00000001 00000001 00"),
        ("topic frame", MessageId.HEAD, "hello", PLACE),
        ("sequence", MessageId.HEAD, "he", "02 4142 02 6865 FFFFFFFFFFFFFFFF"),
        ("truncated", MessageId.FETCH, "AB", PLACE),
        ("message id", MessageId.RECORD, "he", PLACE),
    ],
)
def test_refusals(reason, message_id, key, octets):
    with pytest.raises(WireError) as refusal:
        control(message_id, key, octets)
    assert refusal.value.reason == reason
