"""`distributor verify --repair`: bring what clusters lack from clusters that have it.

Records are written under the names they have, with every copy flag set: nobody copies them on, as
whoever else lacks them is repaired in the same way (as a link does with what it pulls). A store
takes a partition only in order and ignores what it has, so a repair that runs beside the links, or
twice, does no harm. What is there is never overwritten. A partition whose history differs between
clusters is left alone: nobody can tell which history to go on with.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import NotStoredError, QueryError, RecordError
from dafka.model import Partition, replace
from dafka.node.mirror import Mirror
from dafka.query.cluster_client import ClusterClient
from dafka.records.batch import checked_count, cut
from dafka.records.envelope import FRESH, Envelope, stamped, unpack
from distributor.survey import survey
from distributor.verify.verdict import DifferenceKind
from topology.copyflags import EVERY_FLAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dafka.model import Batch
    from distributor.survey import Holding
    from distributor.verify.verdict import Difference
    from topology.model import Topology

SILENCE_S = 20.0
"""How long the stores of a cluster may acknowledge nothing; they find a new node within seconds."""

READ_TIMEOUT_MS = 10_000
"""How long a store may take for one page."""


@dataclass(slots=True)
class Repair:
    """What a repair did.

    Attributes:
        records: How many it has brought.
        partitions: Those it has brought some of.
        left: What it has left alone, as sentences.
    """

    records: int = 0
    partitions: set[Partition] = field(default_factory=set)
    left: list[str] = field(default_factory=list)


def repairable(found: Sequence[Difference]) -> tuple[list[Difference], list[str]]:
    """Return what may be repaired, and why the rest may not."""
    disputed = {one.partition for one in found if one.kind is DifferenceKind.DIFFERS}
    holes = {(one.partition, one.cluster) for one in found if one.kind is DifferenceKind.GONE}
    chosen, left = [], []
    for one in found:
        if one.kind is not DifferenceKind.BEHIND:
            continue
        if one.within:
            left.append(f"{one}; left to the stores of {one.within}, which repair that themselves")
            continue
        if one.partition in disputed:
            left.append(f"{one}; left alone, as the partition's history differs between clusters")
        elif (one.partition, one.cluster) in holes:
            left.append(f"{one}; left alone, as nobody keeps what stands before it")
        elif one.moving:
            left.append(f"{one}; left to its link")
        elif one.others:
            chosen.append(one)
    return chosen, left


def repair(
    topology: Topology,
    found: Sequence[Difference],
    *,
    host: str = "",
    progress: Callable[[int, int], None] | None = None,
    silence_s: float = SILENCE_S,
) -> Repair:
    """Bring what is missing, cluster by cluster.

    Args:
        topology: Whose clusters.
        found: What a deep comparison has found: what differs must be known.
        host: Interface of this machine at which the clusters' stores can reach it; by default that
            of each cluster, which is this machine's if it is run there.
        progress: Called with records brought and records to bring.
        silence_s: How long the stores of a cluster may acknowledge nothing.

    Raises:
        MisuseError: The interface is none of this machine's.
    """
    chosen, left = repairable(found)
    done = Repair(left=left)
    total = sum(difference.records for difference in chosen)
    holdings = {holding.cluster: holding for holding in survey(topology)}
    for name in dict.fromkeys(difference.cluster for difference in chosen):
        target = topology.cluster(name)
        place = Cluster.declared(target)
        if host:
            place = place.bound_at(host)
        with closing(Mirror(place.checked_mirroring())) as mirror:
            for difference in chosen:
                if difference.cluster != name:
                    continue
                try:
                    brought = _fill(topology, difference, holdings, mirror, silence_s)
                except (QueryError, NotStoredError) as error:
                    mirror.forget([difference.partition])
                    done.left.append(f"{difference}; not repaired: {error}")
                    continue
                done.records += brought
                done.partitions.add(difference.partition)
                if progress is not None:
                    progress(done.records, total)
    return done


def _fill(
    topology: Topology,
    difference: Difference,
    holdings: Mapping[str, Holding],
    mirror: Mirror,
    silence_s: float,
) -> int:
    """Bring one range; returns how many records that was.

    Raises:
        QueryError: Nobody who has them answers, or can read them.
        NotStoredError: No store takes them.
    """
    partition = difference.partition
    held = holdings[difference.cluster]
    end = held.heads.get(partition, -1) + 1
    if end < difference.first:
        # The comparison has seen that it keeps nothing; else it would be left alone.
        mirror.begins(partition, difference.first)
    start = max(end, difference.first)
    for batch in _batches(topology, difference, holdings, start):
        mirror.publish(batch, silence_s)
    mirror.flush(silence_s)
    return max(0, difference.last + 1 - start)


def _batches(
    topology: Topology, difference: Difference, holdings: Mapping[str, Holding], start: int
) -> Iterator[Batch]:
    """What is missing from `start` on, from whoever has it, as it shall stand in the target."""
    partition, end = difference.partition, difference.last + 1
    failure = f"nobody keeps {start:,} any more"
    for name in difference.others:
        holding = holdings[name]
        if holding.store is None or holding.starts.get(partition, start + 1) > start:
            continue
        origin = topology.cluster(name).id
        try:
            with ClusterClient(Cluster.declared(topology.cluster(name)), READ_TIMEOUT_MS) as stores:
                for batch in stores.store(holding.store).scan(partition, start, end):
                    if batch.sequence > start:
                        failure = f"{name} does not have {start:,} either"
                        break
                    piece = cut(_checked(batch), start, end)
                    yield _copied(piece, origin)
                    start = piece.end
        except (QueryError, RecordError) as error:
            failure = f"{name}: {error}"
        if start >= end:
            return
    if start < end:
        raise QueryError(failure)


def _checked(batch: Batch) -> Batch:
    """No store would take a damaged batch, and nobody would say why.

    Raises:
        RecordError: It is one.
    """
    if checked_count(batch.content, batch.sequence) != batch.count:
        raise RecordError("batch count")
    return batch


def _copied(batch: Batch, origin: int) -> Batch:
    """The batch as a repair leaves it: its origin known, not to be copied on."""
    envelope = unpack(batch.content) or FRESH
    envelope = Envelope(envelope.origin or origin, EVERY_FLAG, envelope.epoch)
    return replace(batch, content=stamped(batch.content, envelope))
