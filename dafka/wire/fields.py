"""The fields of each message, in the order of the grammar: what both dialects share.

Only an ACK differs, which `dafka.wire.libdafka` therefore writes and reads itself.

Source: 46/DAFKA, Protocol Grammar.
"""

from __future__ import annotations

from functools import partial
from operator import lt
from typing import TYPE_CHECKING, Any, assert_never

from dafka.errors import WireError
from dafka.limits import (
    ADDRESS_BYTES_MAX,
    BATCH_RECORDS_MAX,
    FRAME_BYTES_MAX,
    HELLO_TOPICS_MAX,
    KEY_BYTES_MAX,
    TOPIC_BYTES_MAX,
)
from dafka.model import ALL_SLOTS, SLOTS, Slots, slot_key, slot_of
from dafka.wire import messages
from dafka.wire.messages import Message, MessageId
from dafka.wire.primitives import Reader, longstr, number_4, number_8, octets_of, string

if TYPE_CHECKING:
    from collections.abc import Callable

SEQUENCE_MAX = 2**63 - 2
"""Largest sequence accepted: the one behind it must fit a signed 64-bit number, too."""

_BATCHED = b"B"
"""Behind the fields of a RECORD whose record is in a RECORDS, too."""

_STORED = b"S"
"""Behind the fields of a HEAD up to which enough stores have everything."""


def parts(message: Message) -> tuple[str, bytes, bytes | None]:
    """Key, fields and content of a message; the content is None where there is no such frame."""
    match message:
        case messages.SlotRecords():
            key = slot_key(slot_of(message.address))
            return key, _place(message) + number_4(message.count), message.content
        case messages.Records():
            return message.topic, _place(message) + number_4(message.count), message.content
        case messages.DirectRecords():
            return message.requester, _place(message) + number_4(message.count), message.content
        case messages.StoredRecords():
            octets = _place(message) + number_4(message.count) + string(message.store)
            return messages.channel(message.store, message.topic), octets, message.content
        case messages.RecordMessage():
            octets = _place(message) + (_BATCHED if message.batched else b"")
            return message.topic, octets, message.content
        case messages.DirectRecord():
            return message.requester, _place(message), message.content
        case messages.Head():
            return message.topic, _head(message), None
        case _:
            return _control_parts(message)


def _control_parts(
    message: messages.Fetch
    | messages.Ack
    | messages.DirectHead
    | messages.GetHeads
    | messages.ConsumerHello
    | messages.StoreHello
    | messages.LogStart,
) -> tuple[str, bytes, None]:
    match message:
        case messages.Fetch():
            return message.address, _fetch(message), None
        case messages.Ack():
            return message.address, _ack(message), None
        case messages.DirectHead():
            return message.requester, _direct_head(message), None
        case messages.LogStart():
            return message.requester, _place(message) + string(message.sender), None
        case messages.GetHeads():
            return message.topic, string(message.requester) + _slots(message.slots), None
        case messages.ConsumerHello():
            topics = b"".join(longstr(topic) for topic in message.topics)
            fields = string(message.consumer) + number_4(len(message.topics)) + topics
            return message.store, fields, None
        case messages.StoreHello():
            return message.consumer, string(message.store) + _slots(message.slots), None
        case _:
            assert_never(message)


def _slots(slots: Slots) -> bytes:
    if slots == ALL_SLOTS:
        return b""
    ranges = slots.ranges()
    return number_4(len(ranges)) + b"".join(
        number_4(one.start) + number_4(one.stop - 1) for one in ranges
    )


def _head(head: messages.Head) -> bytes:
    return _place(head) + (_STORED if head.stored else b"")


def _fetch(fetch: messages.Fetch) -> bytes:
    asked = string(fetch.requester) + string(fetch.topic) + number_8(fetch.sequence)
    return asked + number_4(fetch.count) + trailer(fetch.store)


def _ack(ack: messages.Ack) -> bytes:
    stored = string(ack.store or "") + string(ack.topic) + number_8(ack.sequence)
    return stored + run_trailer(ack.run)


def _direct_head(head: messages.DirectHead) -> bytes:
    return _place(head) + trailer(head.store) + run_trailer(head.run)


WRITERS: dict[MessageId, Callable[[Any], bytes]] = {
    MessageId.HEAD: _head,
    MessageId.FETCH: _fetch,
    MessageId.ACK: _ack,
    MessageId.DIRECT_HEAD: _direct_head,
}
"""What writes the fields of messages that travel together."""


def _place(
    message: messages.Batch | messages.Head | messages.DirectHead | messages.LogStart,
) -> bytes:
    return string(message.address) + string(message.topic) + number_8(message.sequence)


def trailer(store: str | None) -> bytes:
    """Behind the fields of the RFC, where peers that do not know it do not look."""
    return b"" if store is None else string(store)


def key_bytes_max(message_id: MessageId) -> int:
    """How long the key of a message may be: most are one name, and one is two."""
    return KEY_BYTES_MAX if message_id is MessageId.STORED_RECORDS else ADDRESS_BYTES_MAX


WITH_CONTENT = frozenset(
    (
        MessageId.RECORD,
        MessageId.DIRECT_RECORD,
        MessageId.RECORDS,
        MessageId.DIRECT_RECORDS,
        MessageId.SLOT_RECORDS,
        MessageId.STORED_RECORDS,
    )
)
"""Messages that have a content frame."""


def read_batch(message_id: MessageId, key: str, reader: Reader, content: bytes) -> Message:
    """Read a message of `WITH_CONTENT` off its fields.

    Raises:
        WireError: A field is not what it may be.
    """
    address, topic, sequence = _read_place(reader)
    if len(content) > FRAME_BYTES_MAX:
        raise WireError("content size")
    if message_id is MessageId.RECORD:
        batched = _read_mark(reader, _BATCHED)
        return messages.RecordMessage(_same(topic, key), address, sequence, content, batched)
    if message_id is MessageId.DIRECT_RECORD:
        return messages.DirectRecord(named(key), topic, address, sequence, content)
    count = reader.number_4()
    if not 1 <= count <= BATCH_RECORDS_MAX:
        raise WireError("count")
    if sequence + count - 1 > SEQUENCE_MAX:
        raise WireError("sequence")
    if message_id is MessageId.RECORDS:
        return messages.Records(_same(topic, key), address, sequence, count, content)
    if message_id is MessageId.SLOT_RECORDS:
        _same(slot_key(slot_of(address)), key)
        return messages.SlotRecords(topic, address, sequence, count, content)
    if message_id is MessageId.STORED_RECORDS:
        store = _read_address(reader)
        _same(messages.channel(store, topic), key)
        return messages.StoredRecords(store, topic, address, sequence, count, content)
    return messages.DirectRecords(named(key), topic, address, sequence, count, content)


def read_control(message_id: MessageId, key: str, reader: Reader) -> Message:
    """Read any other message off its fields.

    Raises:
        WireError: A field is not what it may be.
    """
    match message_id:
        case MessageId.HEAD:
            head = _read_head(reader)
            _same(head.topic, key)
            return head
        case MessageId.DIRECT_HEAD:
            return _read_direct_head(named(key), reader)
        case MessageId.LOG_START:
            address, topic, sequence = _read_place(reader)
            return messages.LogStart(named(key), topic, address, sequence, _read_address(reader))
        case MessageId.FETCH:
            return _read_fetch(named(key), reader)
        case MessageId.ACK:
            return _read_ack(named(key), reader)
        case MessageId.GET_HEADS:
            return messages.GetHeads(key, _read_address(reader), _read_slots(reader))
        case MessageId.STORE_HELLO:
            return messages.StoreHello(named(key), _read_address(reader), _read_slots(reader))
        case MessageId.CONSUMER_HELLO:
            return messages.ConsumerHello(named(key), _read_address(reader), _read_topics(reader))
        case _:
            raise WireError("message id")


def bundled(message_id: MessageId, key: str) -> Callable[[Reader], Message]:
    """Return what reads one of several messages that have come together under `key`.

    It raises `WireError` if a field is not what it may be. HEADs have no key then.

    Raises:
        WireError: The key names nobody.
    """
    match message_id:
        case MessageId.HEAD:
            return _read_head
        case MessageId.ACK:
            return partial(_read_ack, named(key))
        case MessageId.DIRECT_HEAD:
            return partial(_read_direct_head, named(key))
        case _:
            return partial(_read_fetch, named(key))


def read_trailer(reader: Reader) -> str | None:
    """The inverse of `trailer`."""
    return _read_address(reader) if reader.remaining else None


def _read_mark(reader: Reader, mark: bytes) -> bool:
    return bool(reader.remaining) and reader.number_1() == mark[0]


def run_trailer(run: int | None) -> bytes:
    """Behind all fields where a store says how far it is: the run of the last record."""
    return b"" if run is None else number_8(run)


def read_run_trailer(reader: Reader) -> int | None:
    """The inverse of `run_trailer`."""
    return reader.number_8() if reader.remaining else None


def _read_place(reader: Reader) -> tuple[str, str, int]:
    """Address, topic and sequence: the fields most messages begin with."""
    address = named(reader.string())
    topic, sequence = read_position(reader)
    return address, topic, sequence


def read_position(reader: Reader) -> tuple[str, int]:
    """Read topic and sequence.

    Raises:
        WireError: One is not what it may be.
    """
    topic, sequence = reader.string(), reader.number_8()
    if not topic or "\0" in topic or _too_long(topic):
        raise WireError("topic")
    if sequence > SEQUENCE_MAX:
        raise WireError("sequence")
    return topic, sequence


def _read_slots(reader: Reader) -> Slots:
    """The inverse of `_slots`."""
    if not reader.remaining:
        return ALL_SLOTS
    count = reader.number_4()
    if count > SLOTS // 2:
        raise WireError("slots")
    # Not one by one: whoever wants to keep a node busy sends as many ranges as there may be.
    numbers = reader.numbers_4(2 * count)
    starts, ends = numbers[::2], [last + 1 for last in numbers[1::2]]
    if not all(map(lt, starts, ends)) or not all(map(lt, ends, starts[1:])):
        raise WireError("slots")
    if ends and ends[-1] > SLOTS:
        raise WireError("slots")
    return Slots.of(map(range, starts, ends))


def _read_topics(reader: Reader) -> tuple[str, ...]:
    count = reader.number_4()
    if count > HELLO_TOPICS_MAX or count * 4 > reader.remaining:
        raise WireError("topic count")
    topics = tuple(reader.longstr() for _ in range(count))
    if any("\0" in topic or _too_long(topic) for topic in topics):
        raise WireError("topic")
    return topics


def _too_long(topic: str) -> bool:
    # A character has four bytes at most, so most names need not be encoded to tell.
    return len(topic) > TOPIC_BYTES_MAX // 4 and len(octets_of(topic)) > TOPIC_BYTES_MAX


def _read_address(reader: Reader) -> str:
    return named(reader.string())


def named(address: str) -> str:
    """Return an address that names somebody, and can stand where a NUL ends it.

    Raises:
        WireError: It is empty or contains a NUL.
    """
    if not address or "\0" in address:
        raise WireError("address")
    return address


def _read_head(reader: Reader) -> messages.Head:
    address, topic, sequence = _read_place(reader)
    return messages.Head(topic, address, sequence, _read_mark(reader, _STORED))


def _read_direct_head(requester: str, reader: Reader) -> messages.DirectHead:
    address, topic, sequence = _read_place(reader)
    store, run = read_trailer(reader), read_run_trailer(reader)
    return messages.DirectHead(requester, topic, address, sequence, store, run)


def _read_fetch(partition_address: str, reader: Reader) -> messages.Fetch:
    requester, topic, sequence = _read_place(reader)
    count, store = reader.number_4(), read_trailer(reader)
    return messages.Fetch(topic, partition_address, requester, sequence, count, store)


def _read_ack(partition_address: str, reader: Reader) -> messages.Ack:
    store, topic, sequence = _read_place(reader)
    return messages.Ack(topic, partition_address, store, sequence, read_run_trailer(reader))


def _same(named: str, key: str) -> str:
    if named != key:
        raise WireError("topic frame")
    return named
