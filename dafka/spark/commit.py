"""The commit of a run, on the driver: what its tasks have staged is agreed on, and published.

Which rows are the run's, and where they are published, is the manifest: the stores agree on one for
each run (`dafka.groups.runs`). All that is done afterwards follows from it alone, so it does not
matter who does it, how often, and whether somebody else does it at the same time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid5

from dafka.errors import DafkaError
from dafka.groups.runs import (
    SESSION_MS,
    STAGED,
    Manifest,
    RunPart,
    digest_of,
    enrolled,
    group_of,
    manifest_in,
)
from dafka.model import Partition, address_of
from dafka.query.agreement import Register
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.spark.planning import DataLossError, Range, RangeReader
from dafka.spark.rows import ahead
from dafka.spark.staging import mirror_of, unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

    from dafka.cluster import Cluster
    from dafka.groups.membership import Membership
    from dafka.groups.runs import StagedRows
    from dafka.model import Batch
    from dafka.spark.options import SinkOptions

    Ranges = Mapping[Partition, range]

_NAMESPACE = UUID("6f1b6b4e-6d0c-5b6e-9d0e-3a6c1f0f7d5a")
"""Drawn once; makes our names differ from everybody else's."""


class RepeatedError(DafkaError):
    """A run that is repeated comes too late, is another one, or cannot be ended any more."""


class RunName(NamedTuple):
    """Which run it is.

    Attributes:
        key: Of its query or job.
        number: Among those of the key.
        shared: Whether anybody else may know the key, and so write the same run.
        exact: Whether a repetition has to have the same rows.
    """

    key: str
    number: int
    shared: bool = True
    exact: bool = False


def address_for(cluster: Cluster, key: str, task: int) -> str:
    """The address under which a task's rows are published, whoever does it and how often."""
    return cluster.own_address(address_of(uuid5(_NAMESPACE, f"{key}/{task}")))


class RunCommit:
    """Commits one run.

    Args:
        options: Of the sink.
        run: Which.
        segments: What its tasks have staged.
    """

    def __init__(self, options: SinkOptions, run: RunName, segments: Iterable[StagedRows]) -> None:
        self._options = options
        self._run = run
        self._cluster = options.cluster.open()
        self._segments = sorted(segments)

    def commit(self) -> Manifest:
        """Agree on the run, and publish it; returns what it is.

        Raises:
            RepeatedError: A later run was committed, this one has other rows than before, or some
                of what was agreed on are lost.
            MisuseError: It has too many tasks and topics.
            NotStoredError: Not enough stores acknowledge.
            QueryError: Not enough stores answer.
        """
        # It finds the stores while these agree.
        mirror_of(self._options)
        if self._run.shared:
            return self._agree()
        # Nobody else knows the key, so nothing was ever written under it.
        manifest = self._manifest({})
        self._publish(manifest.parts)
        return manifest

    def _agree(self) -> Manifest:
        mine: Manifest | None = None
        with Register(self._cluster, group_of(self._run.key), SESSION_MS) as register:
            found = manifest_in(register.read())
            while found is None or found.run < self._run.number:
                if found is not None:
                    # Where it ends this one begins.
                    self._publish(self._lacking(found))
                mine = self._manifest(self._ends())
                found = manifest_in(register.change(self._offer(found, mine)))
        self._check(found)
        self._publish(found.parts if found == mine else self._lacking(found))
        return found

    def _offer(self, before: Manifest | None, mine: Manifest) -> Callable[[Membership], Membership]:
        def offer(there: Membership) -> Membership:
            # If somebody came between, what was made of what was there is void.
            if manifest_in(there) != before:
                return there
            return enrolled(mine, len(self._cluster.stores))

        return offer

    def _check(self, found: Manifest) -> None:
        key, number, _, exact = self._run
        if found.run > number:
            raise RepeatedError(
                f"run {number} of {key} is not committed: run {found.run} has been, by a driver "
                "that was started later; of what this one wrote nothing is published"
            )
        rows, digest = sum(one.records for one in self._segments), digest_of(self._segments)
        if exact and (found.records, found.digest) != (rows, digest):
            raise RepeatedError(
                f"{key} was committed before, with {found.records} rows that are not these "
                f"{rows}; nothing of these is published. Give another job another runId; if it is "
                "the same, it does not give the same rows twice (rand(), uuid(), a limit without "
                "an order?)"
            )

    def _manifest(self, ends: Mapping[Partition, int]) -> Manifest:
        parts = []
        for segment in self._segments:
            partition = self._partition(segment)
            first = ends.get(partition, 0)
            staged = segment.address, segment.start, segment.batches
            parts.append(RunPart(partition, first, segment.records, *staged))
        return Manifest(self._run.number, digest_of(self._segments), tuple(parts))

    def _partition(self, segment: StagedRows) -> Partition:
        address = address_for(self._cluster, self._run.key, segment.task)
        return Partition(segment.topic, address)

    def _ends(self) -> dict[Partition, int]:
        """Where the run's partitions end.

        What was published is in `min_acks` stores, so one of these has all of it. By name: what
        retention has emptied may be forgotten, and still must not begin anew.
        """
        named = [self._partition(segment) for segment in self._segments]
        if not named:
            return {}
        enough = len(self._cluster.stores) - self._options.min_acks + 1
        told = self._told(named, enough)
        return {one: max(ranges.get(one, range(0)).stop for ranges in told) for one in named}

    def _told(self, named: Sequence[Partition], enough: int) -> Collection[Ranges]:
        """What stores say of partitions; asked with more patience if fewer than enough answer.

        Raises:
            QueryError: Fewer do all the same.
        """
        with ClusterClient(self._cluster, LOOK_TIMEOUT_MS) as stores:
            answers = stores.all(lambda store: store.ranges_of(named))
        # Who does not answer is the last to be asked for what is staged, too.
        self._cluster = replace(self._cluster, stores=(*answers.given, *answers.failures))
        if len(answers.given) >= enough:
            return answers.given.values()
        with ClusterClient(self._cluster) as stores:
            return stores.some(lambda store: store.ranges_of(named), enough)

    def _lacking(self, manifest: Manifest) -> list[RunPart]:
        """The parts that are not known to be published."""
        named = [part.partition for part in manifest.parts]
        if not named:
            return []
        told = self._told(named, 1)
        return [
            part
            for part in manifest.parts
            if sum(ranges.get(part.partition, range(0)).stop >= part.end for ranges in told)
            < self._options.min_acks
        ]

    def _publish(self, parts: Sequence[RunPart]) -> None:
        """Publish what is staged; returns when stores have all of it."""
        if not parts:
            return
        partitions = [part.partition for part in parts]
        mirror = mirror_of(self._options)
        # A mirror that wrote here before a failure would go on behind what it wrote then.
        mirror.forget(partitions)
        try:
            for batch in ahead(self._staged(parts)):
                mirror.publish(batch, self._options.silence_s)
            mirror.flush(self._options.silence_s)
        except DataLossError as error:
            raise RepeatedError(
                f"run {self._run.number} of {self._run.key} cannot be ended: not all of it, or of "
                "the run before, is published, and what was staged of that is kept no more: "
                f"{error}. Begin with a new checkpoint or runId"
            ) from error
        finally:
            mirror.forget(partitions)

    def _staged(self, parts: Iterable[RunPart]) -> Generator[Batch, None, None]:
        with RangeReader(self._cluster) as stores:
            for part in parts:
                end = part.start + part.batches
                pages = stores.pages(Range(Partition(STAGED, part.staged), part.start, end))
                yield from unwrapped(part, (batch for page in pages for batch in page))
