"""What is waited for before a cluster or its topics go, and after one has come: the looks at them.

A copy that a cluster has is on the one it came from, which brings it to all others. Only what was
published on a cluster that goes has to be elsewhere before.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.errors import QueryError
from dafka.query.cluster_client import ClusterClient
from distributor.errors import CommandError
from distributor.operations.arrival import lacks
from distributor.survey import furthest, record_at, survey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dafka.model import Partition
    from distributor.survey import Holding
    from topology.diff import Step
    from topology.model import ClusterSpec, Topology

QUIET_S = 3.0
"""How long no producer may publish on a cluster to be taken for silent."""

READ_MAX = 100
"""Partitions that a look reads a record of, to see whether a producer publishes: one is enough."""


class Draining:
    """The looks at clusters for the steps of one change.

    Args:
        seconds: Says how long no producer has published.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._due: dict[Step, dict[Partition, int]] = {}
        self._copied: dict[Step, set[Partition]] = {}
        """Partitions that were found to be published on another cluster than the one that goes."""
        self._quiet: tuple[dict[Partition, int], float] | None = None

    def silence(self, topology: Topology, step: Step) -> str:
        """What is waited for until no producer publishes on a cluster; empty if none does.

        Raises:
            CommandError: A store does not say who publishes.
        """
        holding = _one(survey(topology), step.cluster)
        if holding.store is None:
            return f"{step.cluster} to answer"
        heads = _about(step, holding)
        before, since_s = self._quiet or (heads, self._seconds())
        moved = [one for one, head in heads.items() if before.get(one) != head]
        published = _published(
            topology.cluster(step.cluster),
            holding.store,
            {one: heads[one] for one in moved[:READ_MAX]},
        )
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
        waited for: while records flow, some are always on their way.

        Raises:
            CommandError: A store does not say who publishes.
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
        if not lacking:
            return ""
        copied = self._copied.setdefault(step, set())
        unknown = {one: head for one, head in later.items() if one not in copied}
        read = dict(islice(unknown.items(), READ_MAX))
        if _published(topology.cluster(step.cluster), holding.store, read):
            self._due[step] = heads
            return lacking
        copied.update(read)
        return lacking if len(unknown) > READ_MAX else ""

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


def _published(spec: ClusterSpec, store: str, heads: Mapping[Partition, int]) -> Partition | None:
    """One of these partitions that is published on the cluster itself: no link has copied it."""
    try:
        with ClusterClient(Cluster.declared(spec)) as stores:
            for partition, head in heads.items():
                record = record_at(stores.store(store), partition, head)
                if record is not None and record.copy_flags == 0:
                    return partition
    except QueryError as error:
        raise CommandError(f"{store} does not say who publishes: {error}") from error
    return None
