"""Which flows a cluster's controllers want: what its topology says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributor.control.messages import Flow, FlowKind
from topology.plan import Link, plan

if TYPE_CHECKING:
    from topology.model import Topology

SCHEMAS_LEVEL = 0
"""No branch has it: schemas go from the primary to all others at once, across all levels."""


def flows_of(topology: Topology, cluster: str) -> list[Flow]:
    """Return the flows of a cluster: records of its links, in shares, and positions; schemas."""
    links = [link for link in plan(topology).links if link.source == cluster]
    records = [
        Flow(link, FlowKind.RECORDS, share, shares)
        for link in links
        for shares in (topology.links.shares_at(link.level),)
        for share in range(shares)
    ]
    positions = [Flow(link, FlowKind.OFFSETS) for link in links]
    return (
        records + positions + [Flow(link, FlowKind.SCHEMAS) for link in _schemas(topology, cluster)]
    )


def _schemas(topology: Topology, cluster: str) -> list[Link]:
    """The way of schemas, if the cluster has a registry: to all others that have one."""
    registries = tuple(one.name for one in topology.clusters if one.registry)
    source = [name for name in registries if name == cluster]
    # One that is alone has nobody to copy to, but somebody has to make it the primary.
    others = tuple(name for name in registries if name != cluster) or registries
    return [
        Link(
            source=name,
            level=SCHEMAS_LEVEL,
            branch=0,
            targets=others,
            beyond=others,
            span=registries,
        )
        for name in source
    ]
