"""Asks all clusters what they have, and tells the stores of its own what to hold."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dafka.errors import QueryError
from dafka.groups.membership import majority_of
from dafka.query.client import LOOK_TIMEOUT_MS
from dafka.transport.request import QueryClient
from distributor.control.holds import Floors, need_of
from distributor.link.holdings import Holdings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dafka.model import Partition
    from dafka.transport.request import ConnectClient
    from distributor.control.holds import HeldForRow
    from distributor.link.holdings import StoreView
    from topology.model import Topology

log = logging.getLogger(__name__)


def holds_any(topology: Topology) -> bool:
    """Whether anything is held for others."""
    return any(rule.holds for rule in topology.retention)


class HoldKeeper:
    """That of a controller. Used by one thread at a time.

    Args:
        topology: Which clusters there are, and what of it is held.
        cluster: Its own.
        connect: Makes the connections to stores.
    """

    def __init__(
        self, topology: Topology, cluster: str, connect: ConnectClient = QueryClient
    ) -> None:
        self._need = need_of(topology, cluster)
        here = topology.cluster(cluster)
        self._quorum = majority_of(len(here.stores))
        self._own = Holdings(here, self._need.anybody, connect, LOOK_TIMEOUT_MS)
        self._others = {
            name: Holdings(topology.cluster(name), must, connect, LOOK_TIMEOUT_MS)
            for name, must in self._need.others.items()
        }
        self._floors = Floors(0, self._need)

    def place(self, epoch: int) -> None:
        """Begin a term: let stores know who must have what, before anything else is wanted.

        Raises:
            QueryError: Half of the stores or more do not hold it.
        """
        self._floors = Floors(epoch, self._need)
        kept = [store for store, view in self._own.each().items() if self._tell(store, view)]
        if len(kept) < self._quorum:
            raise QueryError(f"{len(kept)} stores hold for others, and {self._quorum} have to")

    def round(self) -> list[HeldForRow]:
        """Ask everybody, tell own stores what is new; return what others lack."""
        own = self._own.each()
        kept = _together(view.kept for view in own.values())
        for name, holdings in self._others.items():
            ends = holdings.least(kept)
            if ends is not None:
                self._floors.heard(name, ends)
        for store, view in own.items():
            self._tell(store, view)
        return self._floors.rows(kept)

    def close(self) -> None:
        """Release the connections."""
        for holdings in (self._own, *self._others.values()):
            holdings.close()

    def _tell(self, store: str, view: StoreView) -> bool:
        """Tell a store what it does not know yet; whether it does now."""
        client = self._own.client_of(store)
        # In their order, so that the simulator's seeds repeat.
        keeps = {one: None for one in view.heads if one not in view.empty}
        try:
            identity = client.health().identity
            for word in self._floors.words(store, identity, keeps.keys()):
                self._floors.kept(store, client.hold(word), word)
        except QueryError as error:
            facts = {"store": store, "error": str(error)}
            log.warning("a store is not told what to hold", extra=facts)
            return False
        return True


def _together(stores: Iterable[Mapping[Partition, range]]) -> dict[Partition, range]:
    """What stores keep of each partition, all of them together."""
    found: dict[Partition, range] = {}
    for kept in stores:
        for partition, span in kept.items():
            before = found.get(partition, span)
            found[partition] = range(min(before.start, span.start), max(before.stop, span.stop))
    return found
