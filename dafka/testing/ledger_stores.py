"""The stores of a simulated ledger: what they have of its lines and of records."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from dafka.gateway.chains import Beginning, SeenChain, needless

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.gateway.events import LedgerLine


class ShelfChain:
    """The lines of one epoch, in their order; what is before the first of them is gone."""

    def __init__(self) -> None:
        self.lines: list[LedgerLine] = []
        self.next = 0
        """The number of the line that comes next."""

    def take(self, lines: Iterable[LedgerLine]) -> None:
        """Lines arrive: those that come next are taken."""
        for line in lines:
            if line.number == self.next:
                self.lines.append(line)
                self.next += 1

    def copy(self, other: ShelfChain, part: float) -> None:
        """Take over some of what another store has; behind what that has dropped it goes on."""
        self.next = max(self.next, other.lines[0].number if other.lines else other.next)
        self.take(other.lines[: ceil(part * len(other.lines))])

    def seen(self, epoch: int) -> SeenChain:
        """What a store sees of it that looks for what it need not keep."""
        beginning = Beginning()
        for line in self.lines:
            beginning.see(line.number, line.kind)
        return SeenChain(str(epoch), epoch, self.next, beginning.settled)


class Shelf:
    """A store, as far as the ledger is concerned: prefixes of logs, which others complete."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.up = True
        self.new = True
        """Whether its disk is: it may lack what the one before had."""
        self.lost = False
        """Whether it does, as there was one before."""
        self._met: set[str] = set()
        """While it is: whose logs it has had all of."""
        self.chains: dict[int, ShelfChain] = {}
        self.kept: dict[str, range] = {}
        self.ended: dict[str, int] = {}
        """Of partitions of which nothing is left and that are forgotten, where they ended."""
        self.dropped = 0
        """How many lines that nobody needed."""

    def take_lines(self, lines: tuple[LedgerLine, ...]) -> None:
        """Lines of one epoch arrive: those that come next are taken."""
        if lines:
            self.chains.setdefault(lines[0].epoch, ShelfChain()).take(lines)

    def take_records(self, address: str, there: range) -> None:
        """Records arrive: those that come next are taken; behind what is gone it goes on."""
        ended = self.ended.get(address, 0)
        kept = self.kept.get(address, range(ended, ended))
        if there.stop > kept.stop:
            start = kept.start if there.start <= kept.stop else there.start
            self.kept[address] = range(start, there.stop)

    def copy(self, other: Shelf, part: float) -> None:
        """Take over some of what another one has and this one lacks."""
        for epoch, chain in other.chains.items():
            self.chains.setdefault(epoch, ShelfChain()).copy(chain, part)
        for address, there in other.kept.items():
            self.take_records(address, there)

    def compare(self, other: Shelf, stores: int) -> None:
        """See whether a new disk has all that another has; once of all others, it is none more."""
        lines = {epoch: chain.next for epoch, chain in other.chains.items() if chain.lines}
        mine = {epoch: chain.next for epoch, chain in self.chains.items()}
        records = {address: kept.stop for address, kept in other.kept.items() if kept}
        if all(mine.get(one, 0) >= end for one, end in lines.items()) and all(
            self.kept.get(one, range(0)).stop >= end for one, end in records.items()
        ):
            self._met.add(other.name)
        self.new = len(self._met) < stores - 1
        self.lost = self.lost and self.new

    def tidy(self) -> None:
        """Drop the lines that nobody needs, by what itself has."""
        for name, until in needless(self.seen()).items():
            chain = self.chains[int(name)]
            kept = [line for line in chain.lines if line.number >= until]
            self.dropped += len(chain.lines) - len(kept)
            chain.lines = kept

    def seen(self) -> list[SeenChain]:
        """What it sees of its chains."""
        return [chain.seen(epoch) for epoch, chain in self.chains.items()]

    def lose(self) -> None:
        """A new disk."""
        self.chains.clear()
        self.kept.clear()
        self.new = self.lost = True
        self._met.clear()
