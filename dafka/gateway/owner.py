"""The owner of a Kafka partition: it alone writes the ledger, and says what clients may see.

Who takes over reads the ledger from a majority of the stores, writes it anew under its epoch, and
offers nothing until as many stores as block every majority have that. Then it gives offsets: to its
own records as they are published, to all others as they are stored. What it offers has both, entry
and records, in as many stores, and its lease held when it heard so: whoever comes next finds it.
"""

from __future__ import annotations

from collections import Counter, deque
from enum import Enum
from typing import TYPE_CHECKING, assert_never

from dafka.gateway.chains import listed, readable
from dafka.gateway.events import (
    Disowned,
    Lease,
    LedgerEmptied,
    LedgerLine,
    LineKind,
    LinesStored,
    Offered,
    Owned,
    ReadStores,
    RecordsDeleted,
    RecordsForgotten,
    RecordsGone,
    RecordsSent,
    RecordsStored,
    Restate,
    StoreRead,
    TakeoverLate,
    TopicDeleted,
    WriteLines,
)
from dafka.gateway.ledger import CLOSED, ENTRY_RECORDS_MAX, HOLE, Ledger
from dafka.gateway.stored_ends import StoredEnds
from dafka.groups.membership import blocking_of, majority_of
from dafka.limits import FORGOTTEN_AT_ONCE_MAX
from dafka.protocol.events import Woke
from dafka.protocol.machine import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    OwnerState.BEGINNING: {OwnerState.SERVING, OwnerState.READING, OwnerState.FOREIGN},
    OwnerState.SERVING: {OwnerState.FOREIGN},
}


RESTATED_LINES_MIN = 10_000
"""Lines that a chain may have behind its beginning, however short that is."""

CLOSED_MAX = 1_000
"""Addresses of owners before; what comes so late that there were more is taken for others'."""


TAKEOVER_MS_MAX = 10_000
"""A takeover that takes longer is told of, as often: a session, and a list read and written."""


def knows_all(new: Iterable[bool], stores: int) -> bool:
    """Whether some stores have, together, all that was ever said to be stored.

    A majority without those whose disk is new, or all there are. That all who answer are new does
    not say that nothing was ever stored: the one that is away may have it alone.

    Args:
        new: Of each that was read, whether its disk is.
        stores: How many there are.
    """
    disks = Counter(new)
    return disks[False] >= majority_of(stores) or disks.total() >= stores


def _newest_in(read: StoreRead) -> int:
    """The highest epoch of which there is a whole list; 0 if there is none."""
    return max((chain[0].epoch for chain in read.lines.values() if readable(chain)), default=0)


class LedgerMachine:
    """One Kafka partition at one gateway.

    Whoever runs it asks the clock after it has taken in what stores acknowledge, not before: a
    process may have stood still in between.

    Args:
        stores: How many stores there are.
        lines_min: So many lines behind its beginning are not too many for a chain.
        takeover_ms: One that takes longer is told of.
        forgotten_min: So many addresses that no store lists any more are not too many.
    """

    def __init__(
        self,
        stores: int,
        lines_min: int = RESTATED_LINES_MIN,
        takeover_ms: int = TAKEOVER_MS_MAX,
        forgotten_min: int = FORGOTTEN_AT_ONCE_MAX,
    ) -> None:
        self._stores = stores
        self._lines_min, self._takeover_ms = lines_min, takeover_ms
        self._forgotten_min = self._forgotten_max = forgotten_min
        self._lifecycle = Lifecycle(OWNER_STATES)
        self._epoch = 0
        self._lease = Lease(0)
        self._address = ""
        self._token = 0
        self._read: dict[str, StoreRead] = {}
        self.newest = 0
        """The highest epoch of which a store has a whole list."""
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
        self._forgotten: set[str] = set()
        """Addresses that no store lists any more, of which more than that is still known."""
        self._waiting: deque[tuple[int, LedgerEntry]] = deque()
        """What is not offered yet, with the line that has to be stored."""
        self._begun = 0
        """The number of the line behind the beginning that was written last."""
        self._beginning_lines = 0
        """How many that has."""
        self._settled = False
        """Whether it has been said that it is stored."""
        self._trims: deque[tuple[int, int]] = deque()
        """Where the list begins, once the line that says so is stored."""
        self.emptied = 0
        """The number of the last deletion of the topic that has emptied the partition."""
        self._emptied_line = 0
        """The line that says so."""
        self._emptied_told = 0
        self._end = 0
        """Behind what is stored, with all before it."""
        self._offered: Offered | None = None
        self._late_ms: int | None = None
        """When to tell that it does not serve yet."""

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
                return self._own(event, now_ms)
            case Disowned():
                self._lifecycle.become(OwnerState.FOREIGN)
                self._late_ms = None
                return []
            case _ if self.state is OwnerState.FOREIGN:
                return []  # what was still under way when it was disowned
            case StoreRead():
                return self._take(event)
            case Woke():
                return self._wake(now_ms)
            case Restate():
                return self._restate(event.produced) if self.is_long else []
            case _:
                return self._follow(event, now_ms)

    def wakeup_ms(self) -> int | None:
        """When it is late; whoever asks the stores does so until they answer."""
        return self._late_ms

    @property
    def outranked(self) -> bool:
        """Whether another ownership has an epoch above this one, which then begins nothing.

        It is over, and does not know it; or generations have begun anew, as most stores have lost
        their disks: whoever comes next would go on from the other list, and drop this one.
        """
        return self.newest > self._epoch

    @property
    def is_long(self) -> bool:
        """Whether its chain is to be begun anew: it is twice as long as its beginning."""
        since = self._lines - self._begun
        long = since > max(self._lines_min, self._beginning_lines)
        return long and self._settled and self.state is OwnerState.SERVING

    def runs(self, offset: int) -> Iterator[LedgerEntry]:
        """Yield what `Ledger.runs` does, as far as anything of it is kept."""
        for entry in self.ledger.runs(offset):
            if entry.first + entry.records > self._gone.get(entry.address, 0):
                yield entry

    def check(self) -> None:
        """Assert that nothing is offered that is not in the list, or not stored."""
        self.ledger.check()
        assert len(self._forgotten) <= self._forgotten_max
        if self._offered is None:
            return
        assert self._offered.start <= self._offered.end <= self.ledger.end
        assert self._offered.start <= self.ledger.start
        for line, entry in self._waiting:
            assert entry.end > self._offered.end, (line, entry)

    def _follow(
        self,
        event: LinesStored
        | RecordsSent
        | RecordsStored
        | RecordsGone
        | RecordsForgotten
        | RecordsDeleted
        | TopicDeleted,
        now_ms: int,
    ) -> list[LedgerEffect]:
        """Records and lines come, are stored, and go."""
        match event:
            case LinesStored():
                if event.epoch == self._epoch:
                    self._lines_stored = max(self._lines_stored, event.end)
                return self._settle() + self._offer(now_ms)
            case RecordsSent():
                return self._send(event)
            case RecordsStored():
                return self._store(event, now_ms)
            case RecordsGone():
                return self._trim(event)
            case RecordsForgotten():
                return self._forget(event)
            case RecordsDeleted():
                return self._delete(event)
            case TopicDeleted():
                return self._empty(event)
            case _:
                assert_never(event)

    def _wake(self, now_ms: int) -> list[LedgerEffect]:
        if self._late_ms is None or now_ms < self._late_ms:
            return []
        self._late_ms = now_ms + self._takeover_ms
        late = TakeoverLate(self._waits_for(now_ms))
        if self.state is not OwnerState.BEGINNING or self._lines_stored < self._begun:
            return [late]
        # It waits for records, and who had them may have lost its disk since it was read.
        self._lifecycle.become(OwnerState.READING)
        return [late, *self._ask()]

    def _ask(self) -> list[LedgerEffect]:
        self._token += 1
        self._read.clear()
        self._waiting.clear()
        self._trims.clear()
        return [ReadStores(self._token)]

    def _waits_for(self, now_ms: int) -> str:
        """What it lacks before it serves, for people."""
        if self.outranked:
            later = f"there is a ledger of epoch {self.newest}"
            return f"a generation above {self._epoch}: {later}"
        if self.state is OwnerState.READING:
            new = sum(read.new for read in self._read.values())
            read = f"{len(self._read)} of {self._stores} have been"
            return f"stores to be read: {read}" + f", {new} of them with a new disk" * (new > 0)
        if now_ms >= self._lease.until_ms:
            return "a lease"
        if self._lines_stored < self._begun:
            return f"stores to have its ledger: {self._lines_stored} of {self._begun} lines"
        entry = self._waiting[0][1]
        there = self._stored.get(entry.address, 0)
        end = entry.first + entry.records
        return f"stores to have the records of {entry.address} below {end}: up to {there} they do"

    def _own(self, event: Owned, now_ms: int) -> list[LedgerEffect]:
        assert event.epoch > self._epoch
        self._lifecycle.become(OwnerState.READING)
        self._late_ms = now_ms + self._takeover_ms
        self._epoch, self._lease = event.epoch, event.lease
        self.newest = 0
        self._address = event.address
        self._stored.clear()
        self._gone.clear()
        self._forgotten.clear()
        self._lines = self._lines_stored = 0
        self._emptied_told = 0
        self._offered = None
        return self._ask()

    def _take(self, event: StoreRead) -> list[LedgerEffect]:
        if self.state is not OwnerState.READING or event.token != self._token:
            return []
        self._read[event.store] = event
        self.newest = max(self.newest, _newest_in(event))
        if self.outranked or not self._has_read_enough():
            return []
        self._lifecycle.become(OwnerState.BEGINNING)
        return self._begin(list(self._read.values()))

    def _has_read_enough(self) -> bool:
        """Whether what has been read has all that was ever shown."""
        return knows_all((read.new for read in self._read.values()), self._stores)

    def _begin(self, read: Sequence[StoreRead]) -> list[LedgerEffect]:
        """Write what was there anew, then what has no offset yet."""
        kept: dict[str, range] = {}
        told = StoredEnds(blocking_of(self._stores), self._stores)
        for one in read:
            for address, there in one.kept.items():
                # A store may forget a partition before it is asked how far it is.
                end = told.end(address, one.store, there.stop) or 0
                self._stored[address] = max(end, self._stored.get(address, 0))
                known = kept.get(address, there)
                start, stop = min(known.start, there.start), max(known.stop, there.stop)
                kept[address] = range(start, stop)
        before, produced, closed, self.emptied = listed(
            [chain for one in read for chain in one.lines.values()]
        )
        self.ledger, self._end = Ledger(before.start), before.start
        entries: list[LedgerEntry] = []
        floors: dict[str, int] = {}
        for entry in before:
            floors.setdefault(entry.address, entry.first)
            stop = kept.get(entry.address, range(0)).stop
            came = 0 if entry.address == HOLE else min(entry.records, max(0, stop - entry.first))
            entries += self._entered(entry.address, entry.first, came)
            entries += self._entered(HOLE, 0, entry.records - came)
        for address in closed[-CLOSED_MAX:]:
            if address != self._address:  # as where it has begun before, and reads again
                self.ledger.skip(address, CLOSED)
        for address, there in sorted(kept.items()):
            # What had offsets and is trimmed, some stores may still have, or get back from others.
            self.ledger.skip(address, floors.get(address, before.listed(address)))
            first = max(there.start, self.ledger.listed(address))
            entries += self._entered(address, first, there.stop - first)
        self.produced = [line for line in produced if self._came(line)]
        effects = self._restate((one.produced, one.offset) for one in self.produced)
        self._emptied_line = self._begun - 1
        self._waiting += [(self._begun - 1, entry) for entry in entries]
        self._trims.append((self._begun - 1, self.ledger.start))
        return effects

    def _restate(self, produced: Iterable[tuple[Produced | None, int]]) -> list[LedgerEffect]:
        """Write the whole list, so that nobody needs what its chain has before."""
        first = self._lines
        lines = [self._line(LineKind.BEGIN, self.ledger.start)]
        lines += [self._line(LineKind.ENTRY, *entry) for entry in self.ledger]
        lines += [self._line(LineKind.SKIP, 0, *skip) for skip in self.ledger.skips()]
        for batch, offset in produced:
            records = 0 if batch is None else batch.records
            lines.append(self._line(LineKind.PRODUCED, offset, "", 0, records, batch))
        lines.append(self._line(LineKind.OPEN, self.ledger.end, self._address, self.emptied))
        self._begun, self._beginning_lines = self._lines, self._lines - first
        self._settled = False
        return [WriteLines(tuple(lines))]

    def _settle(self) -> list[LedgerEffect]:
        """Say that enough stores have the beginning: they need not keep what was before."""
        if self._settled or self.state is OwnerState.READING or self._lines_stored < self._begun:
            return []
        self._settled = True
        return [WriteLines((self._line(LineKind.SETTLED, self.ledger.start),))]

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

    def _append(self, address: str, start: int, end: int) -> list[LedgerEffect]:
        """Give offsets to what has none, of an address up to a sequence."""
        if self.state is OwnerState.READING:
            return []  # it is read with the rest, or stored again
        begin = self.ledger.listed(address) or start
        if begin >= end:
            return []
        return [WriteLines(tuple(self._listed(address, begin, end - begin)))]

    def _store(self, event: RecordsStored, now_ms: int) -> list[LedgerEffect]:
        if event.end > self._stored.get(event.address, 0):
            self._stored[event.address] = event.end
        self._forgotten.discard(event.address)
        return self._append(event.address, event.start, event.end) + self._offer(now_ms)

    def _trim(self, event: RecordsGone) -> list[LedgerEffect]:
        if self.state is OwnerState.READING:
            return []
        self._gone[event.address] = max(event.start, self._gone.get(event.address, 0))
        return self._begin_later() if self.ledger.trim(self._gone) else []

    def _forget(self, event: RecordsForgotten) -> list[LedgerEffect]:
        """Where an address ended is all that is kept of it, once nothing of it is in the list.

        That stays: a store that was away may list it still, and acknowledge it.
        """
        self._forgotten.update(event.addresses)
        if len(self._forgotten) > self._forgotten_max:
            used = self.ledger.addresses() | {entry.address for _, entry in self._waiting}
            for address in self._forgotten - used:
                self._stored.pop(address, None)
                self._gone.pop(address, None)
            self._forgotten &= used
            self._forgotten_max = max(self._forgotten_min, 2 * len(self._forgotten))
        return []

    def _delete(self, event: RecordsDeleted) -> list[LedgerEffect]:
        assert self._offered is not None
        assert event.start <= self._offered.end
        if event.start <= self.ledger.start:
            return []
        self.ledger.cut(event.start)
        return self._begin_later()

    def _empty(self, event: TopicDeleted) -> list[LedgerEffect]:
        assert self.state is OwnerState.SERVING
        if event.change <= self.emptied:
            return []  # what came since is of the topic that was made again
        self.ledger.cut(self.ledger.end)
        self.emptied, self._emptied_line = event.change, self._lines
        return self._begin_later(event.change)

    def _begin_later(self, deletion: int = 0) -> list[LedgerEffect]:
        """Say where the list begins from now on."""
        self._trims.append((self._lines, self.ledger.start))
        return [WriteLines((self._line(LineKind.TRIM, self.ledger.start, first=deletion),))]

    def _offer(self, now_ms: int) -> list[LedgerEffect]:
        """What may be told, now that something is stored."""
        if self.state is OwnerState.READING or now_ms >= self._lease.until_ms:
            return []
        while self._waiting and self._is_stored(*self._waiting[0]):
            self._end = self._waiting.popleft()[1].end
        if self.state is OwnerState.BEGINNING:
            # All that was offered before is in the beginning, so clients never see less of it.
            waits = self._waiting and self._waiting[0][0] < self._begun
            if waits or self._lines_stored < self._begun:
                return []
            self._lifecycle.become(OwnerState.SERVING)
            self._late_ms = None
        start = 0 if self._offered is None else self._offered.start
        while self._trims and self._trims[0][0] < self._lines_stored:
            start = self._trims.popleft()[1]
        effects: list[LedgerEffect] = []
        offered = Offered(start, max(self._end, start))
        if offered != self._offered:
            self._offered = offered
            effects.append(offered)
        if self.emptied > self._emptied_told and self._emptied_line < self._lines_stored:
            self._emptied_told = self.emptied
            effects.append(LedgerEmptied(self.emptied))
        return effects

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
        for entry in self._entered(address, first, count):
            self._waiting.append((self._lines, entry))
            lines.append(self._line(LineKind.ENTRY, *entry, produced))
        return lines

    def _entered(self, address: str, first: int, count: int) -> Iterator[LedgerEntry]:
        """Give records the next offsets."""
        for done in range(0, count, ENTRY_RECORDS_MAX):
            records = min(ENTRY_RECORDS_MAX, count - done)
            yield self.ledger.append(address, first + done, records)

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
