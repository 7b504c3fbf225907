"""Links' offsets over logs in memory: every cluster one log, every request answered at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.groups.commit import TOPIC, decode, encode
from dafka.groups.commit_table import commit_of, commits_of, fold, groups_of
from dafka.model import Batch, Partition
from dafka.query.messages import FindRequest, FindResponse, decode_answer
from dafka.query.messages import encode as encoded
from dafka.query.service import answer
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.memory import MemoryLog
from dafka.wire.primitives import octets_of
from distributor.offsets.events import PassedOver
from distributor.offsets.machine import OffsetsMachine
from distributor.offsets.reading import Follower
from distributor.offsets.rounds import turn
from topology.model import ClusterName
from topology.plan import plan as plan_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dafka.groups.commit import Commit, CommitKey
    from dafka.storage.log import RecordLog
    from distributor.offsets.translation import SkipReason
    from topology.model import OffsetSettings, Topology
    from topology.plan import Link

ROWS_MAX = 100_000
"""More than any test has."""


def batch_of(
    partition: Partition,
    sequence: int,
    records: Sequence[tuple[int, bytes | None, bytes | None]],
) -> Batch:
    """A batch of records: timestamp, key, value."""
    builder = BatchBuilder(1 << 20)
    for timestamp_ms, key, value in records:
        assert builder.append(timestamp_ms, key, value, ())
    return Batch(partition, sequence, len(records), enclosed(builder.build(), sequence))


class LogView:
    """A store's query port, without the wire."""

    def __init__(self, log: RecordLog) -> None:
        self._log = log

    def groups(self) -> list[str]:
        """As a client asks for it."""
        return groups_of(self._log, ROWS_MAX)

    def offsets(self, group: str) -> dict[Partition, Commit]:
        """As a client asks for it."""
        found = [decode(*record) for record in commits_of(self._log, group, ROWS_MAX)]
        return {key.partition: commit for key, commit in found}

    def ranges(self, topic: str | None = None) -> dict[Partition, range]:
        """As a client asks for it."""
        return {
            partition: range(one.start, one.head + 1)
            for partition, one in self._log.extents().items()
            if topic in (None, partition.topic)
        }

    def find(self, partition: Partition, timestamp_ms: int) -> int | None:
        """As a client asks for it."""
        question = FindRequest(
            octets_of(partition.topic), octets_of(partition.address), timestamp_ms
        )
        found = decode_answer(answer(encoded(question), self._log))
        assert isinstance(found, FindResponse)
        return found.sequence

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        """As a client asks for it."""
        return self._log.read(partition, sequence, count_max, bytes_max)


class LogCluster:
    """A cluster that is one log: records and commits are there at once."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.log: RecordLog = MemoryLog(f"STORE-{name}")
        self.view = LogView(self.log)
        self.live: set[str] = set()
        """Groups that have members here."""
        self.arrivals: list[tuple[CommitKey, Commit]] = []
        """Commits that were written here, in order, by whoever."""

    def publish(
        self, partition: Partition, records: Sequence[tuple[int, bytes | None, bytes | None]]
    ) -> None:
        """Append records: timestamp, key, value."""
        sequence = self.log.heads().get(partition, -1) + 1
        self.log.append([batch_of(partition, sequence, records)])

    def commit(self, key: CommitKey, commit: Commit, writer: str = "") -> None:
        """Append a commit."""
        partition = Partition(TOPIC, writer or f"WRITER-{self.name}")
        sequence = self.log.heads().get(partition, -1) + 1
        batch = batch_of(partition, sequence, [(commit.commit_ms, *encode(key, commit))])
        self.log.append([batch], entries=fold(self.log, [batch]).entries)
        self.arrivals.append((key, commit))

    def holds(self, key: CommitKey) -> Commit | None:
        """The commit that holds for a key."""
        return commit_of(self.log, key)


class LogEnds:
    """Both ends of a link: everything is answered and done at once."""

    def __init__(self, link: Link, source: LogCluster, target: LogCluster) -> None:
        self._writer = f"LINK-{link.source}-{link.level}"
        self._target = target
        self.source = source.view
        self.target = target.view

    def live(self, groups: frozenset[str]) -> frozenset[str]:
        """As the cluster was told."""
        return groups & self._target.live

    def write(self, commits: Sequence[tuple[CommitKey, Commit]]) -> None:
        """Append them to the target's log."""
        for key, commit in commits:
            self._target.commit(key, commit, self._writer)


@dataclass
class LogLink:
    """The offsets of one link between two such clusters."""

    link: Link
    source: LogCluster
    target: LogCluster
    machine: OffsetsMachine
    follower: Follower = field(default_factory=Follower)
    passed: dict[SkipReason, int] = field(default_factory=dict)
    brought: int = 0

    def turn(self, now_ms: int = 0) -> None:
        """Read what is new at the source, and bring it to the target."""
        ends = LogEnds(self.link, self.source, self.target)
        for effect in turn(self.machine, self.follower, ends, now_ms):
            if isinstance(effect, PassedOver):
                self.passed[effect.reason] = self.passed.get(effect.reason, 0) + effect.count
            else:
                self.brought += effect.count
        self.machine.check()


class LogWorld:
    """A topology of such clusters.

    Args:
        topology: Clusters and links.
        offsets: How to translate.
    """

    def __init__(self, topology: Topology, offsets: OffsetSettings) -> None:
        self.clusters = {
            cluster.name: LogCluster(cluster.name, cluster.id) for cluster in topology.clusters
        }
        self.offsets = offsets
        self.wants = topology.topics.wants
        self.links = [self.link(link, link.target) for link in plan_of(topology).links]

    def link(self, link: Link, target: str) -> LogLink:
        """The offsets of a link as they begin, towards one of its targets."""
        source, aim = self.clusters[link.source], self.clusters[ClusterName(target)]
        machine = OffsetsMachine(
            level=link.level,
            source=source.number,
            target=aim.number,
            offsets=self.offsets,
            wants=self.wants,
        )
        return LogLink(link, source, aim, machine)

    def publish(
        self, partition: Partition, records: Sequence[tuple[int, bytes | None, bytes | None]]
    ) -> None:
        """Append records at every cluster, as their links would."""
        for cluster in self.clusters.values():
            cluster.publish(partition, records)

    def settle(self, turns_max: int = 50) -> None:
        """Let every link bring what it has, until nothing moves."""
        for _ in range(turns_max):
            before = sum(len(cluster.arrivals) for cluster in self.clusters.values())
            for link in self.links:
                link.turn()
            if before == sum(len(cluster.arrivals) for cluster in self.clusters.values()):
                return
        raise AssertionError("positions do not come to rest")
