"""What is waited for before a cluster or its topics go, and after one has come: the looks at them.

Once links serve others than a cluster that goes, a copy that comes to it is where it comes
from, and goes to all others from there. Only what is published on it has to be elsewhere before.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.query.cluster_client import ClusterClient
from dafka.records.envelope import FRESH, unpack
from distributor.operations.arrival import lacks
from distributor.survey import furthest, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.model import Partition
    from distributor.survey import Holding
    from topology.diff import Step
    from topology.model import ClusterSpec, Topology

QUIET_S = 3.0
"""How long no producer may publish on a cluster to be taken for silent."""

READ_MAX = 100
"""Partitions of which a look reads who published the last record."""


class Draining:
    """The looks at clusters for the steps of one change.

    Args:
        seconds: Says how long no producer has published.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._due: dict[Step, dict[Partition, int]] = {}
        self._copied: dict[Step, dict[Partition, int]] = {}
        """The sequence at which a partition was found to be published elsewhere: that is not looked
        at again while it is the last. Of more than `READ_MAX` those come first that never were."""
        self._quiet: tuple[dict[Partition, int], float] | None = None

    def silence(self, topology: Topology, step: Step) -> str:
        """What is waited for until no producer publishes on a cluster; empty if none does."""
        holding = _one(survey(topology), step.cluster)
        if holding.store is None:
            return f"{step.cluster} to answer"
        heads = _about(step, holding)
        before, since_s = self._quiet or (heads, self._seconds())
        moved = [one for one, head in heads.items() if before.get(one) != head]
        looked_at = {one: heads[one] for one in moved[:READ_MAX]}
        try:
            copies = _copies(topology.cluster(step.cluster), holding.store, looked_at)
        except QueryError as error:
            return f"{step.cluster} to answer: {error}"
        published = next((one for one, is_copy in copies.items() if is_copy is False), None)
        self._quiet = (heads, self._seconds() if published else since_s)
        if published:
            return f"the producer {published.address[:8]} of {published.topic!r} to be stopped"
        if self._seconds() - self._quiet[1] < QUIET_S:
            return f"{QUIET_S:g} s of silence"
        self._quiet = None
        return ""

    def drain(self, topology: Topology, step: Step) -> str:
        """The same until the others have what a cluster has.

        Also what is published there until this is answered. Copies that have come meanwhile are not
        waited for where the cluster goes, as links serve others by then: while records flow, some
        are always on their way. Where only topics go links still serve it, and it passes them on.
        """
        holdings = survey(topology)
        holding = _one(holdings, step.cluster)
        if holding.store is None:
            return f"{step.cluster} to answer"
        heads = _about(step, holding)
        due = self._due.setdefault(step, heads)
        if lacking := lacks(topology, due, holdings):
            return lacking
        later = {one: head for one, head in heads.items() if due.get(one) != head}
        lacking = lacks(topology, later, holdings)
        if step.topics or not lacking:
            return lacking
        copied = self._copied.setdefault(step, {})
        moved = [one for one, head in later.items() if copied.get(one) != head]
        moved.sort(key=copied.__contains__)
        read = {one: later[one] for one in moved[:READ_MAX]}
        try:
            copies = _copies(topology.cluster(step.cluster), holding.store, read)
        except QueryError as error:
            return f"{step.cluster} to answer: {error}"
        if not all(copies.values()):
            self._due[step] = heads
            return lacking
        copied.update(read)
        return "" if copied.keys() >= later.keys() else lacking

    def fill(self, topology: Topology, step: Step) -> str:
        """The same until a cluster has what all had when this was asked first."""
        holdings = survey(topology)
        if step not in self._due:
            silent = [one.cluster for one in holdings if one.store is None]
            if silent:
                return f"{', '.join(silent)} to answer"
            self._due[step] = furthest(_about(step, holding) for holding in holdings)
        return lacks(topology, self._due[step], [_one(holdings, step.cluster)])


def _one(holdings: list[Holding], cluster: str) -> Holding:
    (found,) = [one for one in holdings if one.cluster == cluster]
    return found


def _about(step: Step, holding: Holding) -> dict[Partition, int]:
    return {
        one: head
        for one, head in holding.heads.items()
        if not step.topics or fnmatchcase(one.topic, step.topics)
    }


def _copies(
    spec: ClusterSpec, store: str, heads: Mapping[Partition, int]
) -> dict[Partition, bool | None]:
    """Whether a link has brought the last record of each partition; None if that has gone since.

    Raises:
        QueryError: The store does not answer.
    """
    found: dict[Partition, bool | None] = {}
    with ClusterClient(Cluster.declared(spec)) as stores:
        for partition, head in heads.items():
            batch = next(iter(stores.store(store).scan(partition, head, head + 1)), None)
            envelope = None if batch is None else unpack(batch.content) or FRESH
            found[partition] = None if envelope is None else envelope.copy_flags != 0
    return found
