"""Between our batches and peers that know single records only.

Our nodes send RECORDS and DIRECT-RECORDS; a node of another make does not listen for them. It gets
its records one by one: as RECORD if the cluster is `classic`, else by FETCH when it has heard HEAD.
A single record carries the bare value; key, headers and time are in the batch only. The other way
round, a bare value becomes a record without key and headers, of the time at which it arrives.

Source: 46/DAFKA, The RECORD and DIRECT-RECORD Commands.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from dafka.limits import BATCH_BYTES_MAX, RECORD_BYTES_MAX, REQUESTERS_MAX
from dafka.protocol.effects import Dropped
from dafka.protocol.events import Received, ReceivedTogether
from dafka.records.batch import BatchBuilder, checked_count, enclosed, raw_records
from dafka.records.envelope import ENVELOPE_BYTES, unpack
from dafka.values import replace
from dafka.wire import messages
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dafka.wire.messages import Message

_SINGLE = messages.Record, messages.DirectRecord
_ASKING = messages.Fetch, messages.ConsumerHello


class Shape(Enum):
    """How a node publishes its records."""

    BATCHES = "batches"
    """As RECORDS. Who does not know them fetches when there is a HEAD."""
    MARKED = "marked"
    """As RECORDS, and the last record of each as a RECORD: a sign for peers that must fetch."""
    CLASSIC = "classic"
    """As RECORDS, and each record as a RECORD too."""
    RAW = "raw"
    """Each record as a RECORD."""


class Singles:
    """One node's translation. All it knows is which requesters listen for what.

    Args:
        shape: How the node publishes.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._known: dict[str, set[MessageId]] = {}
        """Which answers a requester listens for."""

    def listened(self, message_id: MessageId, key: str) -> None:
        """A peer subscribed."""
        if key and message_id in (MessageId.DIRECT_RECORD, MessageId.DIRECT_RECORDS):
            if key not in self._known and len(self._known) >= REQUESTERS_MAX:
                return
            self._known.setdefault(key, set()).add(message_id)

    def left(self, message_id: MessageId, key: str) -> None:
        """Nobody is subscribed to this any more."""
        known = self._known.get(key)
        if known is not None:
            known.discard(message_id)
            if not known:
                del self._known[key]

    def outbound(self, message: Message) -> Iterable[Message]:
        """Return what to send instead of a message.

        Raises:
            RecordError: The records inside a batch do not parse.
        """
        if isinstance(message, messages.Records):
            return self._published(message)
        if isinstance(message, messages.DirectRecords) and self._wants_singles(message.requester):
            return [
                messages.DirectRecord(message.requester, *_place(message, sequence), value)
                for sequence, value in _values(message.content)
            ]
        return (message,)

    def inbound(
        self, arrived: Iterable[Received | ReceivedTogether | Dropped], wall_ms: int
    ) -> Iterator[Received | ReceivedTogether | Dropped]:
        """Yield what has arrived, single records of one partition gathered into batches.

        Args:
            arrived: During one turn.
            wall_ms: Time of records that do not bring their own.
        """
        run = _Run(wall_ms)
        for event in arrived:
            message = event.message if isinstance(event, Received) else None
            if isinstance(message, _SINGLE):
                if isinstance(message, messages.Record) and message.batched:
                    continue  # the batch brings it, with everything that belongs to it
                if unpack(message.content) is None:
                    if not run.extended(message):
                        yield from run.ended()
                        if not run.begun(message):
                            yield Dropped("content size")
                    continue
            elif isinstance(message, _ASKING):
                event = Received(self._marked(message))
            if run.open:
                yield from run.ended()
            yield event
        yield from run.ended()

    def _published(self, message: messages.Records) -> Iterable[Message]:
        if self._shape is Shape.BATCHES:
            return (message,)
        batched = self._shape is not Shape.RAW
        records = [
            messages.Record(*_place(message, sequence), value, batched)
            for sequence, value in _values(message.content)
        ]
        if self._shape is Shape.MARKED:
            # Not HEAD: a C consumer that has nothing yet asks at a HEAD once and never again.
            return [message, records[-1]]
        return [message, *records] if batched else records

    def _marked(self, asking: messages.Fetch | messages.ConsumerHello) -> Message:
        who = asking.requester if isinstance(asking, messages.Fetch) else asking.consumer
        return replace(asking, foreign=True) if self._wants_singles(who) else asking

    def _wants_singles(self, requester: str) -> bool:
        return self._known.get(requester) == {MessageId.DIRECT_RECORD}


def _place(
    message: messages.Records | messages.DirectRecords, sequence: int
) -> tuple[str, str, int]:
    """Where a record of a batch stands."""
    return message.topic, message.address, sequence


def _values(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Sequences and values; who knows no tombstones gets an empty value."""
    sequence = int.from_bytes(content[ENVELOPE_BYTES : ENVELOPE_BYTES + 8], "big")
    checked_count(content, sequence)
    return ((record.sequence, record.value or b"") for record in raw_records(content))


class _Run:
    """Bare values that follow each other, on their way into a batch."""

    def __init__(self, wall_ms: int) -> None:
        self._wall_ms = wall_ms
        self._first: messages.Record | messages.DirectRecord | None = None
        self._next: object = None
        """Where the record stands that would follow."""
        self._builder: BatchBuilder | None = None

    @property
    def open(self) -> bool:
        """Whether it has begun."""
        return self._first is not None

    def extended(self, message: messages.Record | messages.DirectRecord) -> bool:
        """Add a record, if it follows directly and there is room for it."""
        return self._next == _stand(message, 0) and self._added(message)

    def begun(self, message: messages.Record | messages.DirectRecord) -> bool:
        """Begin with a record; False if it is too large for any batch."""
        if len(message.content) > RECORD_BYTES_MAX:
            return False
        self._first = message
        self._builder = BatchBuilder(BATCH_BYTES_MAX - ENVELOPE_BYTES)
        return self._added(message)

    def _added(self, message: messages.Record | messages.DirectRecord) -> bool:
        assert self._builder is not None
        added = self._builder.append(self._wall_ms, None, message.content, ())
        if added:
            self._next = _stand(message, 1)
        return added

    def ended(self) -> Iterator[Received]:
        """Yield the batch, if there is one, and begin anew."""
        if self._first is not None:
            yield Received(self._gathered(self._first))
            self._first = self._next = self._builder = None

    def _gathered(self, first: messages.Record | messages.DirectRecord) -> Message:
        assert self._builder is not None
        content = enclosed(self._builder.build(), first.sequence)
        place = (first.topic, first.address, first.sequence, self._builder.count, content)
        if isinstance(first, messages.DirectRecord):
            return messages.DirectRecords(first.requester, *place)
        return messages.Records(*place)


def _stand(message: messages.Record | messages.DirectRecord, offset: int) -> object:
    requester = message.requester if isinstance(message, messages.DirectRecord) else None
    return requester, message.topic, message.address, message.sequence + offset
