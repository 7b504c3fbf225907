"""What a Kafka partition knows of its idempotent producers: which of their batches it has.

As in Kafka: a producer numbers its records in each partition, and sends a batch again until it is
answered. The last five are remembered, as clients have no more under way, and the one before them:
if none of the five came, it says what comes next. All of it stands in the headers of batches, so
who takes a partition over reads them again (`Producers.add`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.gateway.broker import ErrorCode, Placed
from dafka.gateway.events import Produced
from dafka.limits import PRODUCERS_MAX
from dafka.records.batch import PLACES

if TYPE_CHECKING:
    from dafka.records.header import HeaderFields

BATCHES_KEPT = 6
"""One more than are under way: clients keep `max.in.flight.requests.per.connection` at five or less
with idempotence."""

GAP = Placed(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
"""A batch is missing before this one."""


class _Taken(NamedTuple):
    """A batch that has its offset."""

    first: int
    records: int
    offset: int

    @property
    def next(self) -> int:
        return (self.first + self.records) % PLACES


class _Known(NamedTuple):
    """A producer: its epoch, and its last batches."""

    epoch: int
    taken: tuple[_Taken, ...]


class Producers:
    """The producers of one Kafka partition.

    Args:
        producers_max: How many are known; who has not written for longest is forgotten, and then
            may go on with any number.
    """

    def __init__(self, producers_max: int = PRODUCERS_MAX) -> None:
        self._producers_max = producers_max
        self._known: dict[int, _Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._known

    def taken(self) -> list[tuple[Produced, int]]:
        """Return the batches that have their offsets, in the order in which to `add` them."""
        return [
            (Produced(producer_id, known.epoch, taken.first, taken.records), taken.offset)
            for producer_id, known in self._known.items()
            for taken in known.taken
        ]

    def known(self, fields: HeaderFields | Produced) -> Placed | None:
        """Return where a batch has been placed before, or why it cannot be; None if it comes next.

        Args:
            fields: Its header.
        """
        known = self._known.get(fields.producer_id)
        if known is None:
            return None
        if fields.producer_epoch < known.epoch:
            return Placed(ErrorCode.INVALID_PRODUCER_EPOCH)
        if fields.producer_epoch > known.epoch:
            return None if fields.base_sequence == 0 else GAP
        for taken in known.taken:
            if (taken.first, taken.records) == (fields.base_sequence, fields.records):
                return Placed(ErrorCode.NONE, taken.offset)
        return None if fields.base_sequence == known.taken[-1].next else GAP

    def add(self, fields: HeaderFields | Produced, offset: int) -> None:
        """A batch has got its offset; also of batches from before, in their order."""
        if fields.producer_id < 0:
            return
        known = self._known.pop(fields.producer_id, None)
        taken = known.taken if known and known.epoch == fields.producer_epoch else ()
        latest = _Taken(fields.base_sequence, fields.records, offset)
        # Behind the others: a dict keeps the order in which it is told.
        self._known[fields.producer_id] = _Known(
            fields.producer_epoch, (*taken[1 - BATCHES_KEPT :], latest)
        )
        if len(self._known) > self._producers_max:
            del self._known[next(iter(self._known))]
