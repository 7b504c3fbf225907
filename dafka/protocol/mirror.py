"""The mirror: republishes partitions of another cluster under their own names.

To its mesh it looks like the producers of all those partitions: it publishes RECORDS and HEAD for
each, counts the stores' ACKs and answers FETCH from what is not stored yet. It never assigns a
sequence. What it does not hold any more is `Wanted`: its owner can bring it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dafka.model import Partition
from dafka.protocol.effects import Dropped, Effect, Listen, Publish, Stored, Wanted
from dafka.protocol.events import Event, Mirrored, PeerListened, Received, Woke
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
        head_interval_ms: How often HEAD is published for a partition that moves.
        quiet_after_ms: How long after its last batch, everything stored, a partition gets no more
            HEADs: with thousands of idle partitions they would be the main traffic.
    """

    head_interval_ms: int = 1_000
    quiet_after_ms: int = 10_000


class MirrorMachine:
    """One mirror.

    Args:
        settings: See there.
    """

    def __init__(self, settings: MirrorSettings) -> None:
        self._settings = settings
        self._unacked = Unacked(min_acks=1)
        self._moving: dict[Partition, int] = {}
        """Partitions that get HEADs, and when they last moved."""
        self._head_due_ms: int | None = None
        self._greeted = False

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event in; see `dafka.protocol`."""
        match event:
            case Mirrored():
                return self._publish(event.batch, now_ms)
            case Received():
                return self._receive(event.message)
            case PeerListened():
                return self._welcome(event)
            case Woke():
                return self._wake(now_ms)
            case _:
                raise AssertionError(event)

    def wakeup_ms(self) -> int | None:
        """When the next HEADs are due."""
        return self._head_due_ms

    def check(self) -> None:
        """Assert that every partition with something unstored still gets HEADs."""
        assert self._unacked.pending().keys() <= self._moving.keys()

    def low(self, partition: Partition) -> int | None:
        """Sequence of the first record that is not stored yet; None if all is stored."""
        return self._unacked.low(partition)

    def forget(self, partition: Partition) -> int:
        """Give up what is unstored of a partition, to begin it elsewhere; returns its bytes."""
        self._moving.pop(partition, None)
        return self._unacked.drop(partition)

    def _publish(self, batch: Batch, now_ms: int) -> list[Effect]:
        self._unacked.add(batch)
        self._moving[batch.partition] = now_ms
        if self._head_due_ms is None:
            self._head_due_ms = now_ms + self._settings.head_interval_ms
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
        progress = self._unacked.acked(partition, ack.store, ack.sequence + 1)
        if progress is None:
            return []
        end, size = progress
        return [Stored(partition, end, size)]

    def _answer(self, fetch: messages.Fetch) -> list[Effect]:
        partition = Partition(fetch.topic, fetch.address)
        if partition not in self._unacked:
            return []
        answers = self._unacked.answer(fetch)
        if answers is None:
            return [Wanted(partition, fetch.sequence)]
        return [Publish(answer) for answer in answers]

    def _welcome(self, event: PeerListened) -> list[Effect]:
        """A peer that has just begun to listen for HEAD learns at once what there is to fetch."""
        if event.id is not MessageId.HEAD:
            return []
        return [
            self._head(partition)
            for partition in self._moving
            if event.key in ("", partition.topic)
        ]

    def _wake(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if not self._greeted:
            self._greeted = True
            # Bare: one subscription instead of two for each of thousands of partitions.
            effects += [Listen(MessageId.ACK, ""), Listen(MessageId.FETCH, "")]
        if self._head_due_ms is not None and self._head_due_ms <= now_ms:
            self._head_due_ms = now_ms + self._settings.head_interval_ms
            self._quiet(now_ms)
            effects += [self._head(partition) for partition in self._moving]
        return effects

    def _quiet(self, now_ms: int) -> None:
        pending = self._unacked.pending()
        for partition, moved_ms in [*self._moving.items()]:
            quiet = now_ms - moved_ms >= self._settings.quiet_after_ms
            if quiet and partition not in pending:
                del self._moving[partition]

    def _head(self, partition: Partition) -> Publish:
        topic, address = partition
        return Publish(messages.Head(topic, address, self._unacked.end(partition) - 1))
