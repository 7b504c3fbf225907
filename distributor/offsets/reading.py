"""What is asked of the clusters of a link to bring positions from one to the other."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol

from dafka.errors import RecordError
from dafka.records.batch import newest_ms, raw_records
from distributor.offsets.translation import Absent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dafka.groups.commit import Commit, CommitKey
    from dafka.groups.link_sync import LinkStanding
    from dafka.model import Batch, Partition

_ONE_BATCH = 1

Place = tuple["Partition", int]
"""A place in a log: of a sequence, or of a time in milliseconds."""


class OffsetsCluster(Protocol):
    """A cluster's end of a link. All methods may raise `QueryError`, and may be repeated."""

    number: int
    """Its id."""

    def groups(self) -> list[str]:
        """Return the groups that have ever committed something."""

    def offsets(self, group: str) -> dict[Partition, Commit]:
        """Return what holds of a group's commits."""

    def is_live(self, group: str) -> bool:
        """Whether the group has live members there."""

    def ranges(self, topic: str) -> dict[Partition, range]:
        """Return the sequences that are kept of every partition."""

    def end(self, partition: Partition) -> int:
        """Return where a partition ends, also one that is forgotten; 0 if there never was one."""

    def find(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return the sequence of the first record that is of this time or later."""

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        """Return batches from the one that holds `sequence` on."""

    def write(self, commits: Sequence[tuple[CommitKey, Commit]]) -> None:
        """Commit; durable on return."""

    def tell_link(self, link: str, *, in_sync: bool) -> LinkStanding:
        """Tell the stores whether a link that ends here is in sync.

        Returns:
            How it stands with all that answer: each knows it, each waits for it.
        """

    def turn_away(self) -> None:
        """Ask other stores from now on, if there are any."""


def times(cluster: OffsetsCluster, records: Iterable[Place]) -> dict[Place, int | Absent]:
    """Return the times of records in milliseconds since 1970, or why there is none."""
    end_of = _ends(cluster)

    def time_of(partition: Partition, sequence: int) -> int | Absent:
        batches = cluster.read(partition, sequence, 1, _ONE_BATCH)
        if batches:
            return _time(batches[0], sequence)
        return Absent.GONE if sequence < end_of(partition) else Absent.AHEAD

    return {record: time_of(*record) for record in records}


def _time(batch: Batch, sequence: int) -> int | Absent:
    if newest_ms(batch.content) is None:
        return Absent.TIMELESS
    try:
        for record in raw_records(batch.content):
            if record.sequence == sequence:
                return max(0, record.timestamp_ms)
    except RecordError:
        # Damage is for `verify` to find; one record must not keep all positions back.
        return Absent.TIMELESS
    return Absent.TIMELESS


def places(cluster: OffsetsCluster, asked: Iterable[Place]) -> dict[Place, tuple[int | None, int]]:
    """Return where a cluster has records of these times.

    Returns:
        The sequence of the first record that is of the time or later, None if all are older; and
        then the sequence after the partition's last record, 0 if it is not there at all.
    """
    end_of = _ends(cluster)

    def place_of(partition: Partition, timestamp_ms: int) -> tuple[int | None, int]:
        found = cluster.find(partition, timestamp_ms)
        return found, 0 if found is not None else end_of(partition)

    return {at: place_of(*at) for at in asked}


def _ends(cluster: OffsetsCluster) -> Callable[[Partition], int]:
    """Where partitions end: asked once for each topic, and only if it matters."""
    ranges, end = cache(cluster.ranges), cache(cluster.end)

    def end_of(partition: Partition) -> int:
        kept = ranges(partition.topic).get(partition)
        return end(partition) if kept is None else kept.stop

    return end_of
