"""What a Kafka group has processed, put together from what its members were given, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributor.demo.job import ReadProof

if TYPE_CHECKING:
    from collections.abc import Mapping

Place = tuple[str, int]
"""Topic, and number of the partition."""


class CommittedReading:
    """Rows by partition, in the order in which the group has processed them.

    Where a group goes back to what it has committed, what it read from there on counts no more: it
    is read again.

    Attributes:
        rows: How many rows it has now.
        twice: Records that came again, as they were not committed.
        again: Records that came again though their commit was acknowledged: there must be none.
    """

    def __init__(self) -> None:
        self._read: dict[Place, list[tuple[int, int]]] = {}
        self._committed: dict[Place, int] = {}
        self.rows = 0
        self.twice = 0
        self.again = 0

    def take(self, place: Place, offset: int, row: int) -> None:
        """Note a record as it came.

        Args:
            place: Its partition.
            offset: Its offset there.
            row: Its number among all that were sent.
        """
        read = self._read.setdefault(place, [])
        while read and read[-1][0] >= offset:
            read.pop()
            self.rows -= 1
            self.twice += 1
        self.again += offset < self._committed.get(place, 0)
        read.append((offset, row))
        self.rows += 1

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Note what was acknowledged: where the group goes on."""
        self._committed.update(offsets)

    def proof(self, cluster: str, rows: int) -> ReadProof:
        """Look for every one of so many rows: each once, in each partition in the order sent."""
        proof = ReadProof(cluster, found=self.rows, duplicated=self.again)
        seen = bytearray(rows)
        for read in self._read.values():
            last = -1
            for _, row in read:
                proof.duplicated += seen[row]
                proof.disordered += row <= last
                seen[row] = 1
                last = row
        proof.lost = rows - sum(seen)
        return proof
