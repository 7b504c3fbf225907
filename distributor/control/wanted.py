"""Which flows a cluster's controllers want: what its topology says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributor.control.messages import Flow, FlowKind
from topology.plan import plan

if TYPE_CHECKING:
    from topology.model import Topology


def flows_of(topology: Topology, cluster: str) -> list[Flow]:
    """Return the flows of a cluster: the records of its links, each in its shares."""
    links = [link for link in plan(topology).links if link.source == cluster]
    return [
        Flow(link, FlowKind.RECORDS, share, shares)
        for link in links
        for shares in (topology.links.shares_at(link.level),)
        for share in range(shares)
    ]
