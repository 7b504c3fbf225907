"""The mirror: republishes partitions of another cluster under their own names.

To its mesh it looks like the producers of all those partitions: it publishes RECORDS and HEAD for
each, counts the stores' ACKs and answers FETCH from what is not stored yet. It never assigns a
sequence. What it does not hold any more is `Wanted`: its owner can bring it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.limits import STORES_MAX
from dafka.model import Partition
from dafka.protocol.effects import Dropped, Effect, Listen, Publish, Stored, Wanted
from dafka.protocol.events import (
    Event,
    Mirrored,
    PeerLeft,
    PeerListened,
    Received,
    ReceivedTogether,
    Woke,
)
from dafka.protocol.heads import HeadSchedule
from dafka.protocol.unacked import Unacked, records
from dafka.wire import messages
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from dafka.model import Batch
    from dafka.wire.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """What a mirror can be told.

    Attributes:
        head_interval_ms: From a partition's last record to the first HEAD; it doubles. Where all
            is stored there is none, unless somebody has listened for the topic by its name.
        head_interval_ms_max: The longest. A partition that has come to it, everything stored, gets
            no more: whoever still misses something asks the stores.
        foreign: Whether nodes of another make may be there, which need HEADs of what is stored too.
        min_acks: How many distinct stores must have a record before it counts as stored.
        stores_max: Of how many stores ACKs are counted.
    """

    head_interval_ms: int = 1_000
    head_interval_ms_max: int = 8_000
    foreign: bool = False
    min_acks: int = 1
    stores_max: int = STORES_MAX


class MirrorMachine:
    """One mirror.

    Args:
        settings: See there.
    """

    def __init__(self, settings: MirrorSettings) -> None:
        self._foreign = settings.foreign
        self._unacked = Unacked(settings.min_acks, settings.stores_max)
        self._heads = HeadSchedule(settings.head_interval_ms, settings.head_interval_ms_max)
        self._starts: dict[Partition, int] = {}
        """Where partitions begin at the source, if not at 0."""
        self._greeted = False

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event in; see `Machine`."""
        match event:
            case Mirrored():
                return self._publish(event.batch, now_ms)
            case Received():
                return self._receive(event.message)
            case ReceivedTogether():
                return [effect for one in event.messages for effect in self._receive(one)]
            case PeerListened():
                return self._welcome(event)
            case PeerLeft():
                for partition in self._unacked.left(event.address):
                    self._heads.moved(partition, now_ms)
                return []
            case Woke():
                return self._wake(now_ms)
            case _:
                raise AssertionError(event)

    def wakeup_ms(self) -> int | None:
        """When the next HEADs are due."""
        return self._heads.wakeup_ms()

    def check(self) -> None:
        """Assert that every partition with something unstored still gets HEADs."""
        assert all(partition in self._heads for partition in self._unacked.pending())

    def low(self, partition: Partition) -> int | None:
        """Sequence of the first record that is not stored yet; None if all is stored."""
        return self._unacked.low(partition)

    def begins(self, partition: Partition, sequence: int) -> None:
        """The source has the partition only from `sequence` on; whoever asks for more is told."""
        self._starts[partition] = sequence

    def forget(self, partition: Partition) -> int:
        """Give up what is unstored of a partition, to begin it elsewhere; returns its bytes."""
        self._heads.forget(partition)
        return self._unacked.drop(partition)

    def leave(self, partition: Partition) -> None:
        """Know nothing more of a partition, until something of it is mirrored again."""
        self.forget(partition)
        self._starts.pop(partition, None)

    def _publish(self, batch: Batch, now_ms: int) -> list[Effect]:
        self._unacked.add(batch)
        self._heads.moved(batch.partition, now_ms)
        return [Publish(records(batch))]

    def _receive(self, message: Message) -> list[Effect]:
        match message:
            case messages.Ack():
                return self._acknowledged(message)
            case messages.Fetch():
                return self._answer(message)
            case _:
                return [Dropped("not for a mirror")]

    def _acknowledged(self, ack: messages.Ack) -> list[Effect]:
        partition = Partition(ack.topic, ack.address)
        if not self._unacked.knows(partition, ack.store):
            return [Dropped("too many stores")]
        progress = self._unacked.acked(partition, ack.store, ack.sequence + 1)
        if progress is None:
            return []
        if self._unacked.low(partition) is None:
            self._say_no_more(partition)
        end, size = progress
        return [Stored(partition, end, size)]

    def _answer(self, fetch: messages.Fetch) -> list[Effect]:
        partition = Partition(fetch.topic, fetch.address)
        if partition not in self._unacked:
            return []
        start = self._starts.get(partition, 0)
        effects: list[Effect] = []
        if fetch.sequence < start and fetch.store is None:
            topic, address = partition
            told = messages.LogStart(fetch.requester, topic, address, start, address)
            effects.append(Publish(told))
            # The first record there shows that it is so: a log start alone is not believed.
            fetch = messages.Fetch(topic, address, fetch.requester, start, 1, foreign=fetch.foreign)
        answers = self._unacked.answer(fetch)
        if answers is None:
            return [*effects, Wanted(partition, fetch.sequence)]
        return [*effects, *map(Publish, answers)]

    def _welcome(self, event: PeerListened) -> list[Effect]:
        """A peer that has just begun to listen for HEAD learns at once what there is to fetch."""
        if event.id is not MessageId.HEAD:
            return []
        self._heads.listened(event.key)
        return [
            self._head(partition) for partition in self._heads if event.key in ("", partition.topic)
        ]

    def _wake(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if not self._greeted:
            self._greeted = True
            # Bare: one subscription instead of two for each of thousands of partitions.
            effects += [Listen(MessageId.ACK, ""), Listen(MessageId.FETCH, "")]
        for partition in self._heads.due(now_ms):
            effects.append(self._head(partition))
            if self._unacked.low(partition) is None:
                self._say_no_more(partition)
        return effects

    def _say_no_more(self, partition: Partition) -> None:
        """All of it is stored, so few need its HEADs, and nobody for long."""
        needed = self._foreign or self._heads.needed(partition)
        if not needed or self._heads.rests(partition):
            self._heads.forget(partition)

    def _head(self, partition: Partition) -> Publish:
        topic, address = partition
        stored = self._unacked.low(partition) is None
        return Publish(messages.Head(topic, address, self._unacked.end(partition) - 1, stored))
