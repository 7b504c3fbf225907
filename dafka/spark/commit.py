"""The commit of a run, on the driver: what its tasks have staged is agreed on, and published.

Which rows are the run's is the manifest: the stores agree on one for each run of a key
(`dafka.groups.runs`). Where they are published, and in which order with other runs, the register of
each topic says (`dafka.spark.placing`). All that is done afterwards follows from these alone, so it
does not matter who does it, how often, and whether somebody else does it at the same time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from dafka.errors import QueryError
from dafka.groups.runs import Manifest, TopicSink
from dafka.query.agreement import PATIENCE_MS
from dafka.query.client import SIGN_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.spark.placing import Placing, RepeatedError
from dafka.spark.publication import CommitPorts, Publisher
from dafka.spark.staging import mirror_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dafka.groups.runs import StagedRows
    from dafka.spark.options import SinkOptions

log = logging.getLogger(__name__)

SHORT_PATIENCE_MS = 5_000
"""For so long a job that can do without asks stores to agree: longer than one that has just begun
waits with its first word."""


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


class RunCommit:
    """Commits one run.

    Args:
        options: Of the sink.
        run: Which.
        segments: What its tasks have staged.
        ports: What is around it.
    """

    def __init__(
        self,
        options: SinkOptions,
        run: RunName,
        segments: Iterable[StagedRows],
        ports: CommitPorts | None = None,
    ) -> None:
        self._ports = ports or CommitPorts(mirror_of)
        self._options = options
        self._run = run
        self._mine = Manifest(run.key, run.number, run.shared, tuple(sorted(segments)))

    def commit(self) -> Manifest:
        """Agree on the run, and publish it; returns what it is.

        Raises:
            RepeatedError: A later run was committed, this one has other rows than before, or some
                of what was agreed on are lost.
            MisuseError: It has too many tasks and topics, or other partitions than its topics.
            NotStoredError: Not enough stores acknowledge.
            QueryError: Not enough stores answer.
        """
        # It finds the stores while these agree.
        ports = self._ports
        ports.mirror(self._options)
        patience_ms = PATIENCE_MS if self._run.shared else SHORT_PATIENCE_MS
        cluster = self._options.cluster.open()
        with ClusterClient(cluster, SIGN_TIMEOUT_MS, ports.connect, ports.clock) as stores:
            publisher = Publisher(self._options, cluster, stores, ports)
            placing = Placing(cluster, stores, publisher, ports, patience_ms)
            try:
                for topic, partitions in self._mine.topics.items():
                    placing.claim(topic, partitions)
            except QueryError as error:
                if self._run.shared or placing.stores_agree():
                    raise
                log.warning("a job writes to partitions of its own: %s", error)
                self._publish_apart(publisher)
                return self._mine
            found = self._agreed(placing) if self._run.shared else self._mine
            placing.end(found, mine=True)
            return found

    def _agreed(self, placing: Placing) -> Manifest:
        agreed = placing.agreed(self._mine)
        self._check(agreed.manifest)
        return agreed.manifest

    def _check(self, found: Manifest) -> None:
        key, number, _, exact = self._run
        if found.run > number:
            raise RepeatedError(
                f"run {number} of {key} is not committed: run {found.run} has been, by a driver "
                "that was started later; of what this one wrote nothing is published"
            )
        rows, digest = self._mine.records, self._mine.digest
        if exact and (found.records, found.digest) != (rows, digest):
            raise RepeatedError(
                f"{key} was committed before, with {found.records} rows that are not these "
                f"{rows}; nothing of these is published. Give another job another runId; if it is "
                "the same, it does not give the same rows twice (rand(), uuid(), a limit without "
                "an order?)"
            )

    def _publish_apart(self, publisher: Publisher) -> None:
        """Publish to partitions that nobody else knows: then there is nobody to agree with.

        Nothing of the run was said to any store, so none can bring it about a second time.
        """
        for topic, partitions in self._mine.topics.items():
            alone = TopicSink(0, self._ports.draw(), (0,) * partitions)
            publisher.publish(topic, alone.after(topic, self._mine))
