"""The ledger of a Kafka partition: which offset each record has (ADR 28).

A list of entries, each a run of consecutive records of one partition of ours, in the order of their
offsets. A record that was announced and never came leaves a hole, which Kafka allows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HOLE = ""
"""In place of the address of records that never came."""

CLOSED = 2**62
"""Above all sequences: of an address that is skipped up to there nothing gets an offset again.

What a gateway took in and is not found when the next one begins was never acknowledged, and its
client sends it again: should it come late, it would be there twice.
"""

ENTRY_RECORDS_MAX = 2**31
"""Of one entry; longer runs are several."""


class LedgerEntry(NamedTuple):
    """Some consecutive records of one partition.

    Attributes:
        offset: Of the first.
        address: Whose; `HOLE` for offsets that name no record.
        first: Sequence of the first.
        records: How many there are.
    """

    offset: int
    address: str
    first: int
    records: int

    @property
    def end(self) -> int:
        """The offset behind the last."""
        return self.offset + self.records

    def sequence_of(self, offset: int) -> int:
        """The sequence of the record at an offset, or of the first if that lies before it."""
        return self.first + max(0, offset - self.offset)


class Ledger:
    """The entries of one Kafka partition, 24 bytes each.

    Args:
        start: The first offset that may name a record.
    """

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.end = start
        self._offsets = array("q")
        self._firsts = array("q")
        self._counts = array("I")
        self._names = array("I")
        self._addresses: list[str] = []
        self._numbers: dict[str, int] = {}
        self._listed: dict[str, int] = {}
        self._cut = 0
        """So many at the front are dropped and take room yet: to move the rest costs by all."""

    def __len__(self) -> int:
        return len(self._offsets) - self._cut

    def __iter__(self) -> Iterator[LedgerEntry]:
        return map(self._entry, range(self._cut, len(self._offsets)))

    def check(self) -> None:
        """Assert that it names no more addresses than it has entries, those that take room yet."""
        assert len(self._numbers) == len(self._addresses) <= len(self._offsets)

    def addresses(self) -> set[str]:
        """Those that its entries name, and may be some more."""
        return set(self._numbers)

    def listed(self, address: str) -> int:
        """The sequence of an address behind the last one that has an offset; 0 if none has."""
        return self._listed.get(address, 0)

    def skip(self, address: str, sequence: int) -> None:
        """Records of an address below a sequence get no offset any more: they are gone."""
        if sequence > self.listed(address):
            self._listed.pop(address, None)  # so that they are told in the order of their calls
            self._listed[address] = sequence

    def skips(self) -> list[tuple[str, int]]:
        """Return the addresses of which more has had offsets than the list says, and how much."""
        ends = {entry.address: entry.first + entry.records for entry in self}
        return [(one, end) for one, end in self._listed.items() if end > ends.get(one, 0)]

    def append(self, address: str, first: int, count: int) -> LedgerEntry:
        """Give the next offsets to records; returns what was added, joined to what it continues."""
        assert 0 < count <= ENTRY_RECORDS_MAX
        assert address == HOLE or first >= self.listed(address)
        added = LedgerEntry(self.end, address, first, count)
        self.end += count
        if address != HOLE:
            self._listed[address] = first + count
        if len(self):
            last = self._entry(len(self._offsets) - 1)
            follows = address == HOLE or last.first + last.records == first
            fits = last.records + count <= ENTRY_RECORDS_MAX
            if last.address == address and follows and fits:
                self._counts[-1] += count
                return added
        number = self._numbers.setdefault(address, len(self._addresses))
        if number == len(self._addresses):
            self._addresses.append(address)
        self._offsets.append(added.offset)
        self._firsts.append(first)
        self._counts.append(count)
        self._names.append(number)
        return added

    def runs(self, offset: int) -> Iterator[LedgerEntry]:
        """Yield the entries that name records, whole, from the one that has `offset` on."""
        for entry in self._behind(offset):
            if entry.end > offset and entry.address != HOLE:
                yield entry

    def run_at(self, offset: int) -> LedgerEntry | None:
        """Return the entry that has `offset`, whole, or the first behind it that names a record."""
        return next(self.runs(offset), None)

    def at(self, offset: int) -> LedgerEntry | None:
        """Return what begins with `offset`, or with the first behind it that names a record."""
        run = self.run_at(offset)
        if run is None:
            return None
        passed = max(0, offset - run.offset)
        return LedgerEntry(
            run.offset + passed, run.address, run.first + passed, run.records - passed
        )

    def positions(self, start: int, end: int) -> dict[str, int]:
        """Return how far whoever has processed all below `end` is in the addresses that moved.

        Args:
            start: How far it was when it was last asked; behind `end` if it went back.
            end: How far it is.

        Returns:
            By address the sequence behind the last one processed, which is what a commit says, or
            of those that went back the first that is processed again.
        """
        found: dict[str, int] = {}
        for entry in self._behind(min(start, end)):
            if entry.offset >= max(start, end):
                break
            if entry.address == HOLE or entry.end <= min(start, end):
                continue
            if start < end:
                found[entry.address] = entry.first + min(entry.records, end - entry.offset)
            elif start > end:
                found.setdefault(entry.address, entry.sequence_of(end))
        return found

    def reached(self, positions: Mapping[str, int], start: int = 0) -> int:
        """Return the largest offset below which all is processed, by the commits of a group.

        What it has processed behind that is read again: as much as addresses lie between.

        Args:
            positions: By address.
            start: Below which all is known to be processed.
        """
        for entry in self._behind(start):
            done = positions.get(entry.address, 0) - entry.first
            if entry.address != HOLE and done < entry.records:
                return max(entry.offset + max(0, done), self.start)
        return self.end

    def trim(self, starts: Mapping[str, int]) -> bool:
        """Drop entries from the front while their records are gone; whether any was.

        Args:
            starts: By address, the first sequence that is kept.
        """
        start = self.start
        for entry in self:
            kept = starts.get(entry.address, 0)
            if entry.address != HOLE and entry.first + entry.records > kept:
                start = entry.offset + max(0, kept - entry.first)
                break
            start = entry.end
        if start == self.start:
            return False
        self.cut(start)
        return True

    def cut(self, start: int) -> None:
        """Drop what is below an offset."""
        assert self.start <= start <= self.end
        self.start = start
        place = self._place(start)
        if len(self) and self._entry(place).end <= start:
            place += 1
        self._cut = place
        if len(self) and self._offsets[place] < start:
            passed = start - self._offsets[place]
            self._offsets[place] = start
            self._firsts[place] += passed
            self._counts[place] -= passed
        if self._cut >= len(self):
            self._move_up()

    def _move_up(self) -> None:
        """Give back what the dropped entries take: no fewer than those that stay and are moved."""
        for column in (self._offsets, self._firsts, self._counts, self._names):
            del column[: self._cut]
        self._cut = 0
        used: dict[int, int] = {}
        for place, number in enumerate(self._names):
            self._names[place] = used.setdefault(number, len(used))
        self._addresses = [self._addresses[number] for number in used]
        self._numbers = {address: number for number, address in enumerate(self._addresses)}

    def _place(self, offset: int) -> int:
        """Of the entry that has an offset, or of the first if that lies before all."""
        return max(self._cut, bisect_right(self._offsets, offset, self._cut) - 1)

    def _behind(self, offset: int) -> Iterator[LedgerEntry]:
        """The entries from that one on."""
        return map(self._entry, range(self._place(offset), len(self._offsets)))

    def _entry(self, place: int) -> LedgerEntry:
        return LedgerEntry(
            self._offsets[place],
            self._addresses[self._names[place]],
            self._firsts[place],
            self._counts[place],
        )
