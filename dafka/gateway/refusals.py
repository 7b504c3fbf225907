"""What was refused of idempotent producers a moment ago: what comes behind it is not to be taken.

Clients have several batches under way. Of a producer of which nothing is known any batch may be the
next one. So where one is refused, and the next comes just as its partition begins to be served,
that one would be taken, and the client might take the one before it for stored, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.records.batch import PLACES
from dafka.records.header import header_of

if TYPE_CHECKING:
    from dafka.gateway.broker import KafkaPartition
    from dafka.gateway.events import Produced

REFUSED_MAX = 10_000
"""Producers, in all partitions, of whom that is remembered, some hundred bytes each."""

REMEMBERED_MS = 60_000
"""By then a client has heard that something was refused. For good would be too long: where it goes
on elsewhere, it may come back much later."""


class _FirstRefused(NamedTuple):
    """The first batch that was refused."""

    epoch: int
    first: int
    until_ms: int


class Refusals:
    """What one gateway has refused, whether it owned the partition or not.

    Args:
        refused_max: How much of it is remembered; then what was refused first is not any more.
    """

    def __init__(self, refused_max: int = REFUSED_MAX) -> None:
        self._refused_max = refused_max
        self._refused: dict[tuple[KafkaPartition, int], _FirstRefused] = {}

    def note(self, partition: KafkaPartition, batch: bytes, now_ms: int) -> None:
        """A batch was not taken, and is sent again; what is behind it may be under way."""
        fields = header_of(batch)
        if fields.producer_id < 0:
            return
        key = partition, fields.producer_id
        epoch, first = fields.producer_epoch, fields.base_sequence
        known = self._refused.pop(key, None)
        if known is not None and known.epoch == epoch and _is_behind(first, known.first):
            first = known.first
        self._refused[key] = _FirstRefused(epoch, first, now_ms + REMEMBERED_MS)
        if len(self._refused) > self._refused_max:
            del self._refused[next(iter(self._refused))]

    def before(self, partition: KafkaPartition, produced: Produced, now_ms: int) -> bool:
        """Whether something before a batch was refused, and has not come since."""
        refused = self._refused.get((partition, produced.producer_id))
        if (
            refused is None
            or now_ms >= refused.until_ms
            or refused.epoch != produced.producer_epoch
        ):
            return False
        return _is_behind(produced.base_sequence, refused.first)

    def over(self, partition: KafkaPartition, producer_id: int) -> None:
        """Something of a producer has been taken: its sequence says from now on what is next."""
        self._refused.pop((partition, producer_id), None)


def _is_behind(sequence: int, other: int) -> bool:
    """Whether a sequence comes after another; they begin again behind the last."""
    return 0 < (sequence - other) % PLACES < PLACES // 2
