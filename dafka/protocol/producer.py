"""The producer: one partition per topic, records published at once, kept until stored.

With a spool it first writes what it is given, and publishes it when that is durable: what peers
have seen under a sequence must never be another record after a restart. Writes are collected until
the end of a turn.

Source: 46/DAFKA, The RECORD, HEAD, FETCH, GET-HEADS and ACK Commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from dafka.limits import STORES_MAX
from dafka.model import Batch, Partition
from dafka.protocol.effects import (
    Append,
    Disputed,
    Dropped,
    Effect,
    HoleFound,
    Listen,
    Publish,
    Stored,
)
from dafka.protocol.events import (
    Appended,
    AppendFailed,
    Event,
    PeerLeft,
    PeerListened,
    Received,
    ReceivedTogether,
    Submitted,
    TurnEnded,
    Woke,
)
from dafka.protocol.fetches import IN_VAIN_MS
from dafka.protocol.heads import HeadSchedule
from dafka.protocol.machine import Lifecycle, earliest
from dafka.protocol.unacked import Unacked, contradicts, direct_records, records
from dafka.records.batch import enclosed
from dafka.wire import messages
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dafka.wire.messages import Message

SPOOL_RETRY_MS = 1_000
"""Time between attempts to write what the disk has refused."""


VAIN_MS = 2 * IN_VAIN_MS
"""A store that asks for one sequence for so long has asked five times, and says so itself."""

VAIN_MAX = 1_000
"""Stores whose questions in vain are remembered; of more, the oldest are forgotten."""


class ProducerState(Enum):
    """What a producer does with its spool; without one it is idle."""

    IDLE = "idle"
    WRITING = "writing"
    """One write at a time, so that no batch overtakes what it follows."""
    REFUSED = "refused"
    """The disk has not taken the last write. It is tried again after a while."""


PRODUCER_STATES = {
    # A turn has ended.
    ProducerState.IDLE: {ProducerState.WRITING},
    # `Appended`; `AppendFailed`.
    ProducerState.WRITING: {ProducerState.IDLE, ProducerState.REFUSED},
    # The while is over.
    ProducerState.REFUSED: {ProducerState.WRITING},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """What a producer can be told.

    Attributes:
        head_interval_ms: From a partition's last record to the first HEAD; it doubles.
        head_interval_ms_max: The longest, for as long as the producer lives; where all is stored
            it is that at once, unless somebody has listened for the topic by its name.
        foreign: Whether nodes of another make may be there: HEAD comes at an even interval, and no
            word is waited for that their stores do not give.
        min_acks: How many distinct stores must have a record before it counts as stored.
        spooled: Whether batches are published only after `Append` is done.
        stores_max: Of how many stores ACKs are counted.
    """

    head_interval_ms: int = 1_000
    head_interval_ms_max: int = 32_000
    foreign: bool = False
    min_acks: int = 1
    spooled: bool = False
    stores_max: int = STORES_MAX


class ProducerMachine:
    """One producer.

    Args:
        address: Its identity, and the name of its partitions.
        settings: See there.
        ends: What an earlier life has used up: sequence after the last record, by topic.
        kept: Those of its batches that were not stored, each topic in order, up to its end.
    """

    def __init__(
        self,
        address: str,
        settings: ProducerSettings,
        ends: Mapping[str, int] | None = None,
        kept: Iterable[Batch] = (),
    ) -> None:
        self._address = address
        self._spooled = settings.spooled
        self._foreign = settings.foreign
        self._stores_max = settings.stores_max
        self._unacked = Unacked(settings.min_acks, settings.stores_max)
        self._ends = dict(ends or {})
        """Sequence of the next record, by topic."""
        self._disputed: set[str] = set()
        """Topics in which another producer publishes under this one's address."""
        self._heads = {topic: end - 1 for topic, end in self._ends.items()}
        """Last sequence published; with a spool it may be behind."""
        self._waiting: dict[str, list[Batch]] = {}
        """By topic, what is not published before a store has confirmed what an earlier life left.
        An ACK says whose record the last one is, and of that only: a later life published beside it
        would speak for records that another producer's have taken the place of. Stores of another
        make say neither whose it is nor anything when it comes again: there nothing waits."""
        for batch in kept:
            self._goes_out(batch)
        self._lifecycle = Lifecycle(PRODUCER_STATES)
        self._staged: list[Batch] = []
        """What the next write is to bring."""
        self._appending: list[Batch] = []
        """What is being written."""
        self._token = 0
        self._retry_due_ms: int | None = None
        longest_ms = settings.head_interval_ms_max
        if settings.foreign:
            longest_ms = settings.head_interval_ms
        self._due = HeadSchedule(settings.head_interval_ms, longest_ms)
        self._greeted = False
        self._stores: set[str] = set()
        """Who listens as a store does: for consumers that greet it, under its address. Of another
        make it is for all of them, under none."""
        self._in_vain: dict[tuple[str, str], tuple[int, int]] = {}
        """By topic and store, what it asks for and is kept no more, and since when."""

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event in; see `Machine`."""
        match event:
            case Submitted():
                return self._submit(event, now_ms)
            case Received():
                return self._receive(event.message, now_ms)
            case ReceivedTogether():
                return [effect for one in event.messages for effect in self._receive(one, now_ms)]
            case PeerListened():
                return self._welcome(event)
            case PeerLeft():
                self._stores.discard(event.address)
                for partition in self._unacked.left(event.address):
                    self._due.moved(partition, now_ms)
                return []
            case Woke():
                return self._wake(now_ms)
            case TurnEnded():
                return self._flush()
            case Appended() | AppendFailed():
                return self._append_ended(event, now_ms)
            case _:
                raise AssertionError(event)

    def wakeup_ms(self) -> int | None:
        """When the next HEAD, or the next attempt to write, is due."""
        return earliest(self._due.wakeup_ms(), self._retry_due_ms)

    def check(self) -> None:
        """Assert that nothing unstored was forgotten, and what fits its state."""
        assert bool(self._appending) == (self.state is ProducerState.WRITING)
        assert (self._retry_due_ms is not None) == (self.state is ProducerState.REFUSED)
        assert not self._disputed & (self._heads.keys() | self._waiting.keys())
        for topic, head in self._heads.items():
            partition = Partition(topic, self._address)
            assert head < self._ends[topic]
            if partition in self._unacked:  # else all of it was stored in an earlier life
                assert self._unacked.end(partition) == head + 1
                assert self._unacked.stored(partition) <= head + 1

    @property
    def state(self) -> ProducerState:
        """What it does with its spool."""
        return self._lifecycle.state

    def _submit(self, event: Submitted, now_ms: int) -> list[Effect]:
        sequence = self._ends.get(event.topic, 0)
        partition = Partition(event.topic, self._address)
        content = enclosed(event.records, sequence)
        batch = Batch(partition, sequence, event.count, content)
        self._ends[event.topic] = batch.end
        if event.topic in self._disputed:
            return []
        if self._spooled:
            self._staged.append(batch)
            return []
        return self._publish([batch], now_ms)

    def _flush(self) -> list[Effect]:
        if not self._staged or self.state is not ProducerState.IDLE:
            return []
        return self._write()

    def _write(self) -> list[Effect]:
        self._lifecycle.become(ProducerState.WRITING)
        self._retry_due_ms = None
        self._token += 1
        self._appending, self._staged = self._staged, []
        return [Append(self._token, tuple(self._appending))]

    def _append_ended(self, event: Appended | AppendFailed, now_ms: int) -> list[Effect]:
        assert event.token == self._token
        if isinstance(event, Appended):
            self._lifecycle.become(ProducerState.IDLE)
            durable, self._appending = self._appending, []
            return self._publish(durable, now_ms)
        self._lifecycle.become(ProducerState.REFUSED)
        # Nothing of it is published, and nothing behind it may overtake it.
        self._staged, self._appending = self._appending + self._staged, []
        self._retry_due_ms = now_ms + SPOOL_RETRY_MS
        return []

    def _publish(self, batches: Iterable[Batch], now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for batch in batches:
            if batch.partition.topic in self._disputed:
                continue
            if self._goes_out(batch):
                self._due.moved(batch.partition, now_ms)
                effects.append(Publish(records(batch)))
        # What was submitted while the disk was busy; without a spool there is nothing.
        return effects + self._flush()

    def _goes_out(self, batch: Batch) -> bool:
        """Note that a batch is published; False if it has to wait."""
        topic, _ = batch.partition
        may_follow = self._foreign or self._unacked.may_follow(batch)
        if topic in self._waiting or not may_follow:
            self._waiting.setdefault(topic, []).append(batch)
            return False
        self._unacked.add(batch)
        self._heads[topic] = batch.end - 1
        return True

    def _receive(self, message: Message, now_ms: int) -> list[Effect]:
        match message:
            case messages.Ack():
                return self._acknowledged(message, now_ms)
            case messages.Fetch():
                return self._answers(message, now_ms)
            case messages.GetHeads():
                return self._direct_heads(message)
            case _:
                return [Dropped("not for a producer")]

    def _answers(self, fetch: messages.Fetch, now_ms: int) -> list[Effect]:
        """What it has of what is asked for; where it has that no more, what it has first.

        By that a store that has lost its disk sees that it lacks something, and what.
        """
        answers = self._unacked.answer(fetch)
        if answers is not None:
            return [Publish(answer) for answer in answers]
        batch = self._unacked.first(Partition(fetch.topic, fetch.address))
        if batch is None:
            return []
        first: Effect = Publish(direct_records(fetch.requester, batch))
        # What others lack is no hole: who comes late asks here, too, while no store is there.
        if self._is_of_store(fetch) and self._asks_in_vain(fetch, now_ms):
            return [first, HoleFound(batch.partition, fetch.sequence, batch.sequence)]
        return [first]

    def _is_of_store(self, fetch: messages.Fetch) -> bool:
        """Whether it comes from a store: without keys everybody has the right to be one."""
        return fetch.by_store and not self._stores.isdisjoint((fetch.requester, ""))

    def _asks_in_vain(self, fetch: messages.Fetch, now_ms: int) -> bool:
        """Whether it asks for the same for long, while nothing that waits here is stored."""
        key = fetch.topic, fetch.requester
        sequence, since_ms = self._in_vain.get(key, (-1, 0))
        if sequence == fetch.sequence:
            return now_ms >= since_ms + VAIN_MS
        if len(self._in_vain) >= VAIN_MAX:
            del self._in_vain[next(iter(self._in_vain))]
        self._in_vain[key] = fetch.sequence, now_ms
        return False

    def _acknowledged(self, ack: messages.Ack, now_ms: int) -> list[Effect]:
        partition = Partition(ack.topic, ack.address)
        if ack.topic in self._disputed:
            return [Dropped("disputed partition")]
        if ack.address != self._address or ack.topic not in self._heads:
            return []
        # A store has more than was published here, or other records: somebody else has this
        # address. What waits may have been published by an earlier life.
        waiting = self._waiting.get(ack.topic, [])
        beyond = ack.sequence > (waiting[-1].end - 1 if waiting else self._heads[ack.topic])
        if (
            beyond
            or self._unacked.contradicted(partition, ack.sequence, ack.run)
            or contradicts(waiting, ack.sequence, ack.run)
        ):
            return self._dispute(partition, ack.sequence)
        if not self._unacked.knows(partition, ack.store):
            return [Dropped("too many stores")]
        progress = self._unacked.acked(partition, ack.store, ack.sequence + 1)
        if progress is not None and self._in_vain:
            self._in_vain = {
                key: asked for key, asked in self._in_vain.items() if key[0] != ack.topic
            }
        effects: list[Effect] = [] if progress is None else [Stored(partition, *progress)]
        if self._is_stored(ack.topic):
            self._due.stored(partition, now_ms)
        return effects + self._publish(self._waiting.pop(ack.topic, ()), now_ms)

    def _direct_heads(self, asked: messages.GetHeads) -> list[Effect]:
        """Tell what no store can tell: whoever asks asks the stores too, which have the rest."""
        return [
            Publish(messages.DirectHead(asked.requester, topic, self._address, self._heads[topic]))
            for topic in self._named(asked.topic)
            if self._foreign or not self._is_stored(topic)
        ]

    def _dispute(self, partition: Partition, sequence: int) -> list[Effect]:
        """Publish nothing more there: a store has records of another producer."""
        del self._heads[partition.topic]
        self._disputed.add(partition.topic)
        self._waiting.pop(partition.topic, None)
        self._due.forget(partition)
        self._unacked.drop(partition)
        return [Dropped("disputed partition"), Disputed(partition, sequence)]

    def _welcome(self, event: PeerListened) -> list[Effect]:
        """A peer that has just begun to listen for HEAD learns at once what there is to fetch."""
        if event.id is MessageId.CONSUMER_HELLO and len(self._stores) < self._stores_max:
            self._stores.add(event.key)
        if event.id is not MessageId.HEAD:
            return []
        self._due.listened(event.key)
        return [Publish(self._head(topic)) for topic in self._named(event.key)]

    def _named(self, topic: str) -> Iterable[str]:
        """The topics that a peer names: one, if there is such a one; with the empty name all."""
        if not topic:
            return self._heads
        return (topic,) if topic in self._heads else ()

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
            # Those of an earlier life: whoever missed their records shall ask for them now.
            for topic in self._heads:
                effects.append(Publish(self._head(topic)))
                self._due.moved(Partition(topic, self._address), now_ms)
        if self._retry_due_ms is not None and self._retry_due_ms <= now_ms:
            effects += self._write()
        due = self._due.due(now_ms)
        return effects + [Publish(self._head(partition.topic)) for partition in due]

    def _head(self, topic: str) -> messages.Head:
        head = self._heads[topic]
        return messages.Head(topic, self._address, head, self._is_stored(topic))

    def _is_stored(self, topic: str) -> bool:
        """Whether enough stores are known to have all of it: of an earlier life they are not."""
        return self._unacked.stored(Partition(topic, self._address)) > self._heads[topic]
