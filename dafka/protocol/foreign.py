"""Between our batches and peers that know single records only.

Our nodes send RECORDS and DIRECT-RECORDS; a node of another make does not listen for them. It gets
its records one by one: as RECORD if the cluster is `classic`, else by FETCH when it has heard HEAD.
A single record carries the bare value; key, headers and time are in the batch only. The other way
round, a bare value becomes a record without key and headers, of the time at which it arrives. Each
receiver has another one, so it is marked as no part of the record, as Kafka's LogAppendTime is; a
link takes the store's along (`bare`).

Source: 46/DAFKA, The RECORD and DIRECT-RECORD Commands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.limits import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    PEER_BOUNDS,
    RECORD_BYTES_MAX,
    REQUESTERS_MAX,
    PeerBounds,
)
from dafka.model import Shape, replace
from dafka.protocol.effects import Dropped
from dafka.protocol.events import Received, ReceivedTogether
from dafka.protocol.heads import HeadSchedule
from dafka.records.batch import BatchBuilder, checked_count, enclosed, raw_records
from dafka.records.envelope import ENVELOPE_BYTES, unpack
from dafka.wire import messages
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dafka.model import Partition
    from dafka.wire.messages import ConsumerHello, Message


_SINGLE = messages.RecordMessage, messages.DirectRecord
_ASKING = messages.Fetch, messages.ConsumerHello


class Singles:
    """One node's translation. All it knows is which requesters listen for what, and ask for.

    Args:
        shape: How the node publishes.
        answer_max: Single records that one FETCH is answered with at most: as many as the socket
            queues, or some in the middle would be dropped. The DIRECT-HEAD behind them says that
            there is more to ask for.
        requesters_max: How many are known at most.
    """

    def __init__(
        self,
        shape: Shape,
        answer_max: int = BATCH_RECORDS_MAX,
        requesters_max: int = REQUESTERS_MAX,
    ) -> None:
        self._shape = shape
        self._answer_max = answer_max
        self._requesters_max = requesters_max
        self._asked: dict[tuple[str, str, str], range] = {}
        """What those who want single records have asked for last, by requester and partition."""
        self._known: dict[str, set[MessageId]] = {}
        """Which answers a requester listens for."""

    def listened(self, message_id: MessageId, key: str) -> None:
        """A peer subscribed."""
        if key and message_id in (MessageId.DIRECT_RECORD, MessageId.DIRECT_RECORDS):
            if key not in self._known and len(self._known) >= self._requesters_max:
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
            return self._answers(message)
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
                if isinstance(message, messages.RecordMessage) and message.batched:
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
            messages.RecordMessage(*_place(message, sequence), value, batched)
            for sequence, value in _values(message.content)
        ]
        if self._shape is Shape.MARKED:
            # Not HEAD: a C consumer that has nothing yet asks at a HEAD once and never again.
            return [message, records[-1]]
        return [message, *records] if batched else records

    def _answers(self, message: messages.DirectRecords) -> Iterable[Message]:
        """The records of a batch that were asked for, or else its last one: a sign of the gap."""
        single = [
            messages.DirectRecord(message.requester, *_place(message, sequence), value)
            for sequence, value in _values(message.content)
        ]
        asked = self._asked.get((message.requester, message.topic, message.address), range(0))
        return [one for one in single if one.sequence in asked] or single[-1:]

    def _marked(self, asking: messages.Fetch | messages.ConsumerHello) -> Message:
        who = asking.requester if isinstance(asking, messages.Fetch) else asking.consumer
        if not self._wants_singles(who):
            return asking
        if isinstance(asking, messages.Fetch):
            asking = replace(asking, count=min(asking.count, self._answer_max))
            if len(self._asked) >= self._requesters_max:
                del self._asked[next(iter(self._asked))]
            wanted = range(asking.sequence, asking.sequence + asking.count)
            self._asked[who, asking.topic, asking.address] = wanted
        return replace(asking, foreign=True)

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
        self._first: messages.RecordMessage | messages.DirectRecord | None = None
        self._next: object = None
        """Where the record stands that would follow."""
        self._builder: BatchBuilder | None = None

    @property
    def open(self) -> bool:
        """Whether it has begun."""
        return self._first is not None

    def extended(self, message: messages.RecordMessage | messages.DirectRecord) -> bool:
        """Add a record, if it follows directly and there is room for it."""
        return self._next == _stand(message, 0) and self._added(message)

    def begun(self, message: messages.RecordMessage | messages.DirectRecord) -> bool:
        """Begin with a record; False if it is too large for any batch."""
        if len(message.content) > RECORD_BYTES_MAX:
            return False
        self._first = message
        self._builder = BatchBuilder(BATCH_BYTES_MAX - ENVELOPE_BYTES, append_time=True)
        return self._added(message)

    def _added(self, message: messages.RecordMessage | messages.DirectRecord) -> bool:
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

    def _gathered(self, first: messages.RecordMessage | messages.DirectRecord) -> Message:
        assert self._builder is not None
        content = enclosed(self._builder.build(), first.sequence)
        place = (first.topic, first.address, first.sequence, self._builder.count, content)
        if isinstance(first, messages.DirectRecord):
            return messages.DirectRecords(first.requester, *place)
        return messages.Records(*place, bare=True)


def _stand(message: messages.RecordMessage | messages.DirectRecord, offset: int) -> object:
    requester = message.requester if isinstance(message, messages.DirectRecord) else None
    return requester, message.topic, message.address, message.sequence + offset


INTERVAL_MS = 1_200
"""A C consumer does not ask again for what it has asked for less than a second ago."""

INTERVAL_MS_MAX = 38_400
"""After this one a consumer that has not understood is left alone."""


class Reminders:
    """What a store does for consumers of another make, which ask too seldom.

    A C consumer asks when something tells it of a gap, and a head tells it only once. When the
    producer is gone nothing comes any more. So after a partition has moved, its last batch is sent
    to them once more, at intervals that double: a record they cannot place yet makes them fetch,
    others they ignore. What they fetch comes in parts; each FETCH begins the intervals anew, so
    that they get all however far they are behind.

    Args:
        bounds: Of who is reminded, and of what.
    """

    def __init__(self, bounds: PeerBounds = PEER_BOUNDS) -> None:
        self._bounds = bounds
        self._topics: dict[str, frozenset[str]] = {}
        """What each has said that it wants."""
        self._topics_kept = 0
        self._due = HeadSchedule(INTERVAL_MS, INTERVAL_MS_MAX)

    def greeted(self, hello: ConsumerHello, partitions: Iterable[Partition], now_ms: int) -> None:
        """A consumer has said what it wants; the oldest of too many is forgotten."""
        topics = frozenset(hello.topics)
        self._wants(hello.consumer, topics)
        for partition in partitions:
            if partition.topic in topics:
                self._due.moved(partition, now_ms)

    def asked(self, consumer: str, partition: Partition, now_ms: int) -> None:
        """A consumer fetches a partition; it may subscribe to a topic long after its hello."""
        known = self._topics.get(consumer, frozenset())
        if partition.topic not in known:
            self._wants(consumer, known | {partition.topic})
        self._due.moved(partition, now_ms)

    def _wants(self, consumer: str, topics: frozenset[str]) -> None:
        self._forget(consumer)
        if not topics:
            return
        self._topics[consumer] = topics
        self._topics_kept += len(topics)
        while (
            len(self._topics) > self._bounds.requesters
            or self._topics_kept > self._bounds.reminded_topics
        ):
            self._forget(next(iter(self._topics)))

    def _forget(self, consumer: str) -> None:
        self._topics_kept -= len(self._topics.pop(consumer, ()))

    def moved(self, partition: Partition, now_ms: int) -> None:
        """There is more of a partition."""
        if self._topics:
            self._due.moved(partition, now_ms)

    def forget(self, partition: Partition) -> None:
        """Nothing is left of a partition."""
        self._due.forget(partition)

    def due(self, now_ms: int) -> Iterator[tuple[Partition, str]]:
        """Yield whom to remind of what."""
        for partition in self._due.due(now_ms):
            if self._due.rests(partition):
                self._due.forget(partition)
            for consumer, topics in self._topics.items():
                if partition.topic in topics:
                    yield partition, consumer

    def wakeup_ms(self) -> int | None:
        """When the next is due."""
        return self._due.wakeup_ms()
