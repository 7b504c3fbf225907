"""A Kafka partition that this gateway owns: its ledger, its logs, and who waits for what."""

from __future__ import annotations

from bisect import insort
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from dafka.gateway.broker import HIGH_WATERMARK, ErrorCode, Offsets, Placed
from dafka.gateway.effects import (
    Answer,
    Located,
    LookSoon,
    OffsetsShown,
    PartitionLate,
    ReadLedger,
)
from dafka.gateway.events import (
    LedgerEmptied,
    LinesStored,
    Offered,
    Owned,
    Produced,
    ReadStores,
    RecordsDeleted,
    RecordsForgotten,
    RecordsGone,
    RecordsSent,
    RecordsStored,
    Restate,
    TakeoverLate,
    TopicDeleted,
    WriteLines,
)
from dafka.gateway.ledger import CLOSED
from dafka.gateway.lines import LEDGER, chain_address, encoded
from dafka.gateway.owner import LedgerMachine, OwnerState
from dafka.gateway.producers import GAP, Producers
from dafka.gateway.served import taken_in
from dafka.gateway.stored_ends import StoredEnds
from dafka.groups.membership import blocking_of
from dafka.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, STORES_MAX
from dafka.model import Batch, Partition, replace
from dafka.records.batch import BatchBuilder, enclosed
from dafka.records.envelope import ENVELOPE_BYTES
from dafka.records.header import header_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.gateway.broker import KafkaPartition
    from dafka.gateway.effects import AppendBatch, DeleteRecords, Locate, ShareEffect, Survey
    from dafka.gateway.events import Lease, LedgerEvent, LedgerLine, StoreRead
    from dafka.gateway.ledger import LedgerEntry
    from dafka.gateway.recent import RecentBatches
    from dafka.gateway.refusals import Refusals

ENTRIES_MAX = 64
"""Entries of a ledger that one fetch reads at most."""

WAITING_MAX = 10_000
"""Clients that wait for a batch, of those that send one again."""

DELETING_MAX = 1_000
"""Clients that wait for offsets to begin later."""

UNTOLD = -1
"""In place of the sequence with which a store begins."""

NO_TIME_MS = -1
"""Of records of our own: to a store their time is when they arrive."""


class _Waiting(NamedTuple):
    """An append that is answered once clients may be told of its records."""

    end: int
    offset: int
    token: int


class Share:
    """One partition, from when this gateway owns it to when it does no more.

    Args:
        partition: Which.
        epoch: Of the ownership.
        gateway: The address of the gateway, which the chain's begins like.
        address: Under which it publishes what it takes in; nobody has before.
        stores: How many there are.
        unpublished: Where it enters itself once it has something to publish.
        refusals: What the gateway has refused.
    """

    def __init__(
        self,
        partition: KafkaPartition,
        epoch: int,
        gateway: str,
        address: str,
        stores: int,
        unpublished: dict[KafkaPartition, Share],
        refusals: Refusals,
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.chain = Partition(LEDGER, chain_address(gateway, partition, epoch))
        self.records = Partition(partition.topic, address)
        self.machine = LedgerMachine(stores)
        self.offered: Offsets | None = None
        """What clients may be told; nothing yet."""
        self._unpublished = unpublished
        self._refusals = refusals
        self._lines: list[LedgerLine] = []
        """Not published yet."""
        self._batches: list[Batch] = []
        """Likewise."""
        self._next = 0
        """Sequence of what is taken in next."""
        self._waiting: deque[_Waiting] = deque()
        self._deleting: list[DeleteRecords] = []
        """Answered once offsets begin there."""
        self._deleted = self._emptied = self._reported = 0
        """Deletions of its topic: the last, the last that has emptied it, and that was told of."""
        self._producers = Producers()
        self._line_ends = StoredEnds(blocking_of(stores), STORES_MAX)
        self._record_ends = StoredEnds(blocking_of(stores), STORES_MAX)

    def own(self, lease: Lease, now_ms: int) -> list[ShareEffect]:
        """Begin."""
        return self.feed(Owned(self.epoch, lease, self.records.address), now_ms)

    def feed(self, event: LedgerEvent, now_ms: int) -> list[ShareEffect]:
        """Let the machine of the ledger take an event in."""
        effects: list[ShareEffect] = []
        for effect in self.machine.handle(event, now_ms):
            match effect:
                case ReadStores():
                    effects.append(ReadLedger(self.partition, self.epoch, effect.token))
                case WriteLines():
                    self._lines += effect.lines
                    self._unpublished[self.partition] = self
                case Offered():
                    effects += self._show(effect)
                case TakeoverLate():
                    effects.append(PartitionLate(self.partition, effect.waits_for))
                case LedgerEmptied():
                    self._emptied = effect.change
                    self._tell_emptied()
        if self.offered is not None and self.machine.emptied < self._deleted:
            effects += self.feed(TopicDeleted(self._deleted), now_ms)
        return effects

    def empty(self, deletion: int, now_ms: int) -> list[ShareEffect]:
        """Its topic is deleted: what has an offset is to have none, as soon as it is served."""
        self._deleted = max(self._deleted, deletion)
        self._tell_emptied()
        if self.offered is None or self.machine.emptied >= self._deleted:
            return []
        return self.feed(TopicDeleted(self._deleted), now_ms)

    def _tell_emptied(self) -> None:
        if self._reported < self._deleted <= self._emptied:
            self._unpublished[self.partition] = self

    def newly_emptied(self) -> int | None:
        """Return the deletion that has emptied it, once: as safely as its offsets are kept."""
        if not self._reported < self._deleted <= self._emptied:
            return None
        self._reported = self._deleted
        return self._deleted

    def take(self, read: StoreRead, now_ms: int) -> list[ShareEffect]:
        """A store has been read."""
        # Nobody has written so much: what is up there would have no room in a line.
        known = {address: there for address, there in read.kept.items() if there.stop < CLOSED}
        read = replace(read, kept=known)
        effects: list[ShareEffect] = []
        for address, kept in read.kept.items():
            effects += self.stored(read.store, address, kept, now_ms)
        reading = self.machine.state is OwnerState.READING
        effects += self.feed(read, now_ms)
        if reading and self.machine.state is OwnerState.BEGINNING:
            self._producers = Producers()
            for line in self.machine.produced:
                if line.produced is not None:
                    self._producers.add(line.produced, line.offset)
            # What was heard while it read, beyond what it has read.
            for address, end in self._record_ends.ends():
                begun = self._record_ends.begun(address)
                effects += self.feed(RecordsStored(address, end, begun), now_ms)
            for address, start in self._record_ends.starts():
                effects += self.feed(RecordsGone(address, start), now_ms)
        return effects

    def stored(self, store: str, address: str, kept: range, now_ms: int) -> list[ShareEffect]:
        """A store has these records of an address in the partition's slots.

        From `UNTOLD` on, if it has not said where they begin: then of an address that is not known
        they get no offsets until that is told. It may be one that stores had forgotten, whose
        records have had offsets.
        """
        effects: list[ShareEffect] = []
        if kept.stop >= CLOSED:
            return effects
        if kept.start == UNTOLD and not self._knows(address):
            return [LookSoon()]
        start = self._record_ends.start(address, store, kept.start)
        end = self._record_ends.end(address, store, kept.stop)
        if end is not None:
            begun = self._record_ends.begun(address)
            effects += self.feed(RecordsStored(address, end, begun), now_ms)
        if start is not None:
            effects += self.feed(RecordsGone(address, start), now_ms)
        return effects

    def _knows(self, address: str) -> bool:
        """Whether it is known where it begins, or goes on."""
        mine = address == self.records.address
        told = self._record_ends.is_told(address)
        return mine or told or self.machine.ledger.listed(address) > 0

    def lines_stored(self, store: str, end: int, now_ms: int) -> list[ShareEffect]:
        """A store has the lines below a number."""
        enough = self._line_ends.end(self.chain.address, store, end)
        if enough is None:
            return []
        effects = self.feed(LinesStored(self.epoch, enough), now_ms)
        if self.machine.is_long:
            effects += self.feed(Restate(self._producers.taken()), now_ms)
        return effects

    def unlisted(self, store: str, address: str, now_ms: int) -> list[ShareEffect]:
        """A store has forgotten an address."""
        gone = self._record_ends.unlisted(address, store)
        return self.feed(RecordsForgotten((address,)), now_ms) if gone else []

    def left(self, store: str, now_ms: int) -> list[ShareEffect]:
        """A store has left: what it has counts once it says so again."""
        self._line_ends.forget(store)
        return self.feed(RecordsForgotten(self._record_ends.forget(store)), now_ms)

    def append(self, wanted: AppendBatch, offered: Offsets, now_ms: int) -> list[ShareEffect]:
        """A client's batch."""
        fields = header_of(wanted.batch)
        produced = None
        if fields.producer_id >= 0:
            produced = Produced(
                fields.producer_id, fields.producer_epoch, fields.base_sequence, fields.records
            )
            known = self._known(produced, now_ms)
            if known is not None:
                return self._repeated(wanted, known, fields.records, offered)
        first, offset = self._next, self.machine.ledger.end
        self._producers.add(fields, offset)
        self._refusals.over(self.partition, fields.producer_id)
        sent = RecordsSent(self.records.address, first, fields.records, produced)
        effects = self.feed(sent, now_ms)
        content = taken_in(wanted.batch, first, self.epoch)
        self._batches.append(Batch(self.records, first, fields.records, content))
        self._next += fields.records
        if wanted.acks == -1:
            self._waiting.append(_Waiting(offset + fields.records, offset, wanted.token))
            return effects
        return [*effects, Answer(wanted.token, Placed(ErrorCode.NONE, offset, offered.start))]

    def _known(self, produced: Produced, now_ms: int) -> Placed | None:
        """Where a batch has been placed before, or why it cannot be; None if it comes next."""
        if produced.producer_id in self._producers:
            known = self._producers.known(produced)
        else:
            known = GAP if self._refusals.before(self.partition, produced, now_ms) else None
        if known == GAP and self._refusals.may_come(self.partition, produced, now_ms):
            return Placed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return known

    def _repeated(
        self, wanted: AppendBatch, known: Placed, records: int, offered: Offsets
    ) -> list[ShareEffect]:
        """A batch that has its offset, maybe only just, or that cannot be taken."""
        end = known.offset + records
        if known.error is ErrorCode.NONE and wanted.acks == -1 and end > offered.end:
            if len(self._waiting) >= WAITING_MAX:
                return [Answer(wanted.token, Placed(ErrorCode.NOT_ENOUGH_REPLICAS))]
            # It stands before whatever waits behind it.
            insort(self._waiting, _Waiting(end, known.offset, wanted.token))
            return []
        return [Answer(wanted.token, known._replace(start=offered.start))]

    def delete(self, wanted: DeleteRecords, offered: Offsets, now_ms: int) -> list[ShareEffect]:
        """A client wants offsets to begin later."""
        start = offered.end if wanted.start == HIGH_WATERMARK else wanted.start
        if not 0 <= start <= offered.end:
            return [Located(wanted.token, ErrorCode.OFFSET_OUT_OF_RANGE, offered)]
        if start <= offered.start:
            return [Located(wanted.token, ErrorCode.NONE, offered)]
        if len(self._deleting) >= DELETING_MAX:
            return [Located(wanted.token, ErrorCode.NOT_ENOUGH_REPLICAS, offered)]
        self._deleting.append(replace(wanted, start=start))
        return self.feed(RecordsDeleted(start), now_ms)

    def flush(self) -> list[Batch]:
        """What is to be published: lines first, so that no store has records without theirs."""
        published = self._of_lines() + self._batches
        self._batches = []
        return published

    def disown(self) -> list[ShareEffect]:
        """It is another's: who waits has to ask that one. What is not published never was."""
        self._unpublished.pop(self.partition, None)
        elsewhere = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return [
            *(Answer(one.token, Placed(elsewhere)) for one in self._waiting),
            *(Located(one.token, elsewhere) for one in self._deleting),
            OffsetsShown(self.partition, None),
        ]

    def locate(self, wanted: Locate, offered: Offsets, recent: RecentBatches) -> Located:
        """Where the records are that a client wants to read."""
        if not offered.start <= wanted.offset <= offered.end:
            return Located(wanted.token, ErrorCode.OFFSET_OUT_OF_RANGE, offered)
        found: list[tuple[LedgerEntry, Batch]] = []
        size = 0
        entries = self.entries(wanted.offset, offered.end, ENTRIES_MAX)
        for entry in entries:
            log = Partition(self.partition.topic, entry.address)
            batch = recent.at(log, entry.sequence_of(wanted.offset))
            while batch is not None and (not found or size < wanted.bytes_max):
                found.append((entry, batch))
                size += len(batch.content)
                if batch.end >= entry.first + entry.records:
                    break
                batch = recent.at(log, batch.end)
            else:
                break
        return Located(wanted.token, ErrorCode.NONE, offered, tuple(found), tuple(entries))

    def survey(self, wanted: Survey, offered: Offsets) -> Located:
        """Some of what clients may be told of."""
        start = max(wanted.start, offered.start)
        entries = self.entries(start, offered.end, wanted.entries_max)
        return Located(wanted.token, ErrorCode.NONE, offered, entries=tuple(entries))

    def entries(self, start: int, end: int, most: int) -> list[LedgerEntry]:
        """Entries from the one that has `start` on, as far as they lie below `end`.

        Without those of which stores keep nothing: who reads so many at a time, and gets nothing of
        all of them, would ask for the same ones for ever.
        """
        found: list[LedgerEntry] = []
        for entry in self.machine.runs(start):
            if max(entry.offset, start) >= end or len(found) >= most:
                break
            within = entry.end <= end
            found.append(entry if within else entry._replace(records=end - entry.offset))
        return found

    def _show(self, offered: Offered) -> list[ShareEffect]:
        self.offered = Offsets(offered.start, offered.end)
        effects: list[ShareEffect] = [OffsetsShown(self.partition, self.offered)]
        while self._waiting and self._waiting[0].end <= offered.end:
            done = self._waiting.popleft()
            placed = Placed(ErrorCode.NONE, done.offset, offered.start)
            effects.append(Answer(done.token, placed))
        for asked in [one for one in self._deleting if one.start <= offered.start]:
            self._deleting.remove(asked)
            effects.append(Located(asked.token, ErrorCode.NONE, self.offered))
        return effects

    def _of_lines(self) -> list[Batch]:
        lines, self._lines = self._lines, []
        if not lines:
            return []
        values = [encoded(line, self.partition) for line in lines]
        return batches_of(self.chain, lines[0].number, values)


def batches_of(partition: Partition, sequence: int, values: Sequence[bytes]) -> list[Batch]:
    """Return records of our own as batches, from a sequence on."""
    batches: list[Batch] = []
    done = 0
    while done < len(values):
        builder = BatchBuilder(BATCH_BYTES_MAX - ENVELOPE_BYTES)
        end = builder.extend(NO_TIME_MS, values[: done + BATCH_RECORDS_MAX], done)
        content = enclosed(builder.build(), sequence + done)
        batches.append(Batch(partition, sequence + done, end - done, content))
        done = end
    return batches
