"""The `libdafka` dialect: the messages byte for byte as the C implementation writes and reads them.

| frame | bytes |
|---|---|
| 0 | message id, key, `00`, version `01`, the fields of the message in the grammar's order |
| 1 content | RECORD, DIRECT-RECORD, RECORDS and DIRECT-RECORDS only |

There is no signature, and an ACK has no address field: ours stands behind its fields. C peers
ignore bytes behind the last field and ids that they do not subscribe to, but take a surplus frame
for the next message. ZeroMQ matches prefixes and the key is followed by a NUL, so subscribing to
the key with its NUL brings that key alone.

Source: zeromq/dafka at c2dc88d, captured bytes in tests/dafka/wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import WireError
from dafka.limits import HEADER_BYTES_MAX
from dafka.wire import fields, messages
from dafka.wire.messages import Message, MessageId
from dafka.wire.primitives import Reader, number_8, octets_of, string, text

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = 1

_IDS = {message_id.value: message_id for message_id in MessageId}
_KEY_ENDS = bytes((0, VERSION))


def prefix(message_id: MessageId, key: str) -> bytes:
    """What a node subscribes to for messages of this id under this key (empty: every key)."""
    return message_id.value + (octets_of(key) + b"\0" if key else b"")


def subscription(prefix_octets: bytes) -> tuple[MessageId, str] | None:
    """The inverse of `prefix`, for subscriptions a publisher sees; None if it is not one.

    C nodes subscribe without the NUL.
    """
    message_id = _IDS.get(prefix_octets[:1])
    key = prefix_octets[1:].removesuffix(b"\0")
    if message_id is None or len(key) > fields.key_bytes_max(message_id) or b"\0" in key:
        return None
    return message_id, text(key)


def encode(message: Message) -> list[bytes]:
    """Return the frames of `message`: header and, for records, content."""
    if isinstance(message, messages.Ack):
        key, content = message.address, None
        octets = string(message.topic) + number_8(message.sequence) + fields.trailer(message.store)
        octets += fields.run_trailer(message.run)
    else:
        key, octets, content = fields.parts(message)
    header = b"".join((message.id.value, octets_of(key), _KEY_ENDS, octets))
    return [header] if content is None else [header, content]


def decode(frames: Sequence[bytes]) -> Message:
    """Return the message in `frames`, as received.

    Raises:
        WireError: It is not a message of this dialect; the reason is a short constant.
    """
    if not 1 <= len(frames) <= 2:
        raise WireError("frame count")
    header = frames[0]
    message_id = _IDS.get(header[:1])
    if message_id is None:
        raise WireError("message id")
    if len(header) > HEADER_BYTES_MAX:
        raise WireError("header size")
    key_end = header.find(b"\0", 1, 1 + fields.key_bytes_max(message_id) + 1)
    if key_end < 0:
        raise WireError("topic frame")
    if header[key_end + 1 : key_end + 2] != _KEY_ENDS[1:]:
        raise WireError("version")
    if len(frames) != (2 if message_id in fields.WITH_CONTENT else 1):
        raise WireError("frame count")
    key = text(header[1:key_end])
    reader = Reader(header, key_end + 2)
    if message_id is MessageId.ACK:
        topic, sequence = fields.read_position(reader)
        store, run = fields.read_trailer(reader), fields.read_run_trailer(reader)
        return messages.Ack(topic, fields.named(key), store, sequence, run)
    if message_id in fields.WITH_CONTENT:
        return fields.read_batch(message_id, key, reader, frames[1])
    return fields.read_control(message_id, key, reader)
