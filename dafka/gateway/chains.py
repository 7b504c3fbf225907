"""What the chains of a Kafka partition add up to, and what of them nobody reads any more (ADR 28).

An owner begins its chain with the whole list, and does so again when the lines since then have
become many. Whoever takes over reads from the newest beginning that is whole. So what stands before
is not needed, once as many stores as block every majority have that beginning, which the owner says
in a line of its own: a store may then drop it by what itself has, and asks nobody.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from dafka.gateway.events import LineKind
from dafka.gateway.ledger import CLOSED, ENTRY_RECORDS_MAX, HOLE, Ledger
from dafka.gateway.producers import BATCHES_KEPT
from dafka.limits import PRODUCERS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dafka.gateway.events import LedgerLine


class Beginning:
    """Where the newest beginning of a chain is that is whole, as far as its lines have been seen.

    Attributes:
        whole: The number of its first line; None if there is none.
        settled: The same of the newest one that enough stores are known to have.
    """

    def __init__(self) -> None:
        self.whole: int | None = None
        self.settled: int | None = None
        self._begun: int | None = None
        self._next = 0

    def see(self, number: int, kind: LineKind) -> None:
        """The next line that is there; what lies before it and was not seen is gone."""
        if number != self._next:
            self._begun = None
        self._next = number + 1
        if kind is LineKind.BEGIN:
            self._begun = number
        elif kind is LineKind.OPEN and self._begun is not None:
            self.whole, self._begun = self._begun, None
        elif kind is LineKind.SETTLED:
            self.settled = self.whole


def readable(chain: Sequence[LedgerLine]) -> Sequence[LedgerLine]:
    """Return the lines from the newest whole beginning on, as far as they follow each other."""
    beginning = Beginning()
    for line in chain:
        beginning.see(line.number, line.kind)
    found: list[LedgerLine] = []
    for line in chain:
        if beginning.whole is None or line.number < beginning.whole:
            continue
        if found and (line.number != found[-1].number + 1 or line.kind is LineKind.BEGIN):
            break
        found.append(line)
    return found


class SeenChain(NamedTuple):
    """What a store has of a chain.

    Attributes:
        name: What it is called there.
        epoch: Of the ownership.
        end: The number of the line that comes next.
        settled: See `Beginning`.
    """

    name: str
    epoch: int
    end: int
    settled: int | None


def needless(chains: Sequence[SeenChain]) -> dict[str, int]:
    """Return up to which line each chain of one Kafka partition need not be kept.

    All of what is older than the newest settled one, and of that what is before its beginning.
    """
    epochs = [chain.epoch for chain in chains if chain.settled is not None]
    newest = max(epochs, default=0)
    found = {chain.name: chain.end for chain in chains if chain.epoch < newest}
    for chain in chains:
        if chain.epoch == newest and chain.settled:
            found[chain.name] = chain.settled
    return found


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
    emptied: int = 0
    """The number of the last deletion of the topic that has emptied it."""


def listed(chains: Iterable[Sequence[LedgerLine]]) -> Listed:
    """Return what the newest whole chain makes: of one epoch what goes furthest."""
    whole = [chain for chain in map(readable, chains) if chain]
    for chain in sorted(whole, key=lambda one: (one[0].epoch, one[-1].number), reverse=True):
        found = folded(chain)
        if found is not None:
            return found
    return Listed(Ledger(), [], [])


def folded(chain: Sequence[LedgerLine]) -> Listed | None:
    """Return what lines from a beginning on add up to; None if no owner can have written them."""
    ledger = Ledger()
    produced: dict[int, deque[LedgerLine]] = {}
    closed: list[str] = []
    own: list[str] = []
    emptied = 0
    for line in chain:
        if not _fits(line, ledger):
            return None
        if line.kind is LineKind.BEGIN:
            ledger = Ledger(line.offset)
        elif line.kind is LineKind.ENTRY:
            ledger.append(line.address, line.first, line.records)
        elif line.kind is LineKind.TRIM:
            ledger.cut(line.offset)
            emptied = max(emptied, line.first)
        elif line.kind is LineKind.SKIP:
            ledger.skip(line.address, line.first)
            if line.first == CLOSED:
                closed.append(line.address)
        elif line.kind is LineKind.OPEN:
            own = [line.address]
            emptied = max(emptied, line.first)
        if line.produced is not None:
            _remember(produced, line.produced.producer_id, line)
    last_produced = [line for last in produced.values() for line in last]
    return Listed(ledger, last_produced, closed + own, emptied)


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
    return True
