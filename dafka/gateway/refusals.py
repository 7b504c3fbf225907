"""What an idempotent producer has been refused, or what is missing of it, and may come yet.

Clients have several batches under way, and where a partition changes its owner some are refused by
one gateway, or get lost, while those behind them come to the next. They are sent again in their
order, so a batch that comes before its turn is refused like those before it. It is not said to be
out of order, while what is missing may come: librdkafka begins anew under another epoch then, and
what it does not know to be stored is there twice; kafka-python gives the records up.

Of a producer of which nothing is known any batch may be the next. So one is not taken behind
another that was refused: a client takes what lies before a stored batch for stored, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.records.batch import PLACES
from dafka.records.header import header_of

if TYPE_CHECKING:
    from dafka.gateway.broker import KafkaPartition
    from dafka.gateway.events import Produced

REMEMBERED_MAX = 10_000
"""Producers, in all partitions, of whom something is remembered, some hundred bytes each."""

REMEMBERED_MS = 60_000
"""By then a client has sent again what was refused or got lost: librdkafka waits as long for an
answer. For good would be too long: where it goes on elsewhere, it may come back later."""


class _Noted(NamedTuple):
    """A batch that was refused, or one that came before its turn, and until when it counts."""

    epoch: int
    first: int
    until_ms: int


class _Notes:
    """One of each producer in each partition, of a bounded number."""

    def __init__(self, notes_max: int) -> None:
        self._notes_max = notes_max
        self._notes: dict[tuple[KafkaPartition, int], _Noted] = {}

    def get(self, partition: KafkaPartition, producer_id: int, epoch: int) -> _Noted | None:
        """Return what there is of an epoch."""
        noted = self._notes.get((partition, producer_id))
        return noted if noted is not None and noted.epoch == epoch else None

    def put(self, partition: KafkaPartition, producer_id: int, noted: _Noted) -> None:
        """Note it, behind all others; the first is remembered no more if there are too many."""
        self._notes.pop((partition, producer_id), None)
        self._notes[partition, producer_id] = noted
        if len(self._notes) > self._notes_max:
            del self._notes[next(iter(self._notes))]

    def drop(self, partition: KafkaPartition, producer_id: int) -> None:
        """Forget it."""
        self._notes.pop((partition, producer_id), None)


class Refusals:
    """What one gateway has refused, whether it owned the partition or not.

    Args:
        remembered_max: Of how many producers something is remembered.
    """

    def __init__(self, remembered_max: int = REMEMBERED_MAX) -> None:
        self._refused = _Notes(remembered_max)
        self._early = _Notes(remembered_max)

    def note(self, partition: KafkaPartition, batch: bytes, now_ms: int) -> None:
        """A batch was not taken, and is sent again; what is behind it may be under way."""
        fields = header_of(batch)
        if fields.producer_id < 0:
            return
        place = partition, fields.producer_id
        epoch, first = fields.producer_epoch, fields.base_sequence
        known = self._refused.get(*place, epoch)
        if known is not None and now_ms < known.until_ms and _is_behind(first, known.first):
            first = known.first
        self._refused.put(*place, _Noted(epoch, first, now_ms + REMEMBERED_MS))

    def before(self, partition: KafkaPartition, produced: Produced, now_ms: int) -> bool:
        """Whether something before a batch was refused, and has not come since."""
        refused = self._refused.get(partition, produced.producer_id, produced.producer_epoch)
        if refused is None or now_ms >= refused.until_ms:
            return False
        return _is_behind(produced.base_sequence, refused.first)

    def may_come(self, partition: KafkaPartition, produced: Produced, now_ms: int) -> bool:
        """Whether what is missing before a batch may come yet; else it is out of order."""
        place, epoch = (partition, produced.producer_id), produced.producer_epoch
        early = self._early.get(*place, epoch)
        if early is None:
            early = _Noted(epoch, produced.base_sequence, now_ms + REMEMBERED_MS)
            self._early.put(*place, early)
        return now_ms < early.until_ms

    def over(self, partition: KafkaPartition, producer_id: int) -> None:
        """Something of a producer has been taken: its sequence says from now on what is next."""
        self._refused.drop(partition, producer_id)
        self._early.drop(partition, producer_id)


def _is_behind(sequence: int, other: int) -> bool:
    """Whether a sequence comes after another; they begin again behind the last."""
    return 0 < (sequence - other) % PLACES < PLACES // 2
