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

from typing import TYPE_CHECKING

from dafka.errors import WireError
from dafka.limits import HEADER_BYTES_MAX
from dafka.wire import fields
from dafka.wire.messages import Message, MessageId
from dafka.wire.primitives import Reader, octets_of, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.reasons import Reason

SIGNATURE = b"\xaa\xa5"
VERSION = 1

_IDS = {message_id.value: message_id for message_id in MessageId}
_BEGINNINGS = {
    message_id: (message_id.value, SIGNATURE + message_id.value + bytes((VERSION,)))
    for message_id in MessageId
}
"""What the topic frame and the header of each message begin with."""

_KINDS = {
    preamble: (message_id, message_id in fields.WITH_CONTENT)
    for message_id, (_, preamble) in _BEGINNINGS.items()
}
"""By how a header begins: which message it is of, and whether a content frame belongs to it."""


def prefix(message_id: MessageId, key: str) -> bytes:
    """What a node subscribes to for messages of this id under this key (empty: every key)."""
    return message_id.value + octets_of(key)


def subscription(prefix_octets: bytes) -> tuple[MessageId, str] | None:
    """The inverse of `prefix`, for subscriptions a publisher sees; None if it is not one."""
    message_id = _IDS.get(prefix_octets[:1])
    if message_id is None or b"\0" in prefix_octets:
        return None
    if len(prefix_octets) > 1 + fields.key_bytes_max(message_id):
        return None
    return message_id, text(prefix_octets[1:])


def encode(message: Message) -> list[bytes]:
    """Return the frames of `message`: topic, header and, for records, content."""
    key, octets, content = fields.parts(message)
    octet, preamble = _BEGINNINGS[message.id]
    frames = [octet + octets_of(key), preamble + octets]
    if content is not None:
        frames.append(content)
    return frames


def decode(frames: Sequence[bytes]) -> Message:
    """Return the message in `frames`, as received.

    Raises:
        WireError: It is not a message of this dialect; the reason is a short constant.
    """
    if not 2 <= len(frames) <= 3:
        raise WireError("frame count")
    topic_frame, header = frames[0], frames[1]
    kind = _KINDS.get(header[:4])
    if kind is None or topic_frame[:1] != header[2:3]:
        raise WireError(_complaint(header))
    message_id, with_content = kind
    if len(header) > HEADER_BYTES_MAX or len(topic_frame) > 1 + fields.key_bytes_max(message_id):
        raise WireError("header size")
    if len(frames) != 2 + with_content:
        raise WireError("frame count")
    key = text(topic_frame[1:])
    reader = Reader(header, 4)
    if with_content:
        return fields.read_batch(message_id, key, reader, frames[2])
    return fields.read_control(message_id, key, reader)


def _complaint(header: bytes) -> Reason:
    """Why a header cannot begin like that."""
    if header[:2] != SIGNATURE:
        return "signature"
    if header[2:3] in _IDS and header[3:4] != bytes((VERSION,)):
        return "version"
    return "message id"
