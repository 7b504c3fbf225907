"""Whether two batches of one partition can come from one producer.

A partition has one producer at a time. A second one under the same address, from a copied spool,
gives the same sequences to other records. Where both are at hand their records are compared. Where
the second one's first records never arrived, what comes behind them gives it away: each batch says
how many records of the same life of its producer precede it, as Kafka's idempotent producers do
(KIP-98), and the record before it must be the one before it in that life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.records.batch import Run, raw_records, run_of
from dafka.records.envelope import ENVELOPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import Batch
    from dafka.records.batch import RawRecord


def agree(held: Sequence[Batch], batch: Batch) -> bool:
    """Whether `batch` has the same records as `held` where both have any, and goes on with them.

    What encloses them may differ: flags, and which records are in one batch.

    Args:
        held: Consecutive batches of the same partition.
        batch: Checked, like those.

    Raises:
        RecordError: The records inside one do not parse.
    """
    for one in held:
        # By far the most: the same batch again.
        if one.content[ENVELOPE_BYTES:] == batch.content[ENVELOPE_BYTES:]:
            continue
        low, high = max(one.sequence, batch.sequence), min(one.end, batch.end)
        if low < high and not _same(one, batch, low, high):
            return False
        if one.end == batch.sequence and not follows(run_behind(one), batch):
            return False
    return True


def follows(behind: Run | None, batch: Batch) -> bool:
    """Whether `batch` may stand where `behind` is the place in its producer's life.

    A new life may begin anywhere; of what has no run, as of other makes, nothing can be said.
    """
    run = run_of(batch.content)
    return behind is None or run is None or run.first == 0 or run == behind


def run_behind(batch: Batch) -> Run | None:
    """Return the place behind a batch in its producer's life; None if the batch does not say."""
    return _place(batch, batch.end)


def _same(one: Batch, other: Batch, low: int, high: int) -> bool:
    """Whether two batches have the same records from `low` to below `high`, of the same life."""
    places = {_place(one, low), _place(other, low)} - {None}
    return len(places) < 2 and _between(one, low, high) == _between(other, low, high)


def _place(batch: Batch, sequence: int) -> Run | None:
    run = run_of(batch.content)
    return None if run is None else run.behind(sequence - batch.sequence)


def _between(batch: Batch, low: int, high: int) -> list[RawRecord]:
    return [record for record in raw_records(batch.content) if low <= record.sequence < high]
