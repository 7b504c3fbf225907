"""The producer: one partition per topic, records published at once, kept until stored.

Source: 46/DAFKA, The RECORD, HEAD, FETCH, GET-HEADS and ACK Commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.model import Batch, Partition
from dafka.protocol.effects import Dropped, Effect, Listen, Publish, Stored
from dafka.protocol.events import Event, PeerListened, Received, Submitted, Woke
from dafka.protocol.heads import HeadSchedule
from dafka.protocol.unacked import Unacked, records
from dafka.records.batch import enclosed
from dafka.wire import messages
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from dafka.wire.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """What a producer can be told.

    Attributes:
        head_interval_ms: From a partition's last record to the first HEAD; it doubles, up to
        head_interval_ms_max: for as long as the producer lives.
        min_acks: How many distinct stores must have a record before it counts as stored.
    """

    head_interval_ms: int = 1_000
    head_interval_ms_max: int = 32_000
    min_acks: int = 1


class ProducerMachine:
    """One producer.

    Args:
        address: Its identity, and the name of its partitions.
        settings: See there.
    """

    def __init__(self, address: str, settings: ProducerSettings) -> None:
        self._address = address
        self._unacked = Unacked(settings.min_acks)
        self._heads: dict[str, int] = {}
        self._due = HeadSchedule(settings.head_interval_ms, settings.head_interval_ms_max)
        self._greeted = False

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event in; see `dafka.protocol`."""
        match event:
            case Submitted():
                return self._publish(event, now_ms)
            case Received():
                return self._receive(event.message)
            case PeerListened():
                return self._welcome(event)
            case Woke():
                return self._wake(now_ms)
            case _:
                raise AssertionError(event)

    def wakeup_ms(self) -> int | None:
        """When the next HEAD is due."""
        return self._due.wakeup_ms()

    def check(self) -> None:
        """Assert that nothing unstored was forgotten."""
        for topic, head in self._heads.items():
            partition = Partition(topic, self._address)
            assert self._unacked.end(partition) == head + 1
            assert self._unacked.stored(partition) <= head + 1

    def _publish(self, event: Submitted, now_ms: int) -> list[Effect]:
        sequence = self._heads.get(event.topic, -1) + 1
        partition = Partition(event.topic, self._address)
        content = enclosed(event.records, sequence)
        batch = Batch(partition, sequence, event.count, content)
        self._unacked.add(batch)
        self._heads[event.topic] = batch.end - 1
        self._due.moved(partition, now_ms)
        return [Publish(records(batch))]

    def _receive(self, message: Message) -> list[Effect]:
        match message:
            case messages.Ack():
                return self._acknowledged(message)
            case messages.Fetch():
                answers = self._unacked.answer(message)
                return [] if answers is None else [Publish(answer) for answer in answers]
            case messages.GetHeads():
                return [
                    Publish(messages.DirectHead(message.requester, topic, self._address, head))
                    for topic, head in self._heads.items()
                    if message.topic in ("", topic)
                ]
            case _:
                return [Dropped("not for a producer")]

    def _acknowledged(self, ack: messages.Ack) -> list[Effect]:
        partition = Partition(ack.topic, ack.address)
        if partition in self._unacked and ack.sequence >= self._unacked.end(partition):
            return [Dropped("ack beyond head")]
        progress = self._unacked.acked(partition, ack.store, ack.sequence + 1)
        if progress is None:
            return []
        end, size = progress
        return [Stored(partition, end, size)]

    def _welcome(self, event: PeerListened) -> list[Effect]:
        """A peer that has just begun to listen for HEAD learns at once what there is to fetch."""
        if event.id is not MessageId.HEAD:
            return []
        return [self._head(topic) for topic in self._heads if event.key in ("", topic)]

    def _wake(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if not self._greeted:
            self._greeted = True
            effects += [
                Listen(MessageId.ACK, self._address),
                Listen(MessageId.FETCH, self._address),
            ]
            # GET-HEADS is asked per topic and for all; a producer's topics are not known yet.
            effects.append(Listen(MessageId.GET_HEADS, ""))
        effects += [self._head(partition.topic) for partition in self._due.due(now_ms)]
        return effects

    def _head(self, topic: str) -> Publish:
        return Publish(messages.Head(topic, self._address, self._heads[topic]))
