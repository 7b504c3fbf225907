"""Whether what stores have is what was published to them.

A store acknowledges how far a partition reaches, not what is in it. While two attempts of one task
write at the same time (an executor that was given up and lives), each takes the other's
acknowledgements for its own. So a task that is done asks the stores for digests of what they have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import DafkaError, QueryError
from dafka.limits import DIGEST_BYTES_MAX
from dafka.query.client import StoreClient
from dafka.records.digest import digest_of_batches
from dafka.spark.stores import ANSWER_TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.model import Batch, Partition

_PORTION_BYTES = DIGEST_BYTES_MAX // 2
"""What is compared at once; a store digests twice as much."""


class OverlappedError(DafkaError):
    """Another attempt of the same task wrote other records under the same names."""

    retriable = True


class Portion(NamedTuple):
    """Some batches that follow each other.

    Attributes:
        start: Sequence of the first record.
        end: The sequence after the last one.
        digest: Of the batches as they stand.
    """

    start: int
    end: int
    digest: bytes


class Published:
    """What a task has published of one partition; kept as digests.

    Args:
        partition: Which.
    """

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._portions: list[Portion] = []
        self._batches: list[Batch] = []
        self._size = 0

    def add(self, batch: Batch) -> None:
        """Note a batch that follows the one before."""
        if self._size + len(batch.content) > _PORTION_BYTES:
            self._close()
        self._batches.append(batch)
        self._size += len(batch.content)

    def compare(self, servers: Sequence[str]) -> int:
        """Ask stores for what they have instead; returns how many have exactly all of this.

        Raises:
            OverlappedError: A store has other records.
            QueryError: A store does not answer.
        """
        self._close()
        return sum(self._is_in(server) for server in servers)

    def check(self, servers: Sequence[str], min_acks: int) -> None:
        """Make sure that so many stores have exactly this.

        Raises:
            OverlappedError: A store has other records.
            QueryError: Fewer of them say so.
        """
        confirmed, failure = 0, None
        for server in servers:
            try:
                confirmed += self.compare([server])
            except QueryError as error:
                failure = error
        if confirmed < min_acks:
            raise QueryError(
                f"only {confirmed} of {len(servers)} stores say that they have what was written "
                f"to {self._partition}; {min_acks} are needed"
            ) from failure

    def _close(self) -> None:
        if self._batches:
            digest = digest_of_batches(self._batches)
            start, end = self._batches[0].sequence, self._batches[-1].end
            self._portions.append(Portion(start, end, digest))
        self._batches, self._size = [], 0

    def _is_in(self, server: str) -> bool:
        with StoreClient(server, ANSWER_TIMEOUT_MS) as client:
            for start, end, digest in self._portions:
                found = client.digest(self._partition, start, end, exact=False)
                if found.start > start or found.end < end:
                    return False  # it has not come so far, or keeps it no more
                if (found.start, found.end, found.digest) != (start, end, digest):
                    topic, address = self._partition
                    raise OverlappedError(
                        f"the store at {server} has other records from sequence {start} to "
                        f"{end - 1} of partition {address} of topic {topic!r} than this attempt "
                        "wrote: another attempt of the same task has written there meanwhile"
                    )
        return True
