"""Two producers under one address: a copied configuration, or a spool that was copied.

A partition has one producer at a time. A second one gives the same sequences to other records, and
what it publishes looks like a repetition of what is there. So a repetition is compared. Where the
second one's first records never arrived, what comes behind them gives it away: each batch says how
many records of the same life of its producer precede it, as Kafka's idempotent producers do
(KIP-98), and the record before it must be the one before it in that life. Where either is not so
nothing more is taken of the partition: nobody can tell which producer is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dafka.errors import RecordError
from dafka.limits import COMPARED_BYTES_MAX
from dafka.protocol.effects import Compare, Disputed, Dropped
from dafka.records.batch import Run, has_append_time, raw_records, run_of
from dafka.records.envelope import ENVELOPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dafka.model import Batch, Partition
    from dafka.protocol.effects import Effect
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
    if len(places) > 1:
        return False
    ours, theirs = _between(one, low, high), _between(other, low, high)
    if has_append_time(one.content) or has_append_time(other.content):
        ours = [record._replace(timestamp_ms=0) for record in ours]
        theirs = [record._replace(timestamp_ms=0) for record in theirs]
    return ours == theirs


def _place(batch: Batch, sequence: int) -> Run | None:
    run = run_of(batch.content)
    return None if run is None else run.behind(sequence - batch.sequence)


def _between(batch: Batch, low: int, high: int) -> list[RawRecord]:
    records = raw_records(batch.content, COMPARED_BYTES_MAX)  # what stands for more is dropped
    return [record for record in records if low <= record.sequence < high]


_NOTHING_TAKEN = -1, None


class Disputes:
    """The partitions in which that was found, and what shows it."""

    def __init__(self) -> None:
        self._partitions: set[Partition] = set()
        self._stored: dict[Partition, Run | None] = {}
        """Where the record behind the last durable one stands in its producer's life. Not known of
        what was stored before this process started, until the log has been asked."""
        self._taken: dict[Partition, tuple[int, Run | None]] = {}
        """The same behind the last one taken, and the sequence there, while that is not durable."""

    def __contains__(self, partition: Partition) -> bool:
        return partition in self._partitions

    def knows(self, partition: Partition) -> bool:
        """Whether `run` is what there is to be known."""
        return partition in self._stored

    def run(self, partition: Partition) -> int | None:
        """The producer's life that the last durable record comes from, if it is known."""
        behind = self._stored.get(partition)
        return None if behind is None else behind.number

    def stored(self, partition: Partition, last: Batch | None) -> None:
        """This is durable now; None is a log start with nothing behind it."""
        end, taken = self._taken.get(partition, _NOTHING_TAKEN)
        behind = taken
        if last is None:
            behind = None
        elif last.end != end:
            behind = run_behind(last)
        self._stored[partition] = behind
        if taken == behind:
            self._taken.pop(partition, None)

    def recalled(self, partition: Partition, last: Batch | None) -> None:
        """The log was asked, and this is what it ends with."""
        if partition not in self._stored:
            self.stored(partition, last)

    def forget(self, partition: Partition) -> None:
        """What was taken and is not durable is taken back."""
        self._taken.pop(partition, None)

    def forgotten(self, partition: Partition) -> None:
        """Nothing is left of it that could be compared."""
        self._stored.pop(partition, None)
        self._taken.pop(partition, None)

    def skipped(self, partition: Partition) -> None:
        """What comes next has nothing before it."""
        self._taken[partition] = _NOTHING_TAKEN

    def needs_log(self, batch: Batch, expected: int) -> bool:
        """Whether only the log can tell if a batch that brings `expected` goes on with it."""
        partition = batch.partition
        if expected == 0 or partition in self._taken or partition in self._stored:
            return False
        run = run_of(batch.content)
        return run is not None and (run.first > 0 or batch.sequence < expected)

    def goes_on(self, batch: Batch) -> bool:
        """Whether the next batch, in order, is of the producer that the last one was of."""
        partition = batch.partition
        taken = self._taken.get(partition)
        behind = self._stored.get(partition) if taken is None else taken[1]
        if not follows(behind, batch):
            return False
        self._taken[partition] = batch.end, run_behind(batch)
        return True

    def compare(self, batch: Batch, waiting: Iterable[Batch], durable: int) -> list[Effect]:
        """A publisher has sent again what is here. Is it the same?

        A producer publishes a record once, a mirror whenever it begins anew, so this is rare.

        Args:
            batch: What was sent.
            waiting: What is taken and not durable yet, of any partition.
            durable: Last sequence of the partition on disk; that has to be read.
        """
        held = [one for one in waiting if one.partition == batch.partition]
        differs = self.differs(batch, held)
        return differs or ([Compare(batch)] if batch.sequence <= durable else [])

    def differs(self, batch: Batch, held: Sequence[Batch]) -> list[Effect]:
        """What to do if `batch` does not agree with what is here; nothing if it does."""
        try:
            return [] if agree(held, batch) else self.found(batch)
        except RecordError as error:
            return [Dropped(error.reason)]

    def found(self, batch: Batch) -> list[Effect]:
        """It is not the same."""
        if batch.partition in self._partitions:
            return []
        self._partitions.add(batch.partition)
        return [Disputed(batch.partition, batch.sequence)]
