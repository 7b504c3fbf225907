"""Where a task goes on writing that may be a repetition.

The partition a task writes to is named after the query and the number of the task, and every batch
in it says which run (micro-batch) it belongs to and which record of the run it begins with. So the
log itself tells a repeated task which sequence its first record had, and how many are there.

Whether what stores have is what was published to them.

A store acknowledges how far a partition reaches, not what is in it. While two attempts of one task
write at the same time (an executor that was given up and lives), each takes the other's
acknowledgements for its own. So a task that is done asks the stores for digests of what they have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid5

from dafka.errors import DafkaError, QueryError
from dafka.limits import DIGEST_BYTES_MAX
from dafka.model import Partition, address_of
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import checked_header
from dafka.records.digest import digest_of_batches
from dafka.spark.bounds import TopicSelection
from dafka.spark.planning import Range, RangeReader, patiently

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.cluster import Cluster
    from dafka.model import Batch
    from dafka.query.client import StoreClient


PORTION_BYTES = DIGEST_BYTES_MAX // 2
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


class PublishedDigests:
    """What a task has published of one partition; kept as digests.

    Args:
        partition: Which.
        portion_bytes: What is compared at once.
    """

    def __init__(self, partition: Partition, portion_bytes: int = PORTION_BYTES) -> None:
        self._partition = partition
        self._portion_bytes = portion_bytes
        self._portions: list[Portion] = []
        self._batches: list[Batch] = []
        self._size = 0

    def add(self, batch: Batch) -> None:
        """Note a batch that follows the one before."""
        if self._size + len(batch.content) > self._portion_bytes:
            self._close()
        self._batches.append(batch)
        self._size += len(batch.content)

    def compare(self, cluster: Cluster) -> int:
        """Ask the stores for what they have instead; returns how many have exactly all of this.

        Raises:
            OverlappedError: A store has other records.
            QueryError: A store does not answer.
        """
        confirmed, failure = self._confirmed(cluster)
        if failure is not None:
            raise failure
        return confirmed

    def check(self, cluster: Cluster, min_acks: int) -> None:
        """Make sure that so many stores have exactly this.

        Raises:
            OverlappedError: A store has other records.
            QueryError: Fewer of them say so.
        """
        confirmed, failure = self._confirmed(cluster)
        if confirmed < min_acks:
            raise QueryError(
                f"only {confirmed} of {len(cluster.stores)} stores say that they have what was "
                f"written to {self._partition}; {min_acks} are needed"
            ) from failure

    def _close(self) -> None:
        if self._batches:
            digest = digest_of_batches(self._batches)
            start, end = self._batches[0].sequence, self._batches[-1].end
            self._portions.append(Portion(start, end, digest))
        self._batches, self._size = [], 0

    def _confirmed(self, cluster: Cluster) -> tuple[int, QueryError | None]:
        """How many stores have exactly this, and why one of the others does not say."""
        self._close()
        with ClusterClient(cluster) as stores:
            answers = stores.all(self._is_in)
        return sum(answers.given.values()), answers.failure

    def _is_in(self, store: StoreClient) -> bool:
        for start, end, digest in self._portions:
            found = store.digest(self._partition, start, end, exact=False)
            if found.start > start or found.end < end:
                return False  # it has not come so far, or keeps it no more
            if (found.start, found.end, found.digest) != (start, end, digest):
                topic, address = self._partition
                raise OverlappedError(
                    f"the store at {store.endpoint} has other records from sequence {start} to "
                    f"{end - 1} of partition {address} of topic {topic!r} than this attempt "
                    "wrote: another attempt of the same task has written there meanwhile"
                )
        return True


BEYOND_MAX = 16
"""Tasks looked for behind those of a run: those of one with more tasks are all there, or nearly."""

_NAMESPACE = UUID("6f1b6b4e-6d0c-5b6e-9d0e-3a6c1f0f7d5a")
"""Drawn once; makes our names differ from everybody else's."""


class RepeatedError(DafkaError):
    """A task that is repeated does not write what it wrote before, or comes too late."""


class ResumePoint(NamedTuple):
    """Where a task stands in one partition.

    Attributes:
        first: Sequence of the run's first record.
        stored: How many of the run's records the cluster has.
        ended: Whether these are all that the task had.
    """

    first: int
    stored: int
    ended: bool = False


def address_for(cluster: Cluster, query: str, task: int) -> str:
    """The address under which a task of a query writes, whoever runs it and how often."""
    return cluster.own_address(address_of(uuid5(_NAMESPACE, f"{query}/{task}")))


def check_tasks(cluster: Cluster, query: str, run: int, tasks: int, topic: str) -> None:
    """Make sure that no task beyond the last one has written to a topic in the same run.

    One would have if the run was begun before with more tasks. What it wrote was then written by
    others again.

    Raises:
        QueryError: No store answers.
        RepeatedError: One has.
    """
    logs = {
        Partition(topic, address_for(cluster, query, task)): task
        for task in range(tasks, tasks + BEYOND_MAX)
    }
    with RangeReader(cluster) as stores:
        found = patiently(stores, lambda stores: _runs(stores, topic, logs))
    for partition, written in found.items():
        if written == run:
            raise RepeatedError(
                f"task {logs[partition]} wrote to {partition} in run {run}, which had only {tasks} "
                "tasks now: it was begun before with another number of tasks (minPartitions, "
                "repartition(), cores), and rows of it are written twice"
            )


def _runs(stores: RangeReader, topic: str, logs: Iterable[Partition]) -> dict[Partition, int]:
    """Which run each of these was written in last, of those of which something is kept."""
    there = stores.there(TopicSelection((topic,)))
    runs = {}
    for partition in logs:
        kept = there.get(partition)
        if kept:
            last = next(stores.pages(Range(partition, kept.stop - 1, kept.stop)))[-1]
            written = checked_header(last.content, last.sequence).run
            if written is not None:
                runs[partition] = written.number
    return runs


def resumed(cluster: Cluster, min_acks: int, partition: Partition, run: int) -> ResumePoint:
    """Ask the stores where a task stands.

    What was acknowledged is in `min_acks` stores, so asking all but `min_acks - 1` of them finds
    it. What retention has taken from all of them meanwhile cannot be recognised: a repetition
    older than that is written anew.

    Raises:
        QueryError: Not enough stores answer.
        RepeatedError: A later run has written there, or retention has taken a part of this one.
    """
    with ClusterClient(cluster) as stores:
        # By name: what retention has emptied may be forgotten, and still must not begin anew.
        answers = stores.all(lambda store: store.ranges_of([partition]).get(partition, range(0)))
        kept, needed = answers.given, len(cluster.stores) - min_acks + 1
        if len(kept) < needed:
            raise QueryError(
                f"only {len(kept)} of {len(cluster.stores)} stores say what they have; "
                f"{needed} are needed to be sure"
            ) from answers.failure
        server, there = max(kept.items(), key=lambda item: (item[1].stop, len(item[1])))
        if not there:
            # Nothing was ever written, or retention has taken it all, and with it whose it was.
            return ResumePoint(there.stop, 0)
        batches = stores.store(server).read(partition, there.stop - 1, 1)
    if not batches:
        raise QueryError(f"the store at {server} has dropped the end of {partition} just now")
    last = batches[-1]
    header = checked_header(last.content, last.sequence)
    written = header.run
    if written is None or written.number > run:
        raise RepeatedError(
            f"run {run} cannot write to {partition} any more: "
            f"{'somebody else' if written is None else f'run {written.number}'} has"
        )
    if written.number < run:
        return ResumePoint(there.stop, 0)
    first = last.sequence - written.first
    start = min(known.start for known in kept.values() if known)
    if first < start:
        raise RepeatedError(
            f"run {run} cannot be repeated: retention has taken {start - first} of the records "
            f"that it wrote to {partition}, so they cannot be told from those that are missing"
        )
    return ResumePoint(first, there.stop - first, header.last)
