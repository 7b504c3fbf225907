"""Links' offsets over logs in memory: every cluster one log, every request answered at once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dafka.groups.commit import TOPIC, decode, encode
from dafka.groups.commit_table import commit_of, commits_of, fold, groups_of
from dafka.groups.link_sync import LinkStanding, LinkSync
from dafka.model import Batch, Partition
from dafka.query.messages import FindRequest, FindResponse, decode_answer
from dafka.query.messages import encode as encoded
from dafka.query.service import answer
from dafka.records.batch import BatchBuilder, enclosed
from dafka.storage.log import extent_of
from dafka.storage.memory import MemoryLog
from dafka.wire.primitives import octets_of
from distributor.offsets.distributor import OffsetsDistributor
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


class LogCluster:
    """A cluster that is one log: records and commits are there at once, everything is answered."""

    def __init__(self, name: str, number: int) -> None:
        self.number = number
        self.log: RecordLog = MemoryLog(f"STORE-{name}")
        self.now_ms = 0
        self.link_sync = LinkSync(self.log, 0)
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

    def commit(self, key: CommitKey, commit: Commit, writer: str = "APPLICATION") -> None:
        """Append a commit."""
        partition = Partition(TOPIC, writer)
        sequence = self.log.heads().get(partition, -1) + 1
        batch = batch_of(partition, sequence, [(commit.commit_ms, *encode(key, commit))])
        self.log.append([batch], entries=fold(self.log, [batch]).entries)
        self.arrivals.append((key, commit))

    def holds(self, key: CommitKey) -> Commit | None:
        """The commit that holds for a key."""
        return commit_of(self.log, key)

    def groups(self) -> list[str]:
        """As a link asks for it."""
        return groups_of(self.log, ROWS_MAX)

    def offsets(self, group: str) -> dict[Partition, Commit]:
        """As a link asks for it."""
        found = [decode(*record) for record in commits_of(self.log, group, ROWS_MAX)]
        return {key.partition: commit for key, commit in found}

    def is_live(self, group: str) -> bool:
        """As a link asks for it."""
        return group in self.live

    def ranges(self, topic: str) -> dict[Partition, range]:
        """As a link asks for it."""
        return {
            partition: range(one.start, one.head + 1)
            for partition, one in self.log.extents().items()
            if partition.topic == topic
        }

    def end(self, partition: Partition) -> int:
        """As a link asks for it."""
        extent = extent_of(self.log, partition)
        return 0 if extent is None else extent.head + 1

    def find(self, partition: Partition, timestamp_ms: int) -> int | None:
        """As a link asks for it."""
        question = FindRequest(
            octets_of(partition.topic), octets_of(partition.address), timestamp_ms
        )
        found = decode_answer(answer(encoded(question), self.log))
        assert isinstance(found, FindResponse)
        return found.sequence

    def read(
        self, partition: Partition, sequence: int, count_max: int, bytes_max: int
    ) -> list[Batch]:
        """As a link asks for it."""
        return self.log.read(partition, sequence, count_max, bytes_max)

    def write(self, commits: Sequence[tuple[CommitKey, Commit]]) -> None:
        """As a link does."""
        for key, commit in commits:
            self.commit(key, commit, writer="LINK")

    def tell_link(self, link: str, *, in_sync: bool) -> LinkStanding:
        """As a link does."""
        return self.link_sync.told(link, self.now_ms, in_sync=in_sync)

    def restart(self, now_ms: int) -> None:
        """Its store is started again."""
        self.now_ms = now_ms
        self.link_sync = LinkSync(self.log, now_ms)

    def turn_away(self) -> None:
        """There is no other store."""


class LogLink:
    """The offsets of one link between two such clusters, and what has come of them."""

    def __init__(self, distributor: OffsetsDistributor) -> None:
        self.distributor = distributor
        self.brought = 0
        self.skipped: Counter[SkipReason] = Counter()

    def round(self, now_ms: int = 0) -> None:
        """Read what is new at the source, and bring it to the target."""
        done = self.distributor.round(now_ms)
        assert not done.error
        self.brought += done.brought
        self.skipped += done.skipped
        self.distributor.check()


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
        self.links = [self.link(link) for link in plan_of(topology).links]

    def link(self, link: Link) -> LogLink:
        """The offsets of a link as they begin."""
        distributor = OffsetsDistributor(
            level=link.level,
            source=self.clusters[link.source],
            target=self.clusters[link.target],
            offsets=self.offsets,
            wants=self.wants,
        )
        return LogLink(distributor)

    def publish(
        self, partition: Partition, records: Sequence[tuple[int, bytes | None, bytes | None]]
    ) -> None:
        """Append records at every cluster, as their links would."""
        for cluster in self.clusters.values():
            cluster.publish(partition, records)

    def settle(self, rounds_max: int = 50) -> None:
        """Let every link bring what it has, until nothing moves."""
        for _ in range(rounds_max):
            before = sum(len(cluster.arrivals) for cluster in self.clusters.values())
            for link in self.links:
                link.round()
            if before == sum(len(cluster.arrivals) for cluster in self.clusters.values()):
                return
        raise AssertionError("positions do not come to rest")
