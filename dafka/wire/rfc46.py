"""The `rfc46` dialect: the messages as the RFC's grammar writes them.

| frame | bytes |
|---|---|
| 0 topic | message id, then the key the message is published under |
| 1 header | `AA A5`, message id, version `01`, the fields of the message in the grammar's order |
| 2 content | RECORD, DIRECT-RECORD, RECORDS and DIRECT-RECORDS only |

ZeroMQ matches subscriptions by prefix, so a node subscribed to topic `he` also receives `hello`;
`decode` therefore checks that the key is the whole of the field it stands for.

Source: 46/DAFKA, Protocol Grammar; where its prose differs the grammar wins (docs/protocol.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from dafka.errors import WireError
from dafka.limits import (
    BATCH_RECORDS_MAX,
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    HELLO_TOPICS_MAX,
    TOPIC_BYTES_MAX,
)
from dafka.wire import messages
from dafka.wire.messages import Message, MessageId
from dafka.wire.octets import Reader, longstr, number_4, number_8, octets_of, string, text

if TYPE_CHECKING:
    from collections.abc import Sequence

SIGNATURE = b"\xaa\xa5"
VERSION = 1
SEQUENCE_MAX = 2**63 - 1
"""Largest sequence accepted: storage and Kafka batches keep it as a signed 64-bit number."""

_IDS = {message_id.value: message_id for message_id in MessageId}
_PREAMBLES = {
    message_id: SIGNATURE + message_id.value + bytes((VERSION,)) for message_id in MessageId
}


def prefix(message_id: MessageId, key: str) -> bytes:
    """What a node subscribes to for messages of this id under this key (empty: every key)."""
    return message_id.value + octets_of(key)


def subscription(prefix_octets: bytes) -> tuple[MessageId, str] | None:
    """The inverse of `prefix`, for subscriptions a publisher sees; None if it is not one."""
    message_id = _IDS.get(prefix_octets[:1])
    if message_id is None or len(prefix_octets) > 1 + TOPIC_BYTES_MAX:
        return None
    return message_id, text(prefix_octets[1:])


def encode(message: Message) -> list[bytes]:
    """Return the frames of `message`: topic, header and, for records, content."""
    key, fields, content = _parts(message)
    frames = [prefix(message.id, key), _PREAMBLES[message.id] + fields]
    if content is not None:
        frames.append(content)
    return frames


def _parts(message: Message) -> tuple[str, bytes, bytes | None]:
    """Key, fields and content of a message."""
    match message:
        case messages.Records():
            return message.topic, _place(message) + number_4(message.count), message.content
        case messages.DirectRecords():
            return message.requester, _place(message) + number_4(message.count), message.content
        case messages.Record():
            return message.topic, _place(message), message.content
        case messages.DirectRecord():
            return message.requester, _place(message), message.content
        case messages.Head():
            return message.topic, _place(message), None
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
            fields = string(message.requester) + string(message.topic)
            fields += number_8(message.sequence) + number_4(message.count)
            return message.address, fields + _trailer(message.store), None
        case messages.Ack():
            fields = string(message.store) + string(message.topic) + number_8(message.sequence)
            return message.address, fields, None
        case messages.DirectHead():
            return message.requester, _place(message) + _trailer(message.store), None
        case messages.LogStart():
            return message.requester, _place(message) + string(message.sender), None
        case messages.GetHeads():
            return message.topic, string(message.requester), None
        case messages.ConsumerHello():
            topics = b"".join(longstr(topic) for topic in message.topics)
            fields = string(message.consumer) + number_4(len(message.topics)) + topics
            return message.store, fields, None
        case messages.StoreHello():
            return message.consumer, string(message.store), None
        case _:
            assert_never(message)


def _place(
    message: messages.Batch | messages.Head | messages.DirectHead | messages.LogStart,
) -> bytes:
    return string(message.address) + string(message.topic) + number_8(message.sequence)


def _trailer(store: str | None) -> bytes:
    """Behind the fields of the RFC, where peers that do not know it do not look."""
    return b"" if store is None else string(store)


def decode(frames: Sequence[bytes]) -> Message:
    """Return the message in `frames`, as received.

    Raises:
        WireError: It is not a message of this dialect; the reason is a short constant.
    """
    if not 2 <= len(frames) <= 3:
        raise WireError("frame count")
    topic_frame, header = frames[0], frames[1]
    if header[:2] != SIGNATURE:
        raise WireError("signature")
    message_id = _IDS.get(header[2:3])
    if message_id is None or topic_frame[:1] != message_id.value:
        raise WireError("message id")
    if header[3:4] != bytes((VERSION,)):
        raise WireError("version")
    if len(header) > HEADER_BYTES_MAX or len(topic_frame) > 1 + 255:
        raise WireError("header size")
    key = text(topic_frame[1:])
    reader = Reader(header, 4)
    if message_id in _WITH_CONTENT:
        if len(frames) != 3:
            raise WireError("frame count")
        return _decode_batch(message_id, key, reader, frames[2])
    if len(frames) != 2:
        raise WireError("frame count")
    return _decode_control(message_id, key, reader)


_WITH_CONTENT = frozenset(
    (
        MessageId.RECORD,
        MessageId.DIRECT_RECORD,
        MessageId.RECORDS,
        MessageId.DIRECT_RECORDS,
    )
)


def _decode_batch(message_id: MessageId, key: str, reader: Reader, content: bytes) -> Message:
    address, topic, sequence = _read_place(reader)
    if len(content) > FRAME_BYTES_MAX:
        raise WireError("content size")
    if message_id is MessageId.RECORD:
        return messages.Record(_same(topic, key), address, sequence, content)
    if message_id is MessageId.DIRECT_RECORD:
        return messages.DirectRecord(key, topic, address, sequence, content)
    count = reader.number_4()
    if not 1 <= count <= BATCH_RECORDS_MAX:
        raise WireError("count")
    if message_id is MessageId.RECORDS:
        return messages.Records(_same(topic, key), address, sequence, count, content)
    return messages.DirectRecords(key, topic, address, sequence, count, content)


def _decode_control(message_id: MessageId, key: str, reader: Reader) -> Message:
    match message_id:
        case MessageId.HEAD:
            address, topic, sequence = _read_place(reader)
            return messages.Head(_same(topic, key), address, sequence)
        case MessageId.DIRECT_HEAD:
            address, topic, sequence = _read_place(reader)
            return messages.DirectHead(key, topic, address, sequence, _read_trailer(reader))
        case MessageId.LOG_START:
            address, topic, sequence = _read_place(reader)
            return messages.LogStart(key, topic, address, sequence, _named(reader.string()))
        case MessageId.FETCH:
            requester, topic, sequence = _read_place(reader)
            count, store = reader.number_4(), _read_trailer(reader)
            return messages.Fetch(topic, _named(key), requester, sequence, count, store)
        case MessageId.ACK:
            store, topic, sequence = _read_place(reader)
            return messages.Ack(topic, _named(key), store, sequence)
        case MessageId.GET_HEADS:
            return messages.GetHeads(key, reader.string())
        case MessageId.STORE_HELLO:
            return messages.StoreHello(key, reader.string())
        case MessageId.CONSUMER_HELLO:
            return messages.ConsumerHello(key, reader.string(), _read_topics(reader))
        case _:
            raise WireError("message id")


def _read_trailer(reader: Reader) -> str | None:
    return reader.string() if reader.remaining else None


def _read_place(reader: Reader) -> tuple[str, str, int]:
    """Address, topic and sequence: the fields most messages begin with."""
    address, topic, sequence = reader.string(), reader.string(), reader.number_8()
    _named(address)
    if not topic or len(octets_of(topic)) > TOPIC_BYTES_MAX or "\0" in topic:
        raise WireError("topic")
    if sequence > SEQUENCE_MAX:
        raise WireError("sequence")
    return address, topic, sequence


def _read_topics(reader: Reader) -> tuple[str, ...]:
    count = reader.number_4()
    if count > HELLO_TOPICS_MAX or count * 4 > reader.remaining:
        raise WireError("topic count")
    topics = tuple(reader.longstr() for _ in range(count))
    if any(len(octets_of(topic)) > TOPIC_BYTES_MAX for topic in topics):
        raise WireError("topic")
    return topics


def _named(address: str) -> str:
    if not address:
        raise WireError("address")
    return address


def _same(topic: str, key: str) -> str:
    if topic != key:
        raise WireError("topic frame")
    return topic
