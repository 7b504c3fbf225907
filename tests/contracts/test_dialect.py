"""What every dialect promises, whatever its bytes look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dafka.errors import WireError
from dafka.model import slot_key, slot_of
from dafka.testing.strategies import addresses, wire_messages
from dafka.wire import messages
from dafka.wire.dialect import dialect
from dafka.wire.messages import MessageId
from dafka.wire.primitives import octets_of

pytestmark = pytest.mark.parametrize("wire", [dialect("rfc46"), dialect("libdafka")])


@given(message=wire_messages)
def test_every_message_survives(wire, message):
    assert wire.decode(wire.encode(message)) == message


@given(message=wire_messages)
def test_a_message_begins_with_what_its_receivers_subscribe_to(wire, message):
    key = message_key(message)
    assert wire.encode(message)[0].startswith(wire.prefix(message.id, key))
    assert wire.encode(message)[0].startswith(wire.prefix(message.id, ""))


def message_key(message):
    match message:
        case messages.StoredRecords():
            return messages.channel(message.store, message.topic)
        case messages.SlotRecords():
            return slot_key(slot_of(message.address))
        case messages.RecordMessage() | messages.Records() | messages.Head() | messages.GetHeads():
            return message.topic
        case messages.Fetch() | messages.Ack():
            return message.address
        case messages.ConsumerHello():
            return message.store
        case messages.StoreHello():
            return message.consumer
        case _:
            return message.requester


@given(message_id=st.sampled_from(MessageId), key=st.just("") | addresses)
def test_a_publisher_understands_every_subscription(wire, message_id, key):
    if len(octets_of(key)) <= 249:
        assert wire.subscription(wire.prefix(message_id, key)) == (message_id, key)


@pytest.mark.parametrize("octets", [b"", b"Zhello", b"M" + b"x" * 300])
def test_what_is_no_subscription_is_none(wire, octets):
    assert wire.subscription(octets) is None


@given(message=wire_messages, cut=st.integers(1, 400))
def test_a_cut_header_is_refused_or_lacks_only_an_extension(wire, message, cut):
    frames = wire.encode(message)
    at = 0 if len(frames) == 1 or message_header_first(frames) else 1
    frames[at] = frames[at][: max(0, len(frames[at]) - cut)]
    try:
        shorter = wire.decode(frames)
    except WireError:
        return
    assert shorter.id is message.id
    assert getattr(shorter, "store", None) is None
    assert not getattr(shorter, "batched", False)
    assert not getattr(shorter, "stored", False)


def message_header_first(frames):
    return b"\0\1" in frames[0]


@given(frames=st.lists(st.binary(max_size=40), max_size=4))
def test_any_bytes_raise_nothing_else(wire, frames):
    with pytest.raises(WireError):
        wire.decode(frames)


@given(message=wire_messages)
def test_a_surplus_frame_is_refused(wire, message):
    with pytest.raises(WireError, match="frame count"):
        wire.decode([*wire.encode(message), b"surplus"])
