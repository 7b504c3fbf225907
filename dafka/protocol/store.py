"""The store: takes every partition of its mesh in order, and acknowledges what is durable.

Batches collected during a turn of the node's loop become one `Append`, or several where they are
many: each is one transaction, one fsync. Only its completion, the event `Appended`, leads to ACKs,
so acknowledging too early cannot be written. A duplicate, and a HEAD that does not say that all is
stored, are acknowledged again: the last ACK may have been lost, and nothing else would free the
producer.

Source: 46/DAFKA, The ACK, FETCH, GET-HEADS and STORE-HELLO Commands, Store Subscriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.limits import (
    BATCH_RECORDS_MAX,
    FETCH_ANSWER_BYTES_MAX,
    PEER_BOUNDS,
    SINGLE_ANSWER_BYTES_MAX,
    PeerBounds,
)
from dafka.model import Batch, Partition
from dafka.protocol import forgotten
from dafka.protocol.duplicate_producer import Disputes
from dafka.protocol.effects import (
    Append,
    Compare,
    Dropped,
    Effect,
    Forget,
    Lost,
    Publish,
    ReadRange,
    Recall,
    Remember,
)
from dafka.protocol.events import (
    Appended,
    AppendFailed,
    Compared,
    Emptied,
    Event,
    HoleSkipped,
    PartitionsEnded,
    PartitionsForgotten,
    PeerLeft,
    PeerListened,
    RangeRead,
    Recalled,
    Received,
    ReceivedTogether,
    SlotsMoved,
    TurnEnded,
    Woke,
)
from dafka.protocol.fetches import FETCH_REST_MS_MAX
from dafka.protocol.foreign import Reminders
from dafka.protocol.greetings import Greetings
from dafka.protocol.head_questions import HeadQuestion, HeadQuestions
from dafka.protocol.heads import TopicHeads
from dafka.protocol.keeping import KEEPS_ALL, Keeping
from dafka.protocol.machine import earliest
from dafka.protocol.receiver import Inflow, arrived
from dafka.protocol.staging import Staged, under_way
from dafka.protocol.stores import HEADS_INTERVAL_MS_MAX, Inquiry
from dafka.protocol.unacked import direct_records, stored_records
from dafka.records.batch import without_first
from dafka.wire import messages
from dafka.wire.messages import MessageId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dafka.wire.messages import Message, OfPartition

SETTLING_MS = 3_000
"""Nothing is skipped so soon after a store has begun. What it skips it will never have, and where
stores start together one may be found a while after somebody who is none."""

DISK_REST_MS = 1_000
"""What a disk has refused is not asked for again sooner."""

_LIVE = messages.Records, messages.RecordMessage


class StoreMachine:
    """One store.

    Args:
        address: Its identity, kept in its log.
        heads: What its log holds: the last sequence of every partition.
        bounds: Of what peers name.
        remembers: Whether the log has forgotten others, and knows where they ended.
        keeping: What it does with which slots of the ring.
        listens: Whether a requester does: else it is told nothing.
    """

    def __init__(
        self,
        address: str,
        heads: Mapping[Partition, int],
        bounds: PeerBounds = PEER_BOUNDS,
        *,
        remembers: bool = False,
        keeping: Keeping = KEEPS_ALL,
        listens: Callable[[str], bool] = lambda _requester: True,
    ) -> None:
        self._address = address
        self._keeping = keeping
        self._remembers = remembers
        self._inflow = Inflow(address, bounds, SETTLING_MS)
        held = {one: head for one, head in heads.items() if keeping.holds(one)}
        self._durable = TopicHeads(held)
        self._questions = HeadQuestions(self._durable, listens)
        self._staged = Staged()
        """Taken in order during this turn, to be appended at its end, or once it is full."""
        self._skipped: dict[Partition, int] = {}
        """Where partitions go on of which nobody has the next records; done with that append."""
        self._appending: dict[int, Append] = {}
        self._token = 0
        self._disputes = Disputes()
        self._greeted = False
        self._greetings = Greetings(address)
        self._reminders = Reminders(bounds)
        self._inquiry = Inquiry(HEADS_INTERVAL_MS_MAX)
        self._listened = False
        """Whether guests have ever listened here: ZeroMQ does not say whether any are left."""
        self._fetched: dict[Partition, int] = {}
        """Where what was asked for ends, of partitions that more is lacking of."""
        for partition, head in held.items():
            self._inflow.start(partition, head + 1)

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event in; see `Machine`."""
        effects = self._happened(event, now_ms)
        return effects + [Publish(fetch) for fetch in self._inflow.fetches(now_ms)]

    def _happened(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case Received() | ReceivedTogether():
                together = (event.message,) if isinstance(event, Received) else event.messages
                return self._receive(together, now_ms)
            case Recalled() | Emptied() | PartitionsForgotten() | PartitionsEnded():
                return self._of_empty(event, now_ms)
            case TurnEnded():
                self._questions.turn_ended(now_ms)
                return [*self._flush(), *self._tell_heads(now_ms)]
            case Appended() | AppendFailed():
                return self._append_ended(event, now_ms)
            case RangeRead():
                return self._answer(event)
            case Compared():
                return self._compared(event, now_ms)
            case HoleSkipped():
                return self._skip_hole(event, now_ms)
            case PeerListened() | PeerLeft() | SlotsMoved():
                return self._met(event)
            case Woke():
                return self._wake(now_ms)
            case _:
                raise AssertionError(event)

    def _of_empty(
        self, event: Recalled | Emptied | PartitionsForgotten | PartitionsEnded, now_ms: int
    ) -> list[Effect]:
        match event:
            case Recalled():
                return self._remembered(event, now_ms)
            case Emptied():
                return self._emptied(event.partitions)
            case PartitionsForgotten():
                return self._forget(event.partitions)
            case PartitionsEnded():
                return self._ended(event.ends)

    def wakeup_ms(self) -> int | None:
        """When a FETCH or GET-HEADS is to be repeated, or more heads are to be told."""
        parts = self._inflow, self._reminders, self._questions
        return earliest(self._inquiry.due_ms, *(one.wakeup_ms() for one in parts))

    def check(self) -> None:
        """Assert that nothing is acknowledged ahead of what was taken in."""
        self._inflow.check()
        for partition, head in self._durable.items():
            assert head < self._inflow.expected(partition)

    def holes(self) -> dict[Partition, range]:
        """What it lacks before records that it has been sent, and nobody has."""
        return self._inflow.holes()

    @property
    def heads(self) -> dict[Partition, int]:
        """The last durable sequence of every partition."""
        return self._durable

    def _receive(self, received: tuple[Message, ...], now_ms: int) -> list[Effect]:
        """Take in what is of partitions that are known; the log is asked about all others."""
        effects: list[Effect] = []
        if self._keeping != KEEPS_ALL:
            kept = tuple(filter(self._keeping.heeds, received))
            dropped = [one for one in received if isinstance(one, _LIVE) and one not in kept]
            received, effects = kept, [Dropped("not for this store") for _ in dropped]
        if not self._remembers:
            return effects + [one for each in received for one in self._understand(each, now_ms)]
        unknown: list[OfPartition] = []
        for message in received:
            told = forgotten.of_partition(message, self._address)
            if told is None or Partition(told.topic, told.address) in self._inflow:
                effects += self._understand(message, now_ms)
            else:
                unknown.append(told)
        return [*effects, Recall(tuple(unknown))] if unknown else effects

    def _moved(self, keeping: Keeping) -> list[Effect]:
        """Do this with slots from now on; know nothing more of what is not held."""
        before, self._keeping = self._keeping, keeping
        for partition in self._inflow.partitions():
            if before.takes(partition) != keeping.takes(partition):
                self._rewind(partition)  # it is asked for at once, or not waited for
            if not keeping.holds(partition):
                self._inflow.leave(partition)
                self._part_with(partition)
        return self._greetings.moved(before, keeping)

    def _remembered(self, event: Recalled, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for message in event.messages:
            partition = Partition(message.topic, message.address)
            end = event.ends.get(partition)
            if end is None or partition in self._inflow:
                effects += self._understand(message, now_ms)
            else:
                effects += self._of_forgotten(message, partition, end, now_ms)
        return effects

    def _of_forgotten(
        self, message: OfPartition, partition: Partition, end: int, now_ms: int
    ) -> list[Effect]:
        if not forgotten.goes_on(message, end):
            if isinstance(message, messages.DirectHead) and message.store:
                self._inflow.heard_from(message.store, now_ms)
            asked = isinstance(message, messages.Fetch)
            if not asked and not self._keeping.acknowledges(partition):
                return []
            return forgotten.answers(message, end, self._address)
        proved = forgotten.proves(message, end)
        known = proved or self._inflow.named(partition)
        if not known or not self._inflow.start(partition, end):
            return [Dropped("too many partitions")]
        self._durable[partition] = end - 1
        return self._understand(message, now_ms)

    def _emptied(self, partitions: Iterable[Partition]) -> list[Effect]:
        """Forget what nobody is about to add to."""
        busy = under_way(self._skipped, self._staged, self._appending.values())
        idle = [
            partition
            for partition in partitions
            if partition in self._durable
            and self._keeping.answers(partition)  # who is to find here what others list has to
            and partition not in busy
            and partition not in self._disputes
            and self._inflow.rests(partition)
        ]
        return [Forget(tuple(idle))] if idle else []

    def _ended(self, ends: Iterable[tuple[Partition, int]]) -> list[Effect]:
        """Remember those of which nothing is here, nor about to be; ask for the rest of others."""
        busy = under_way(self._skipped, self._staged, self._appending.values())
        here = {one for one, _ in ends if one in self._durable or one in busy}
        for partition, end in ends:
            if partition in here and partition in self._inflow:
                self._inflow.heard(partition, end - 1)
        return [Remember(tuple(one for one in ends if one[0] not in here))]

    def _forget(self, partitions: Iterable[Partition]) -> list[Effect]:
        self._remembers = True
        for partition in filter(self._inflow.__contains__, partitions):
            self._inflow.leave(partition)  # what waits for what is before its end comes again
            self._part_with(partition)
        return []

    def _part_with(self, partition: Partition) -> None:
        if partition in self._durable:
            del self._durable[partition]
        self._disputes.forgotten(partition)
        self._fetched.pop(partition, None)
        self._reminders.forget(partition)

    def _understand(self, message: Message, now_ms: int) -> list[Effect]:
        match message:
            case (
                messages.Records()
                | messages.DirectRecords()
                | messages.RecordMessage()
                | messages.DirectRecord()
            ):
                return self._take(message, now_ms)
            case messages.Head() | messages.DirectHead():
                return self._heard(message, now_ms)
            case messages.LogStart():
                return self._log_start(message, now_ms)
            case messages.Fetch():
                return self._fetch(message, now_ms)
            case messages.GetHeads():
                return self._asked(message, now_ms)
            case messages.ConsumerHello() | messages.StoreHello():
                return self._hello(message, now_ms)
            case _:
                return [Dropped("not for a store")]

    def _hello(
        self, message: messages.ConsumerHello | messages.StoreHello, now_ms: int
    ) -> list[Effect]:
        if isinstance(message, messages.StoreHello):
            if not self._inflow.heard_from(message.store, now_ms):
                return [Dropped("too many stores")]
            self._inflow.keeps(message.store, message.slots)
            return []
        if message.store != self._address:
            return [Dropped("not for this store")]
        if message.foreign:
            self._reminders.greeted(message, self._durable, now_ms)
        return self._asked(message, now_ms)

    def _take(self, message: messages.Batch, now_ms: int) -> list[Effect]:
        partition = Partition(message.topic, message.address)
        if not self._known(partition, proved=message.sequence == 0):
            return [Dropped("too many partitions")]
        try:
            batch = arrived(message)
        except RecordError as error:
            return [Dropped(error.reason)]
        if partition in self._disputes:
            return [Dropped("disputed partition")]
        expected = self._inflow.expected(partition)
        if batch.sequence < expected and isinstance(
            message, messages.Records | messages.RecordMessage
        ):
            # What is new of it is fetched, should it be the same so far.
            self._inflow.heard(partition, batch.end - 1)
            return [Dropped("duplicate"), *self._compare(batch)]
        if isinstance(message, messages.DirectRecords | messages.DirectRecord):
            self._fetched[partition] = max(batch.end, self._fetched.get(partition, 0))
        due = batch.sequence <= expected < batch.end
        if due and self._disputes.needs_log(batch, expected):
            return [Compare(batch)]
        return self._offer(batch, now_ms)

    def _known(self, partition: Partition, *, proved: bool) -> bool:
        """Take a partition in, if there is room for it; less where it is only spoken of."""
        if proved:
            self._inflow.proved(partition)
        if partition in self._inflow:
            return True
        return (proved or self._inflow.named(partition)) and self._inflow.start(partition, 0)

    def _offer(self, batch: Batch, now_ms: int) -> list[Effect]:
        expected = self._inflow.expected(batch.partition)
        reason = self._inflow.offer(batch)
        if reason is not None:
            return [Dropped(reason), *self._acknowledge(batch.partition, batch.end - 1)]
        return self._stage(batch.partition, expected, now_ms)

    def _compare(self, batch: Batch) -> list[Effect]:
        writing = (one for append in self._appending.values() for one in append.batches)
        durable = self._durable.get(batch.partition, -1)
        return self._disputes.compare(batch, (*writing, *self._staged), durable)

    def _compared(self, event: Compared, now_ms: int) -> list[Effect]:
        batch, held = event.batch, event.held
        partition = batch.partition
        if partition not in self._inflow:
            return []  # it was given up meanwhile
        if held and held[-1].end == self._inflow.expected(partition):
            self._disputes.recalled(partition, held[-1])
        differs = self._disputes.differs(batch, held)
        if differs or partition in self._disputes:
            return differs
        return self._acknowledge(partition, batch.end - 1) or self._offer(batch, now_ms)

    def _stage(self, partition: Partition, expected: int, now_ms: int) -> list[Effect]:
        for batch in self._inflow.take(partition):
            fitting = batch
            if batch.sequence < expected:
                try:
                    fitting = without_first(batch, expected - batch.sequence)
                except RecordError as error:
                    self._rewind(partition)
                    self._inflow.rest(partition, now_ms, FETCH_REST_MS_MAX)
                    return [Dropped(error.reason)]
            if not self._disputes.goes_on(fitting):
                self._inflow.start(partition, expected)
                return self._disputes.found(fitting)
            self._staged.add(fitting)
            expected = batch.end
        return self._flush() if self._staged.full else []

    def _heard(self, message: messages.Head | messages.DirectHead, now_ms: int) -> list[Effect]:
        partition = Partition(message.topic, message.address)
        stored = isinstance(message, messages.DirectHead) and message.store is not None
        if not self._known(partition, proved=stored):
            return [Dropped("too many partitions")]
        self._inflow.heard(partition, message.sequence)
        if isinstance(message, messages.DirectHead):
            if message.store and not self._inflow.heard_from(message.store, now_ms):
                return [Dropped("too many stores")]
            self._inflow.answered(partition, message.store, message.sequence)
            return []
        if message.stored and message.sequence == self._durable.get(partition):
            return []  # of ten thousand idle partitions there would be as many ACKs as HEADs
        return self._acknowledge(partition, message.sequence)

    def _log_start(self, message: messages.LogStart, now_ms: int) -> list[Effect]:
        partition = Partition(message.topic, message.address)
        if partition not in self._inflow or partition in self._disputes:
            return []  # of a disputed one nothing is taken: that does not mean that nobody has it
        said = partition, message.sender, message.sequence, now_ms
        end = self._inflow.log_start(*said, self._keeping.asked_of(partition))
        return [] if end is None else self._go_on(partition, end, now_ms)

    def _skip_hole(self, event: HoleSkipped, now_ms: int) -> list[Effect]:
        hole = self._inflow.holes().get(event.partition)
        if hole is None or hole.stop != event.end:
            return []  # something has come meanwhile
        return self._go_on(event.partition, event.end, now_ms)

    def _go_on(self, partition: Partition, end: int, now_ms: int) -> list[Effect]:
        """Go on at `end`: nobody has what lacks before it."""
        start = self._inflow.expected(partition)
        # What is staged of it would be dropped by the append that it belongs to.
        self._staged.drop(partition)
        self._skipped[partition] = end
        self._inflow.skip(partition, end)
        self._disputes.skipped(partition)
        return [Lost(partition, start, end), *self._stage(partition, end, now_ms)]

    def _acknowledge(self, partition: Partition, sequence: int) -> list[Effect]:
        """Say again what is durable, if that covers `sequence`, or shows whose it is."""
        durable = self._durable.get(partition, -1)
        if durable < 0 or (sequence > durable and partition not in self._disputes):
            return []
        if not self._disputes.knows(partition):
            return [ReadRange(self._address, partition, durable, 1, 0)]
        return self._ack(partition)

    def _recalled(self, event: RangeRead) -> list[Effect]:
        """The log has said whose records it ends with."""
        partition = event.partition
        if not event.batches and event.skipped_to is None:
            return []  # the disk failed; the next HEAD asks again
        self._disputes.recalled(partition, event.batches[-1] if event.batches else None)
        return self._ack(partition)

    def _ack(self, partition: Partition) -> list[Effect]:
        run = self._disputes.run(partition)
        unclear = run is None and partition in self._disputes
        if unclear or not self._keeping.acknowledges(partition):
            return []
        durable = self._durable[partition]
        return [Publish(messages.Ack(*partition, self._address, durable, run))]

    def _flush(self) -> list[Effect]:
        if not self._staged and not self._skipped:
            return []
        self._token += 1
        append = Append(self._token, self._staged.take(), tuple(self._skipped.items()))
        self._skipped = {}
        self._appending[self._token] = append
        return [append]

    def _append_ended(self, event: Appended | AppendFailed, now_ms: int) -> list[Effect]:
        if isinstance(event, AppendFailed):
            return self._append_failed(event.token, now_ms)
        append = self._appending.pop(event.token)
        touched: dict[Partition, Batch] = {}
        for partition, sequence in append.skips:
            if partition not in self._inflow:
                continue  # it was given up meanwhile, as are batches below
            self._durable[partition] = max(sequence - 1, self._durable.get(partition, -1))
            self._disputes.stored(partition, None)
        kept = [batch for batch in append.batches if batch.partition in self._inflow]
        for batch in kept:
            self._durable[batch.partition] = batch.end - 1
            self._reminders.moved(batch.partition, now_ms)
            touched[batch.partition] = batch
        for partition, last in touched.items():
            # A write behind a failed one may fail later than this one was begun, and rewind it.
            if self._inflow.expected(partition) <= self._durable[partition]:
                self._inflow.start(partition, self._durable[partition] + 1)
                self._disputes.forget(partition)
            self._disputes.stored(partition, last)
        acks = [ack for partition in touched for ack in self._ack(partition)]
        return acks + self._passed_on(kept)

    def _passed_on(self, batches: Iterable[Batch]) -> list[Effect]:
        """What guests have not heard of: not what this store fetches as it was away."""
        effects: list[Effect] = []
        for batch in batches:
            partition, end = batch.partition, self._fetched.get(batch.partition, 0)
            lacks = self._inflow.lacks(partition)
            if not lacks:
                self._fetched.pop(partition, None)
            mute = not self._keeping.answers(partition)
            if self._listened and not mute and not (lacks and batch.end <= end):
                effects.append(Publish(stored_records(self._address, batch)))
        return effects

    def _append_failed(self, token: int, now_ms: int) -> list[Effect]:
        """Take nothing of it for granted: it will be asked for again, and acknowledged then."""
        append = self._appending.pop(token)
        touched = dict(append.skips) | {batch.partition: 0 for batch in append.batches}
        for partition in filter(self._inflow.__contains__, touched):
            self._rewind(partition)
            # Every store would answer at once, and each answer be refused and asked for again.
            self._inflow.rest(partition, now_ms, DISK_REST_MS)
        return [Dropped("append failed")]

    def _rewind(self, partition: Partition) -> None:
        self._staged.drop(partition)
        self._skipped.pop(partition, None)
        self._inflow.start(partition, self._durable.get(partition, -1) + 1)
        self._disputes.forget(partition)

    def _fetch(self, fetch: messages.Fetch, now_ms: int) -> list[Effect]:
        partition = Partition(fetch.topic, fetch.address)
        durable = self._durable.get(partition)
        if durable is None or fetch.requester == self._address:
            return []
        if fetch.store not in (None, messages.ANY_STORE, self._address):
            return []
        if fetch.sequence > durable:
            return [self._direct_head(fetch.requester, partition)]
        if fetch.foreign:
            self._reminders.asked(fetch.requester, partition, now_ms)
        count = min(fetch.count, BATCH_RECORDS_MAX)
        size = SINGLE_ANSWER_BYTES_MAX if fetch.foreign else FETCH_ANSWER_BYTES_MAX
        alone_end = fetch.sequence + fetch.count if fetch.store == self._address else None
        return [ReadRange(fetch.requester, partition, fetch.sequence, count, size, alone_end)]

    def _answer(self, event: RangeRead) -> list[Effect]:
        if event.requester == self._address:
            return self._recalled(event)
        if event.partition not in self._durable:
            return []  # it was forgotten while the read waited for its turn
        effects: list[Effect] = []
        if event.skipped_to is not None:
            said = event.requester, *event.partition, event.skipped_to, self._address
            effects.append(Publish(messages.LogStart(*said)))
        effects += [Publish(direct_records(event.requester, batch)) for batch in event.batches]
        if not event.is_all(self._durable[event.partition]):
            effects.append(self._direct_head(event.requester, event.partition))
        return effects

    def _asked(self, question: HeadQuestion, now_ms: int) -> list[Effect]:
        full = [] if self._questions.add(question, now_ms) else [Dropped("not read")]
        return [*full, *self._tell_heads(now_ms)]

    def _tell_heads(self, now_ms: int) -> list[Effect]:
        return [
            self._direct_head(requester, partition)
            for requester, partition in self._questions.told(now_ms)
            if partition in self._durable and self._keeping.answers(partition)
        ]

    def _direct_head(self, requester: str, partition: Partition) -> Publish:
        head, run = self._durable[partition], self._disputes.run(partition)
        return Publish(messages.DirectHead(requester, *partition, head, self._address, run))

    def _met(self, event: PeerListened | PeerLeft | SlotsMoved) -> list[Effect]:
        """Greet a consumer that listens for it. Who has left is waited for as who is silent."""
        if isinstance(event, SlotsMoved):
            return self._moved(event.keeping)
        if isinstance(event, PeerLeft):
            return []
        if event.id is MessageId.STORED_RECORDS:
            self._listened |= event.key.startswith(messages.channel(self._address, ""))
        if event.id is not MessageId.STORE_HELLO or not event.key:
            return []
        return self._greetings.met(event.key, self._keeping)

    def _wake(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        self._inflow.wake(now_ms)
        if not self._greeted:
            self._greeted = True
            effects += self._greetings.begin(self._keeping)
            self._inquiry.renew(now_ms)
        effects += [
            ReadRange(consumer, partition, self._durable[partition], 1, FETCH_ANSWER_BYTES_MAX)
            for partition, consumer in self._reminders.due(now_ms)
            if self._keeping.answers(partition)
        ]
        if self._inquiry.asked(now_ms):
            # Other stores may have what this one missed, and nobody else announces the partitions
            # of producers that are gone.
            effects += self._greetings.ask(self._keeping)
        return effects
