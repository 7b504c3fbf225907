"""Which flags a record may have where, by the tree alone: what a copy's way can have been.

A record that was published on one cluster and lies on another has crossed the branch at which the
two part, and that first; then it may have crossed branches further down towards where it lies.
Which ones depends on the targets that were used at the time, so those are allowed, not demanded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dafka.model import NO_ORIGIN
from topology.copyflags import bit
from topology.tree import TreeGraph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.model import ClusterName, Topology


class Way(NamedTuple):
    """What flags say of records on one cluster that come from one other.

    Attributes:
        cluster: Where they lie.
        origin: Number of the cluster they come from; 0 for what was published here.
        demanded: Flags they all have.
        allowed: Flags they may have beside.
    """

    cluster: ClusterName
    origin: int
    demanded: int
    allowed: int

    def permits(self, flags: int) -> bool:
        """Whether these flags can be."""
        return flags & self.demanded == self.demanded and not flags & ~(
            self.demanded | self.allowed
        )


def ways(topology: Topology) -> Iterator[Way]:
    """Yield every way there is; a record of any other origin contradicts its flags."""
    tree = TreeGraph(topology.tree)
    for here in topology.clusters:
        yield Way(here.name, NO_ORIGIN, 0, 0)
        levels = tree.levels_above(here.name)
        for other in topology.clusters:
            if other is not here:
                parting = tree.level_between(here.name, other.name)
                below = sum(bit(level) for level in levels if level < parting)
                yield Way(here.name, other.id, bit(parting), below)
