"""The owner of a Kafka partition: it alone writes the ledger, and says what clients may see.

Who takes over reads the ledger from a majority of the stores, writes it anew under its epoch, and
offers nothing until as many stores as block every majority have that. Then it gives offsets: to its
own records as they are published, to all others as they are stored. What it offers has both, entry
and records, in as many stores, and its lease held when it heard so: whoever comes next finds it.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, assert_never

from dafka.gateway.events import (
    Disowned,
    LeaseRenewed,
    LedgerLine,
    LineKind,
    LinesStored,
    Offered,
    Owned,
    ReadStores,
    RecordsDeleted,
    RecordsGone,
    RecordsSent,
    RecordsStored,
    StoreRead,
    WriteLines,
)
from dafka.gateway.ledger import ENTRY_RECORDS_MAX, HOLE, Ledger
from dafka.gateway.producers import BATCHES_KEPT
from dafka.groups.membership import majority_of
from dafka.limits import PRODUCERS_MAX
from dafka.protocol.events import Woke
from dafka.protocol.machine import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dafka.gateway.events import LedgerEffect, LedgerEvent, Produced
    from dafka.gateway.ledger import LedgerEntry


class OwnerState(Enum):
    """How far a gateway has come with a partition."""

    FOREIGN = "foreign"
    """It is not this gateway's."""
    READING = "reading"
    """It asks the stores what was there before."""
    BEGINNING = "beginning"
    """It has written the list anew, and waits until that, and all records in it, are stored."""
    SERVING = "serving"
    """Clients read and write."""


OWNER_STATES = {
    OwnerState.FOREIGN: {OwnerState.READING},
    OwnerState.READING: {OwnerState.BEGINNING, OwnerState.FOREIGN},
    OwnerState.BEGINNING: {OwnerState.SERVING, OwnerState.FOREIGN},
    OwnerState.SERVING: {OwnerState.FOREIGN},
}


CLOSED = 2**62
"""Above all sequences: of an address that is skipped up to there nothing gets an offset again.

What a gateway took in and is not found when the next one begins was never acknowledged, and its
client sends it again: should it come late, it would be there twice.
"""

CLOSED_MAX = 1_000
"""Addresses of owners before; what comes so late that there were more is taken for others'."""


class LedgerMachine:
    """One Kafka partition at one gateway.

    Whoever runs it asks the clock after it has taken in what stores acknowledge, not before: a
    process may have stood still in between.

    Args:
        stores: How many stores there are.
    """

    def __init__(self, stores: int) -> None:
        self._majority = majority_of(stores)
        self._lifecycle = Lifecycle(OWNER_STATES)
        self._epoch = 0
        self._lease_ms = 0
        self._address = ""
        self._token = 0
        self._read: dict[str, StoreRead] = {}
        self.ledger = Ledger()
        self.produced: list[LedgerLine] = []
        """What Kafka producers had sent before this epoch, and may send again."""
        self._lines = 0
        """How many this epoch has."""
        self._lines_stored = 0
        self._stored: dict[str, int] = {}
        """By address, the end of what enough stores have."""
        self._gone: dict[str, int] = {}
        """By address, where what is kept begins."""
        self._waiting: deque[tuple[int, LedgerEntry]] = deque()
        """What is not offered yet, with the line that has to be stored."""
        self._begun = 0
        """The line that ends the beginning."""
        self._trims: deque[tuple[int, int]] = deque()
        """Where the list begins, once the line that says so is stored."""
        self._end = 0
        """Behind what is stored, with all before it."""
        self._offered: Offered | None = None

    @property
    def state(self) -> OwnerState:
        """How far it has come."""
        return self._lifecycle.state

    @property
    def epoch(self) -> int:
        """That of the last ownership."""
        return self._epoch

    def handle(self, event: LedgerEvent, now_ms: int) -> list[LedgerEffect]:
        """Take one event in; see `Machine`."""
        match event:
            case Owned():
                return self._own(event)
            case Disowned():
                self._lifecycle.become(OwnerState.FOREIGN)
                return []
            case _ if self.state is OwnerState.FOREIGN:
                return []  # what was still under way when it was disowned
            case LeaseRenewed():
                self._lease_ms = max(self._lease_ms, event.lease_ms)
                return []
            case StoreRead():
                return self._take(event)
            case Woke():
                return [ReadStores(self._token)] if self.state is OwnerState.READING else []
            case _:
                return self._follow(event, now_ms)

    def wakeup_ms(self) -> int | None:
        """Never: whoever asks the stores does so until they answer."""
        return None

    def check(self) -> None:
        """Assert that nothing is offered that is not in the list, or not stored."""
        if self._offered is None:
            return
        assert self._offered.start <= self._offered.end <= self.ledger.end
        assert self._offered.start <= self.ledger.start
        for line, entry in self._waiting:
            assert entry.end > self._offered.end, (line, entry)

    def _follow(
        self,
        event: LinesStored | RecordsSent | RecordsStored | RecordsGone | RecordsDeleted,
        now_ms: int,
    ) -> list[LedgerEffect]:
        """Records and lines come, are stored, and go."""
        match event:
            case LinesStored():
                if event.epoch == self._epoch:
                    self._lines_stored = max(self._lines_stored, event.end)
                return self._offer(now_ms)
            case RecordsSent():
                return self._send(event)
            case RecordsStored():
                return self._store(event, now_ms)
            case RecordsGone():
                return self._trim(event)
            case RecordsDeleted():
                return self._delete(event)
            case _:
                assert_never(event)

    def _own(self, event: Owned) -> list[LedgerEffect]:
        assert event.epoch > self._epoch
        self._lifecycle.become(OwnerState.READING)
        self._epoch, self._lease_ms = event.epoch, event.lease_ms
        self._address = event.address
        self._token += 1
        self._read.clear()
        self._stored.clear()
        self._gone.clear()
        self._waiting.clear()
        self._trims.clear()
        self._lines = self._lines_stored = 0
        self._offered = None
        return [ReadStores(self._token)]

    def _take(self, event: StoreRead) -> list[LedgerEffect]:
        if self.state is not OwnerState.READING or event.token != self._token:
            return []
        self._read[event.store] = event
        if len(self._read) < self._majority:
            return []
        self._lifecycle.become(OwnerState.BEGINNING)
        return self._begin(list(self._read.values()))

    def _begin(self, read: Sequence[StoreRead]) -> list[LedgerEffect]:
        """Write what was there anew, then what has no offset yet."""
        kept: dict[str, range] = {}
        for one in read:
            for address, there in one.kept.items():
                known = kept.get(address, there)
                start, stop = min(known.start, there.start), max(known.stop, there.stop)
                kept[address] = range(start, stop)
        before, produced, closed = listed([chain for one in read for chain in one.lines.values()])
        self.ledger, self._end = Ledger(before.start), before.start
        lines = [self._line(LineKind.BEGIN, before.start)]
        floors: dict[str, int] = {}
        for entry in before:
            floors.setdefault(entry.address, entry.first)
            stop = kept.get(entry.address, range(0)).stop
            came = 0 if entry.address == HOLE else min(entry.records, max(0, stop - entry.first))
            if came:
                lines += self._listed(entry.address, entry.first, came)
            if came < entry.records:
                lines += self._listed(HOLE, 0, entry.records - came)
        for address in closed[-CLOSED_MAX:]:
            self.ledger.skip(address, CLOSED)
            lines.append(self._line(LineKind.SKIP, 0, address, CLOSED))
        for address, there in sorted(kept.items()):
            # What had offsets and is trimmed, some stores may still have, or get back from others.
            floor = floors.get(address, before.listed(address))
            if floor > self.ledger.listed(address):
                self.ledger.skip(address, floor)
                lines.append(self._line(LineKind.SKIP, 0, address, floor))
            first = max(there.start, self.ledger.listed(address))
            if first < there.stop:
                lines += self._listed(address, first, there.stop - first)
        self.produced = [line for line in produced if self._came(line)]
        lines += [self._line(*line[2:]) for line in self.produced]
        self._trims.append((self._lines, self.ledger.start))
        lines.append(self._line(LineKind.OPEN, self.ledger.end, self._address))
        self._begun = self._lines
        return [WriteLines(tuple(lines))]

    def _came(self, line: LedgerLine) -> bool:
        """Whether the records of a batch that had its offsets before are there, or were trimmed."""
        for offset in (line.offset, line.offset + line.records - 1):
            there = self.ledger.at(offset)
            if offset >= self.ledger.start and (there is None or there.offset != offset):
                return False
        return True

    def _send(self, event: RecordsSent) -> list[LedgerEffect]:
        assert self.state in (OwnerState.BEGINNING, OwnerState.SERVING)
        lines = self._listed(event.address, event.first, event.count, event.produced)
        return [WriteLines(tuple(lines))]

    def _append(self, address: str, end: int) -> list[LedgerEffect]:
        """Give offsets to what has none, of an address up to a sequence."""
        if self.state is OwnerState.READING:
            return []  # it is read with the rest, or stored again
        begin = self.ledger.listed(address)
        if begin >= end:
            return []
        return [WriteLines(tuple(self._listed(address, begin, end - begin)))]

    def _store(self, event: RecordsStored, now_ms: int) -> list[LedgerEffect]:
        if event.end > self._stored.get(event.address, 0):
            self._stored[event.address] = event.end
        return self._append(event.address, event.end) + self._offer(now_ms)

    def _trim(self, event: RecordsGone) -> list[LedgerEffect]:
        if self.state is OwnerState.READING:
            return []
        self._gone[event.address] = max(event.start, self._gone.get(event.address, 0))
        return self._begin_later() if self.ledger.trim(self._gone) else []

    def _delete(self, event: RecordsDeleted) -> list[LedgerEffect]:
        assert self._offered is not None
        assert event.start <= self._offered.end
        if event.start <= self.ledger.start:
            return []
        self.ledger.cut(event.start)
        return self._begin_later()

    def _begin_later(self) -> list[LedgerEffect]:
        """Say where the list begins from now on."""
        self._trims.append((self._lines, self.ledger.start))
        return [WriteLines((self._line(LineKind.TRIM, self.ledger.start),))]

    def _offer(self, now_ms: int) -> list[LedgerEffect]:
        """What may be told, now that something is stored."""
        if self.state is OwnerState.READING or now_ms >= self._lease_ms:
            return []
        while self._waiting and self._is_stored(*self._waiting[0]):
            self._end = self._waiting.popleft()[1].end
        if self.state is OwnerState.BEGINNING:
            # All that was offered before is in the beginning, so clients never see less of it.
            waits = self._waiting and self._waiting[0][0] < self._begun
            if waits or self._lines_stored < self._begun:
                return []
            self._lifecycle.become(OwnerState.SERVING)
        start = 0 if self._offered is None else self._offered.start
        while self._trims and self._trims[0][0] < self._lines_stored:
            start = self._trims.popleft()[1]
        offered = Offered(start, max(self._end, start))
        if offered == self._offered:
            return []
        self._offered = offered
        return [offered]

    def _is_stored(self, line: int, entry: LedgerEntry) -> bool:
        if line >= self._lines_stored:
            return False
        last = entry.first + entry.records
        gone = entry.end <= self.ledger.start
        return gone or entry.address == HOLE or last <= self._stored.get(entry.address, 0)

    def _listed(
        self, address: str, first: int, count: int, produced: Produced | None = None
    ) -> list[LedgerLine]:
        lines = []
        for done in range(0, count, ENTRY_RECORDS_MAX):
            records = min(ENTRY_RECORDS_MAX, count - done)
            entry = self.ledger.append(address, first + done, records)
            self._waiting.append((self._lines, entry))
            place = entry.offset, address, entry.first, records
            lines.append(self._line(LineKind.ENTRY, *place, produced))
        return lines

    def _line(
        self,
        kind: LineKind,
        offset: int,
        address: str = "",
        first: int = 0,
        count: int = 0,
        produced: Produced | None = None,
    ) -> LedgerLine:
        self._lines += 1
        number = self._lines - 1
        return LedgerLine(self._epoch, number, kind, offset, address, first, count, produced)


class Listed(NamedTuple):
    """What a chain makes.

    Attributes:
        ledger: The list.
        produced: The last batches of Kafka producers, in their order: `PRODUCED` lines.
        closed: The addresses of those who owned the partition, in their order.
    """

    ledger: Ledger
    produced: list[LedgerLine]
    closed: list[str]


def listed(chains: Iterable[Sequence[LedgerLine]]) -> Listed:
    """Return what the newest whole chain makes: of one epoch the longest."""
    whole = [chain for chain in map(_unbroken, chains) if _is_whole(chain)]
    for chain in sorted(whole, key=lambda chain: (chain[0].epoch, len(chain)), reverse=True):
        found = _folded(chain)
        if found is not None:
            return found
    return Listed(Ledger(), [], [])


def _folded(chain: Sequence[LedgerLine]) -> Listed | None:
    """What a chain adds up to; None if no owner can have written it."""
    ledger = Ledger()
    produced: dict[int, deque[LedgerLine]] = {}
    closed: list[str] = []
    own: list[str] = []
    for line in chain:
        if not _fits(line, ledger):
            return None
        if line.kind is LineKind.BEGIN:
            ledger = Ledger(line.offset)
        elif line.kind is LineKind.ENTRY:
            ledger.append(line.address, line.first, line.records)
        elif line.kind is LineKind.TRIM:
            ledger.cut(line.offset)
        elif line.kind is LineKind.SKIP:
            ledger.skip(line.address, line.first)
            if line.first == CLOSED:
                closed.append(line.address)
        elif line.kind is LineKind.OPEN:
            own = [line.address]
        if line.produced is not None:
            _remember(produced, line.produced.producer_id, line)
    last_produced = [line for last in produced.values() for line in last]
    return Listed(ledger, last_produced, closed + own)


def _remember(produced: dict[int, deque[LedgerLine]], producer_id: int, line: LedgerLine) -> None:
    last = produced.pop(producer_id, None) or deque(maxlen=BATCHES_KEPT)
    last.append(line._replace(kind=LineKind.PRODUCED, address="", first=0))
    produced[producer_id] = last
    if len(produced) > PRODUCERS_MAX:
        del produced[next(iter(produced))]


def _fits(line: LedgerLine, ledger: Ledger) -> bool:
    """Whether an owner may have written it there: anybody may publish what looks like a line."""
    if line.kind is LineKind.ENTRY:
        known = line.address == HOLE or line.first >= ledger.listed(line.address)
        return known and line.offset == ledger.end and line.records <= ENTRY_RECORDS_MAX
    if line.kind is LineKind.TRIM:
        return ledger.start <= line.offset <= ledger.end
    return line.kind is not LineKind.BEGIN or line.number == 0


def _unbroken(chain: Sequence[LedgerLine]) -> Sequence[LedgerLine]:
    """The lines from the first on that follow each other."""
    for number, line in enumerate(chain):
        if line.number != number:
            return chain[:number]
    return chain


def _is_whole(chain: Sequence[LedgerLine]) -> bool:
    return any(line.kind is LineKind.OPEN for line in chain)
