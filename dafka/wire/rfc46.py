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
from dafka.limits import HEADER_BYTES_MAX, TOPIC_BYTES_MAX
from dafka.wire import fields
from dafka.wire.messages import Message, MessageId
from dafka.wire.octets import Reader, octets_of, text

if TYPE_CHECKING:
    from collections.abc import Sequence

SIGNATURE = b"\xaa\xa5"
VERSION = 1

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
    if message_id is None or len(prefix_octets) > 1 + TOPIC_BYTES_MAX or b"\0" in prefix_octets:
        return None
    return message_id, text(prefix_octets[1:])


def encode(message: Message) -> list[bytes]:
    """Return the frames of `message`: topic, header and, for records, content."""
    key, octets, content = fields.parts(message)
    frames = [prefix(message.id, key), _PREAMBLES[message.id] + octets]
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
    if message_id in fields.WITH_CONTENT:
        if len(frames) != 3:
            raise WireError("frame count")
        return fields.read_batch(message_id, key, reader, frames[2])
    if len(frames) != 2:
        raise WireError("frame count")
    return fields.read_control(message_id, key, reader)
