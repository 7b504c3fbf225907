"""Asking every cluster of a topology what it knows of a group."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.query.client import StoreClient
from distributor.offsets.explanation import GroupView

if TYPE_CHECKING:
    from topology.model import Cluster, Topology

ANSWER_TIMEOUT_MS = 2_000
"""How long one store may take."""


def survey_group(topology: Topology, group: str) -> list[GroupView]:
    """Ask every cluster at once; in the order of the file."""
    with ThreadPoolExecutor(max_workers=min(16, len(topology.clusters))) as pool:
        return list(pool.map(lambda cluster: _view(cluster, group), topology.clusters))


def _view(cluster: Cluster, group: str) -> GroupView:
    """What the first store says that answers; whether members live, any of them."""
    found: GroupView | None = None
    live = False
    error = ""
    for store in cluster.stores:
        try:
            with StoreClient(store.query, ANSWER_TIMEOUT_MS) as client:
                live = live or any(pulse.alive for pulse in client.members(group).pulses)
                found = found or _asked(client, cluster, group)
        except QueryError as failure:
            error = str(failure)
    if found is None:
        return GroupView(cluster.name, cluster.id, error=error)
    return GroupView(cluster.name, cluster.id, found.commits, found.ends, live)


def _asked(client: StoreClient, cluster: Cluster, group: str) -> GroupView:
    ends = {partition: kept.stop for partition, kept in client.ranges().items()}
    return GroupView(cluster.name, cluster.id, client.offsets(group), ends)
