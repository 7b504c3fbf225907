"""What a store drops of ledgers: by what it has itself, never by a message (ADR 18, ADR 28).

It reads what is new in the chains, and drops what stands before a beginning that, as a later line
says, enough stores have.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.errors import RecordError, StorageError
from dafka.gateway.chains import Beginning, SeenChain, needless
from dafka.gateway.events import LineKind
from dafka.gateway.lines import LEDGER, chain_name, decoded, kind_of
from dafka.limits import BATCH_RECORDS_MAX
from dafka.process import metrics
from dafka.records.batch import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dafka.gateway.broker import KafkaPartition
    from dafka.gateway.lines import ChainName
    from dafka.model import Batch, Partition
    from dafka.storage.log import Extent, Mark, RecordLog

log = logging.getLogger(__name__)

LOOK_BYTES_MAX = 1024 * 1024
"""Lines that are read at a time: some milliseconds during which nothing is stored."""


class _Chain:
    """One chain, as far as it has been read."""

    def __init__(self, name: ChainName) -> None:
        self.name = name
        self.next = 0
        self.of: KafkaPartition | None = None
        self.beginning = Beginning()

    def take(self, batch: Batch) -> None:
        try:
            values = values_of(batch, self.next)
        except RecordError:
            values = []  # what cannot be read is a gap
        for number, value in enumerate(values, max(self.next, batch.sequence)):
            kind = kind_of(value)
            if kind is LineKind.BEGIN:
                read = decoded(value, self.name.epoch, number)
                if read is None or read[0].epoch != self.name.epoch:
                    continue
                self.of = self.of or read[1]
                if self.of != read[1]:
                    continue
            if kind is not None:
                self.beginning.see(number, kind)
        self.next = batch.end


class ChainRetention:
    """Follows the chains of one log."""

    def __init__(self) -> None:
        self._followed: Mark | None = None
        self._chains: dict[Partition, _Chain] = {}
        self._marked: dict[int, dict[Partition, _Chain]] = {}
        """The same by the marks of their names: those of a Kafka partition have one."""
        self._changed: dict[int, None] = {}
        """Marks of chains of which something may go that was not looked for yet."""
        self._unread: dict[Partition, None] = {}
        """Chains that have more than was read, in the order in which that was seen."""
        self._generation = 0
        """The last one of the gateways that the store knows of."""
        self._ahead: dict[int, None] = {}
        """Marks of chains that say they are of a later one."""

    @property
    def behind(self) -> bool:
        """Whether there is more to look at."""
        return bool(self._unread or self._changed)

    def due(self, log: RecordLog, batches_max: int, generation: int) -> dict[Partition, int]:
        """Look at a bounded part of what is new; return trims that drop at most so many batches.

        Args:
            log: Not changed.
            batches_max: When so many are due, more may be due afterwards.
            generation: The last one of the gateways that the store knows of. No owner can have
                written a chain of a later one: nothing goes for it.

        Raises:
            StorageError: The disk refused.
        """
        if generation > self._generation:
            self._changed |= self._ahead
            self._ahead.clear()
        self._generation = generation
        self._follow(log)
        self._read(log)
        trims: dict[Partition, int] = {}
        extents = log.extents()
        for mark in list(self._changed):
            dropped = False
            for place, until in self._needless(self._marked.get(mark, {}), extents):
                for outline in log.outlines(place, extents[place].start, max(1, batches_max)):
                    if outline.end > until or batches_max <= 0:
                        break
                    trims[place] = outline.end
                    batches_max -= 1
                    dropped = True
            if batches_max <= 0:
                break
            if not dropped:  # else the disk may refuse
                del self._changed[mark]
        return trims

    def _follow(self, log: RecordLog) -> None:
        changed = None if self._followed is None else log.changes.since(self._followed)
        self._followed = log.changes.now
        extents = log.extents()
        # What is followed may have been forgotten where too much has changed to be told.
        places = {*extents, *self._chains} if changed is None else [place for place, _ in changed]
        for place in places:
            if place.topic != LEDGER or (name := chain_name(place.address)) is None:
                continue
            if place in extents:
                chain = self._chains.setdefault(place, _Chain(name))
                self._marked.setdefault(name.mark, {})[place] = chain
                self._unread[place] = None
            else:
                self._forget(place, name)

    def _forget(self, place: Partition, name: ChainName) -> None:
        self._unread.pop(place, None)
        if self._chains.pop(place, None) is not None:
            del self._marked[name.mark][place]
            if not self._marked[name.mark]:
                del self._marked[name.mark]

    def _read(self, record_log: RecordLog) -> None:
        left = LOOK_BYTES_MAX
        extents = record_log.extents()
        while self._unread and left > 0:
            place = next(iter(self._unread))
            chain, extent = self._chains[place], extents[place]
            chain.next = max(chain.next, extent.start)
            batches: list[Batch] = []
            if chain.next <= extent.head:
                try:
                    batches = record_log.read(place, chain.next, BATCH_RECORDS_MAX, left)
                except StorageError as error:
                    metrics.READ_FAILURES.inc()
                    log.warning("cannot see what of a ledger may go, it is kept: %s", error)
            for batch in batches:
                chain.take(batch)
                left -= len(batch.content)
            if not batches or chain.next > extent.head:
                del self._unread[place]
            self._changed[chain.name.mark] = None

    def _needless(
        self, marked: Mapping[Partition, _Chain], extents: Mapping[Partition, Extent]
    ) -> Iterator[tuple[Partition, int]]:
        """Up to which line chains of one mark need not be kept that have some before it."""
        chains = [
            (place, chain)
            for place, chain in marked.items()
            if extents[place].start <= extents[place].head
        ]
        for partition in {chain.of for _, chain in chains} - {None}:
            seen = [
                SeenChain(
                    place.address,
                    chain.name.epoch,
                    extents[place].head + 1,
                    self._settled(chain) if chain.of == partition else None,
                )
                for place, chain in chains
                if chain.of == partition or self._is_rest(place, chain, extents[place])
            ]
            until = needless(seen)
            for place, _ in chains:
                if until.get(place.address, 0) > extents[place].start:
                    yield place, until[place.address]

    def _settled(self, chain: _Chain) -> int | None:
        """Where the last beginning is that others know of, by its own word."""
        settled = chain.beginning.settled
        if settled is not None and chain.name.epoch > self._generation:
            self._ahead[chain.name.mark] = None
            return None
        return settled

    def _is_rest(self, place: Partition, chain: _Chain, extent: Extent) -> bool:
        """Whether it is what is left of a chain that was being dropped when the store ended."""
        return chain.of is None and extent.start > 0 and place not in self._unread
