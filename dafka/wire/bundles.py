"""Extension: several messages to the same listeners in one.

A store with ten thousand partitions acknowledges and announces each by itself, and what that costs
is mostly the message around it. So what a node publishes during one turn of its loop is collected
here and leaves at the turn's end. One message by itself leaves as the RFC writes it; more look so:

| frame | bytes |
|---|---|
| 0 topic | message id, then the key they are all published under; of HEADs none |
| 1 header | `AA A5`, message id, version `01` and no field |
| 2 fields | for each a number-2, the length, and its fields in the grammar's order |

HEADs are of as many topics as there are, so their bundle reaches only those that listen for every
topic. A topic that somebody listens for by its name has its HEADs by themselves, for all.

Topics that peers listen for by their names, not with all others.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from dafka.errors import WireError
from dafka.limits import ADDRESS_BYTES_MAX, BUNDLE_MAX, PARTITIONS_MAX
from dafka.wire import fields, rfc46
from dafka.wire.messages import Ack, DirectHead, Fetch, Head, Message, MessageId
from dafka.wire.primitives import Reader, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dafka.wire.dialect import Dialect


BUNDLED = (Head, Ack, DirectHead, Fetch)
"""Those of which there are many at once."""

_HEADERS = {kind.id: rfc46.SIGNATURE + kind.id.value + bytes((rfc46.VERSION,)) for kind in BUNDLED}
_IDS = {header: message_id for message_id, header in _HEADERS.items()}

_SIZE = struct.Struct(">H")

_Bundled = Head | Ack | DirectHead | Fetch


class Bundles:
    """What one node has published in this turn and not sent yet.

    Args:
        dialect: How messages are written. Only ours has bundles.
        written: Whether to write any: not where nodes may be that cannot read them.
    """

    def __init__(self, dialect: Dialect, *, written: bool) -> None:
        self._dialect = dialect
        self._read = dialect is rfc46
        self._written = written and self._read
        self._waiting: dict[tuple[MessageId, str], list[_Bundled]] = {}
        self._named = NamedTopics()
        """Those of which somebody would not get a bundle of HEADs."""

    def listened(self, message_id: MessageId, key: str) -> None:
        """A peer subscribed."""
        if message_id is MessageId.HEAD:
            self._named.listened(key)

    def add(self, message: Message) -> list[bytes] | None:
        """Return the frames to send now, if any; a message that is not among them waits."""
        if not self._written or not isinstance(message, BUNDLED) or self._is_named(message):
            return self._dialect.encode(message)
        place = message.id, _key(message)
        together = self._waiting.setdefault(place, [])
        together.append(message)
        return self._sealed(self._waiting.pop(place)) if len(together) == BUNDLE_MAX else None

    def flush(self) -> Iterator[list[bytes]]:
        """Yield the frames of all that waits."""
        waiting, self._waiting = self._waiting, {}
        for together in waiting.values():
            yield self._sealed(together)

    def opened(self, frames: Sequence[bytes]) -> list[Message]:
        """Read the messages in `frames`, as received.

        Raises:
            WireError: They are none; the reason is a short constant.
        """
        message_id = _IDS.get(frames[1]) if self._read and len(frames) == 3 else None
        if message_id is None:
            return [self._dialect.decode(frames)]
        key = text(frames[0][1:])
        if frames[0][:1] != message_id.value or len(frames[0]) > 1 + ADDRESS_BYTES_MAX:
            raise WireError("topic frame")
        if message_id is MessageId.HEAD and key:
            raise WireError("topic frame")
        read = fields.bundled(message_id, key)
        found = [read(reader) for reader in _readers(frames[2])]
        if len(found) < 2:
            raise WireError("count")
        return found

    def _is_named(self, message: _Bundled) -> bool:
        """Whether somebody would not get it in a bundle."""
        return isinstance(message, Head) and message.topic in self._named

    def _sealed(self, together: Sequence[_Bundled]) -> list[bytes]:
        first, *others = together
        if not others:
            return self._dialect.encode(first)
        octets = map(fields.WRITERS[first.id], together)
        body = b"".join([_SIZE.pack(len(each)) + each for each in octets])
        return [rfc46.prefix(first.id, _key(first)), _HEADERS[first.id], body]


def _key(message: _Bundled) -> str:
    """What a bundle with this message is published under."""
    match message:
        case Head():
            return ""
        case DirectHead():
            return message.requester
        case Ack() | Fetch():
            return message.address


def _readers(body: bytes) -> Iterator[Reader]:
    """The fields of each message."""
    position, count = 0, 0
    while position < len(body):
        count += 1
        start = position + _SIZE.size
        position = start + int.from_bytes(body[position:start], "big")
        if position > len(body):
            raise WireError("truncated")
        if count > BUNDLE_MAX:
            raise WireError("count")
        yield Reader(body[start:position])


class NamedTopics:
    """As far as a publisher has seen subscriptions.

    None is forgotten: ZeroMQ does not say whether another peer is still listening when one leaves.
    Of more than can be remembered, all are thought to be listened for.
    """

    def __init__(self) -> None:
        self._topics: set[str] = set()

    def listened(self, topic: str) -> None:
        """A peer has subscribed to a topic, or to all with the empty one."""
        if topic and len(self._topics) < PARTITIONS_MAX:
            self._topics.add(topic)

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics or len(self._topics) == PARTITIONS_MAX
