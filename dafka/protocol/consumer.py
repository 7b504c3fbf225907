"""The consumer: every partition of its topics, in order, each record once.

Heads come with HEAD, DIRECT-HEAD and the records themselves; `Inflow` fetches what is missing.
A consumer may be told to hand out only what a store has acknowledged (`committed`): a distributor
must not carry to another cluster what its own could still lose.

Source: 46/DAFKA, Consumer Subscriptions, The GET-HEADS and STORE-HELLO Commands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import starmap, takewhile
from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.limits import PEER_BOUNDS, PeerBounds
from dafka.model import WHOLE, Partition, PartitionShare
from dafka.protocol.chosen_stores import ChosenStores
from dafka.protocol.effects import (
    Deliver,
    Dropped,
    Effect,
    Listen,
    Lost,
    PartitionFound,
    Publish,
    Unlisten,
)
from dafka.protocol.events import (
    Consumed,
    Event,
    PeerLeft,
    PeerListened,
    Received,
    ReceivedTogether,
    Seek,
    Unassigned,
    Woke,
)
from dafka.protocol.idle import IDLE_AFTER_MS, IdlePartitions
from dafka.protocol.live_edge import LiveEdge
from dafka.protocol.machine import Lifecycle, earliest
from dafka.protocol.receiver import Inflow, arrived
from dafka.protocol.stores import Baseline, Inquiry
from dafka.protocol.watermarks import HighWatermarks
from dafka.records.batch import run_of
from dafka.wire import messages
from dafka.wire.fields import SEQUENCE_MAX
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.model import Batch
    from dafka.wire.messages import Message


class Start(Enum):
    """Where to begin a partition that has no explicit position."""

    EARLIEST = "earliest"
    """At its first record."""
    LATEST = "latest"
    """Behind the first head that is heard of it, or at the first record that arrives live; but at
    its first record, if it has begun since the consumer has (`Baseline`)."""
    ASSIGNED = "assigned"
    """Nowhere, until `Seek` says so; `PartitionFound` asks for it."""


class ConsumerState(Enum):
    """What a consumer listens to."""

    NEW = "new"
    """To nothing yet."""
    LIVE = "live"
    """To what is published."""
    CATCHING_UP = "catching up"
    """Only to what it asks for: it is too far behind to use what is published (`LiveEdge`)."""


CONSUMER_STATES = {
    ConsumerState.NEW: {ConsumerState.LIVE},
    ConsumerState.LIVE: {ConsumerState.CATCHING_UP},
    ConsumerState.CATCHING_UP: {ConsumerState.LIVE},
}


def _every_topic(_topic: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """What a consumer can be told.

    Attributes:
        topics: Topics to subscribe to; none means all, as far as `wants` agrees.
        wants: With all topics: which of them to take.
        share: Which partitions of them.
        start: Where partitions without a position begin.
        positions: Sequence to begin each partition at.
        committed: Deliver only what a store has on disk.
        guest: Nobody but stores is heard: what is live comes from some of them.
        buffer_bytes_max: Delivered and not drained; beyond it nothing more is taken in.
        heads_interval_ms_max: GET-HEADS is repeated, ever more rarely, up to this interval: the
            partition of a dead producer is announced by nobody else, and the answer may be lost.
        idle_after_ms: Of what stands still for so long only the position is kept; not of what is
            `ASSIGNED`: whoever assigns it also has it forgotten.
        bounds: Of what peers name.
    """

    topics: tuple[str, ...] = ()
    wants: Callable[[str], bool] = _every_topic
    share: PartitionShare = WHOLE
    start: Start = Start.EARLIEST
    positions: Mapping[Partition, int] = field(default_factory=dict)
    committed: bool = False
    guest: bool = False
    buffer_bytes_max: int = 32 * 1024 * 1024
    heads_interval_ms_max: int = 10_000
    idle_after_ms: int = IDLE_AFTER_MS
    bounds: PeerBounds = PEER_BOUNDS


_FROM_STORES = messages.Ack, messages.DirectHead, messages.StoreHello, messages.StoredRecords
_LIVE = messages.Records, messages.RecordMessage, messages.StoredRecords


class ConsumerMachine:
    """One consumer.

    Args:
        address: Its identity; answers are sent to it.
        settings: See there.
    """

    def __init__(self, address: str, settings: ConsumerSettings) -> None:
        self.address = address
        """Its identity."""
        self.topics = settings.topics
        """Those it subscribes to; none means all."""
        self._wants = frozenset(settings.topics).__contains__ if settings.topics else settings.wants
        self._settings = settings
        only_stored = settings.committed or settings.guest
        self._inflow = Inflow(address, settings.bounds, stored=only_stored)
        self._chosen = ChosenStores(address, settings.topics) if settings.guest else None
        self._next: dict[Partition, int] = {}
        """Next sequence to deliver."""
        self._durable = HighWatermarks(settings.bounds.partitions)
        """How far stores have what (`committed` only)."""
        self._unpositioned: dict[Partition, int] = {}
        """Partitions found and not positioned yet, with the head heard of."""
        self._idle: IdlePartitions | None = None
        if settings.start is not Start.ASSIGNED:
            self._idle = IdlePartitions(settings.idle_after_ms)
        self._buffered = 0
        self._lifecycle = Lifecycle(CONSUMER_STATES)
        self._live = LiveEdge(settings.buffer_bytes_max)
        self._inquiry = Inquiry(settings.heads_interval_ms_max)
        self._baseline = Baseline()
        self._surveyed_ms = -1
        """When its owner last learned from a store what it holds, and told it."""

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event in; see `Machine`."""
        effects = self._happened(event, now_ms)
        for partition, end in self._durable.overdue(now_ms):
            if partition in self._next:
                self._learn(partition, end - 1)
                self._await(partition, now_ms)
        if self._live.is_due(now_ms):
            effects += self._return(now_ms)
        if self._idle is not None:
            self._rest(self._idle, now_ms)
        return effects + self._fetches(now_ms)

    def _happened(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case Received():
                return self._receive(event.message, now_ms)
            case ReceivedTogether():
                return [one for each in event.messages for one in self._receive(each, now_ms)]
            case Consumed():
                self._buffered -= event.size
                return []
            case Seek():
                return self._position(event.partition, event.sequence)
            case Unassigned():
                return self._unassign(event.partition)
            case Woke():
                return self._wake(now_ms)
            case PeerLeft() if self._chosen is not None:
                return self._moved(self._chosen.gone(event.address, now_ms), now_ms)
            case PeerListened() | PeerLeft():
                return []
            case _:
                raise AssertionError(event)

    def wakeup_ms(self) -> int | None:
        """When a FETCH or GET-HEADS is to be repeated, or the live edge may be reached."""
        fetch_due_ms = None if self._full else self._inflow.wakeup_ms()
        others = [self._durable.wakeup_ms(), self._idle.wakeup_ms() if self._idle else None]
        asked_ms = earliest(self._inquiry.due_ms, self._chosen.due_ms if self._chosen else None)
        return earliest(asked_ms, self._live.due_ms, fetch_due_ms, *others)

    def check(self) -> None:
        """Assert order and bounds, and that it looks for the live edge while it is not there."""
        self._inflow.check()
        assert self._live.away == (self.state is ConsumerState.CATCHING_UP)
        assert self._buffered >= 0
        if self._chosen is not None:
            self._chosen.check()
        for partition, sequence in self._next.items():
            assert sequence <= self._inflow.expected(partition)
            assert self._idle is None or partition not in self._idle
        assert not self._next.keys() & self._unpositioned.keys()

    @property
    def buffer_bytes_max(self) -> int:
        """What it takes in at most that its owner has not finished with."""
        return self._settings.buffer_bytes_max

    @property
    def state(self) -> ConsumerState:
        """What it listens to."""
        return self._lifecycle.state

    @property
    def heads(self) -> dict[Partition, int]:
        """Highest sequence heard of, of every partition being received."""
        return {partition: self._inflow.head(partition) for partition in self._next}

    def receives(self, partition: Partition) -> bool:
        """Whether it has a position: where there is no room it gets none."""
        return partition in self._next

    def next(self, partition: Partition) -> int:
        """Next sequence to deliver."""
        return self._next[partition]

    def acknowledged(self, partition: Partition) -> int:
        """Sequence below which a store is known to have everything."""
        return self._durable.end(partition)

    def forget(self, partition: Partition) -> bool:
        """Know nothing more of a partition, until it is heard of again; False if it lacks some."""
        if partition in self._inflow:
            awaited = self._durable.end(partition) > self._inflow.expected(partition)
            if awaited or not self._inflow.rests(partition):
                return False
            self._inflow.forget(partition)
        self._next.pop(partition, None)
        self._unpositioned.pop(partition, None)
        self._durable.forget(partition)
        return True

    def surveyed(self, now_ms: int) -> None:
        """What one of the stores holds was asked of it by other ways, and was told."""
        self._surveyed_ms = now_ms

    @property
    def _full(self) -> bool:
        """Whether to ask for nothing: what does not fit when it comes has been sent in vain."""
        return self._buffered * 2 > self._settings.buffer_bytes_max

    def _fetches(self, now_ms: int) -> list[Effect]:
        if not self._inflow.lacking or self._full:
            return []
        room = self._settings.buffer_bytes_max - self._buffered
        return [Publish(fetch) for fetch in self._inflow.fetches(now_ms, room)]

    def _rest(self, idle: IdlePartitions, now_ms: int) -> None:
        """Keep only the positions of what stands still."""
        for partition in idle.due(self._next, now_ms):
            position = self._next.get(partition)
            if position is not None and self.forget(partition):
                idle.rest(partition, position)

    def _concerns(self, partition: Partition, end: int) -> bool:
        """Whether a partition of such an end is of use, or may be.

        ZeroMQ matches prefixes, so messages of other topics arrive too; and most of what stores
        list stands still.
        """
        if partition in self._next:
            return True  # patterns cost as much as all the rest
        if self._idle is not None and self._idle.stays(partition, end):
            return False
        topic, address = partition
        return self._wants(topic) and self._settings.share.has(address)

    def _receive(self, message: Message, now_ms: int) -> list[Effect]:
        self._baseline.heard(now_ms)
        if isinstance(message, _FROM_STORES) and message.store is not None:
            if not self._inflow.knows(message.store):
                self._baseline.begin(now_ms)
            if not self._inflow.heard_from(message.store, now_ms):
                return [Dropped("too many stores")]
            if self._chosen is not None:
                before = self._moved(self._chosen.heard(message, self._is_news, now_ms), now_ms)
                return before + self._understand(message, now_ms)
        return self._understand(message, now_ms)

    def _moved(self, moved: list[Effect], now_ms: int) -> list[Effect]:
        """Listen at other stores; what was stored in between is a gap, which its heads show."""
        if moved:
            self._inquiry.renew(now_ms)
        return moved if self.state is ConsumerState.LIVE else []

    def _is_news(self, partition: Partition, head: int) -> bool:
        """Whether it is of use that somebody has that much, and was not known."""
        known = max(self._inflow.reached(partition), self._unpositioned.get(partition, -1))
        return head > known and self._concerns(partition, head + 1)

    def _understand(self, message: Message, now_ms: int) -> list[Effect]:
        if isinstance(message, messages.Batch):
            return self._take(message, now_ms)
        match message:
            case messages.Head() | messages.DirectHead():
                return self._heard(message, now_ms)
            case messages.LogStart():
                return self._log_start(message, now_ms)
            case messages.Ack():
                return self._acknowledged(message, now_ms)
            case messages.StoreHello():
                self._inflow.keeps(message.store, message.slots)
                # Some store has just seen us; what it holds may be new.
                self._inquiry.renew(now_ms)
                topics = self.topics
                if not topics:
                    return []
                return [Publish(messages.ConsumerHello(message.store, self.address, topics))]
            case _:
                return [Dropped("not for a consumer")]

    def _take(self, message: messages.Batch, now_ms: int) -> list[Effect]:
        partition = Partition(message.topic, message.address)
        last = message.sequence + message.count - 1
        if not self._concerns(partition, last + 1):
            return []
        if self._settings.committed and isinstance(message, messages.Records) and message.bare:
            # The store has given it another time, which is the one to go by.
            return self._heard(messages.Head(*partition, last), now_ms)
        try:
            batch = arrived(message)
        except RecordError as error:
            return [Dropped(error.reason)]
        effects = self._placed(message, batch, now_ms)
        if partition not in self._next:
            return effects
        if not self._has_room_for(batch):
            self._learn(partition, last)
            return [*effects, Dropped("consumer full"), *self._overrun(message, now_ms)]
        if (reason := self._inflow.offer(batch)) is not None:
            full = reason == "reorder buffer full"
            return [*effects, Dropped(reason), *(self._overrun(message, now_ms) if full else ())]
        stored = not isinstance(message, messages.Records | messages.RecordMessage)
        return effects + self._deliver(partition, batch if stored else None)

    def _placed(self, message: messages.Batch, batch: Batch, now_ms: int) -> list[Effect]:
        """Begin the batch's partition, if that is new; learn that it is stored, if a store says."""
        partition, last = batch.partition, batch.end - 1
        if isinstance(message, messages.StoredRecords):
            run = run_of(batch.content)
            said = messages.Ack(*partition, message.store, last, run and run.number)
            effects = self._committed(partition, said, now_ms)
        else:
            effects = []
        if partition in self._next:
            return effects
        if batch.sequence and not self._inflow.named(partition):
            return [*effects, Dropped("too many partitions")]
        return effects + self._begin(partition, batch.sequence, last, now_ms)

    def _overrun(self, dropped: messages.Batch, now_ms: int) -> list[Effect]:
        """There was no room for a batch: if too many such come live, no more for a while."""
        live = isinstance(dropped, _LIVE)
        asked = 0 if self._settings.committed else len(self._next)
        if not live or self.state is not ConsumerState.LIVE:
            return []
        if not self._live.overrun(len(dropped.content), asked, now_ms):
            return []
        self._lifecycle.become(ConsumerState.CATCHING_UP)
        self._ask_for_missed(now_ms)
        return [*starmap(Unlisten, self._live_topics())]

    def _return(self, now_ms: int) -> list[Effect]:
        """Listen again, if the live edge is near; what was published meanwhile is a gap."""
        if not self._live.reached(self._inflow.misses, self._buffered, now_ms):
            return []
        self._lifecycle.become(ConsumerState.LIVE)
        self._ask_for_missed(now_ms)
        return [*starmap(Listen, self._live_topics())]

    def _ask_for_missed(self, now_ms: int) -> None:
        """Ask what is published while this node is not listening, unless ACKs tell that anyway."""
        if not self._settings.committed:
            self._inquiry.renew(now_ms)

    def _live_topics(self) -> list[tuple[MessageId, str]]:
        if self._chosen is not None:
            return self._chosen.channels
        ids = MessageId.RECORDS, MessageId.RECORD
        return [(one, topic) for topic in self.topics or ("",) for one in ids]

    def _has_room_for(self, batch: Batch) -> bool:
        """Whether the batch may be taken in; if not, it is fetched when there is room.

        What is not durable yet waits here for a store's ACK, and what is beyond a gap for what it
        lacks: both may never come. They must not keep out what can go on, so only there they count.
        """
        held = self._buffered
        if self._settings.committed and batch.end > self._durable.end(batch.partition):
            held += self._inflow.ready_bytes
        if batch.sequence > self._inflow.expected(batch.partition):
            held += self._inflow.ahead_bytes
        return held < self._settings.buffer_bytes_max

    def _learn(self, partition: Partition, head: int) -> None:
        """Somebody has records up to `head`. Committed, only what is durable is worth fetching."""
        if self._settings.committed:
            head = min(head, self._durable.end(partition) - 1)
        self._inflow.heard(partition, head)

    def _heard(self, message: messages.Head | messages.DirectHead, now_ms: int) -> list[Effect]:
        partition = Partition(message.topic, message.address)
        if not self._concerns(partition, message.sequence + 1):
            return []
        effects: list[Effect] = []
        if isinstance(message, messages.DirectHead) and message.store is not None:
            self._inflow.proved(partition)
        elif not self._inflow.named(partition):
            return [Dropped("too many partitions")]
        if partition not in self._next:
            effects = self._begin(partition, message.sequence + 1, message.sequence, now_ms)
        if isinstance(message, messages.DirectHead) and message.store is not None:
            effects += self._committed(partition, message, now_ms)
        if partition in self._next:
            self._learn(partition, message.sequence)
            if isinstance(message, messages.Head) and message.stored:
                effects += self._confirm(partition, message.sequence + 1)
            if isinstance(message, messages.DirectHead):
                self._inflow.answered(partition, message.store, message.sequence)
        return effects

    def _confirm(self, partition: Partition, end: int) -> list[Effect]:
        """Somebody says that stores have everything below `end`; ask them, if it is news.

        Their ACK was lost or is late. A FETCH behind any end is answered by a DIRECT-HEAD alone.
        """
        if not self._settings.committed or end <= self._durable.end(partition):
            return []
        topic, address = partition
        anybody = messages.ANY_STORE
        return [Publish(messages.Fetch(topic, address, self.address, SEQUENCE_MAX, 1, anybody))]

    def _acknowledged(self, ack: messages.Ack, now_ms: int) -> list[Effect]:
        """A store has more of a partition, which may still be on its way here."""
        partition = Partition(ack.topic, ack.address)
        effects = self._committed(partition, ack, now_ms)
        if partition in self._next:
            self._inflow.stored(partition, ack.store, ack.sequence)
            self._await(partition, now_ms)
        return effects

    def _await(self, partition: Partition, now_ms: int) -> None:
        """Ask later for what is durable and not here; at once where it will not come by itself."""
        end, expected = self._durable.end(partition), self._inflow.expected(partition)
        if self._live.away or expected <= self._inflow.head(partition):
            self._learn(partition, end - 1)
        elif expected < end:
            self._durable.wait_for(partition, now_ms)

    def _log_start(self, message: messages.LogStart, now_ms: int) -> list[Effect]:
        partition = Partition(message.topic, message.address)
        if partition not in self._next:
            return []
        end = self._inflow.log_start(partition, message.sender, message.sequence, now_ms)
        if end is None:
            return []
        lost = Lost(partition, self._next[partition], end)
        self._inflow.skip(partition, end)
        self._next[partition] = end
        return [lost, *self._deliver(partition)]

    def _begin(self, partition: Partition, latest: int, head: int, now_ms: int) -> list[Effect]:
        """Place a partition that is seen for the first time."""
        if self._live.away or not self._baseline.is_old(now_ms):
            latest = 0  # it is new, so all of it was published since this consumer began
        position = None if self._idle is None else self._idle.leave(partition)
        if position is None:
            position = self._settings.positions.get(partition)
        if position is None and self._settings.start is Start.ASSIGNED:
            known = partition in self._unpositioned
            if not known and len(self._unpositioned) >= self._settings.bounds.partitions:
                return [Dropped("too many partitions")]
            self._unpositioned[partition] = max(head, self._unpositioned.get(partition, -1))
            return [] if known else [PartitionFound(partition, latest)]
        if position is None:
            position = latest if self._settings.start is Start.LATEST else 0
        return self._position(partition, position)

    def _position(self, partition: Partition, sequence: int) -> list[Effect]:
        if not self._inflow.start(partition, sequence):
            return [Dropped("too many partitions")]
        self._next[partition] = sequence
        head = max(self._unpositioned.pop(partition, -1), self._durable.end(partition) - 1)
        self._learn(partition, max(head, self._inflow.head(partition)))
        return []

    def _unassign(self, partition: Partition) -> list[Effect]:
        if partition in self._next:
            head = self._unpositioned[partition] = self._inflow.head(partition)
            # There it wants nothing, and forgets what was received.
            self._inflow.start(partition, head + 1)
            del self._next[partition]
        return []

    def _committed(
        self, partition: Partition, said: messages.Ack | messages.DirectHead, now_ms: int
    ) -> list[Effect]:
        end = said.sequence + 1
        if not self._settings.committed or not self._concerns(partition, end):
            return []
        if end <= self._durable.end(partition):
            return []
        if not self._durable.reached(partition, said):
            return [Dropped("too many partitions")]
        self._inflow.proved(partition)
        effects = [] if partition in self._next else self._begin(partition, end, end - 1, now_ms)
        if partition in self._next:
            self._inflow.renewed(partition)
            effects += self._deliver(partition)
        return effects

    def _deliver(self, partition: Partition, stored: Batch | None = None) -> list[Effect]:
        """Hand out what may be; `stored` has just come from a store, if only those are heard."""
        if not self._settings.committed:
            return self._handed(self._inflow.take(partition))
        bound = self._durable.end(partition)
        ready = self._inflow.take(partition, bound)
        waiting = self._inflow.first(partition)
        sure = [*takewhile(lambda one: one is stored or not self._durable.doubts(one), ready)]
        effects = self._handed(sure)
        if len(sure) < len(ready) or (waiting is not None and self._durable.doubts(waiting)):
            self._inflow.start(partition, self._next[partition])
            self._learn(partition, bound - 1)
        return effects

    def _handed(self, batches: list[Batch]) -> list[Effect]:
        effects: list[Effect] = []
        for batch in batches:
            self._buffered += len(batch.content)
            effects.append(Deliver(batch, self._next[batch.partition]))
            self._next[batch.partition] = batch.end
        if batches and self._idle is not None:
            self._idle.moved(batches[0].partition)
        return effects

    def _wake(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if not self._full:
            self._inflow.wake(now_ms)
        if self.state is ConsumerState.NEW:
            self._lifecycle.become(ConsumerState.LIVE)
            effects += self._greet()
            self._inquiry.renew(now_ms)
        elif self._chosen is not None and self._chosen.is_due(now_ms):
            self._inquiry.renew(now_ms)
        if self._inquiry.asked(now_ms, told=self._told(now_ms)):
            for topic in self.topics or ("",):
                effects.append(Publish(messages.GetHeads(topic, self.address)))
        return effects

    def _told(self, now_ms: int) -> bool:
        """Whether GET-HEADS would bring nothing new: neither what stores hold nor which there are.

        Of ten thousand partitions there are as many answers, from each store.
        """
        passed_ms = self._inquiry.passed_ms
        surveyed = passed_ms is not None and self._surveyed_ms >= passed_ms
        return surveyed and self._inflow.all_fresh(now_ms)

    def _greet(self) -> list[Effect]:
        own = (
            MessageId.DIRECT_RECORDS,
            MessageId.DIRECT_RECORD,
            MessageId.DIRECT_HEAD,
            MessageId.LOG_START,
            MessageId.STORE_HELLO,
        )
        effects: list[Effect] = [Listen(message_id, self.address) for message_id in own]
        effects += starmap(Listen, self._live_topics())
        if self._chosen is None:
            effects += [Listen(MessageId.HEAD, topic) for topic in self.topics or ("",)]
        if self._settings.committed:
            effects.append(Listen(MessageId.ACK, ""))
        return effects
