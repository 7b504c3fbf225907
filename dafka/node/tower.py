"""The public tower: where the nodes of a cluster find each other. It carries no records."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from dafka.cluster import Cluster, cluster_of
from dafka.limits import STORE_PEERS_MAX
from dafka.model import TowerEndpoints
from dafka.node.loop import STUCK_MS, NodeFailedError
from dafka.process import metrics
from dafka.process.clock import now_ms
from dafka.process.threads import wait_for_end
from dafka.transport.curve import checked_infrastructure
from dafka.transport.poller import Poller
from dafka.transport.tower import BEACONS_PER_TURN_MAX, TowerSockets

if TYPE_CHECKING:
    from typing import Self


log = logging.getLogger(__name__)

_TURN_MS = 200
"""How often the loop looks whether it shall stop, and counts who is there."""

_PRESENT_MS = 4_000
"""A node whose beacons stop for this long is not counted any more."""

_APART_S = 0.001
_APART_MAX_S = 0.05
"""For each node, and at most: how far apart beacons are passed on. Those that come in between go
out together, and wake each node once."""


class Tower:
    """One tower of a cluster.

    Args:
        cluster: Which, with its own key where it has keys; or this tower's endpoint.
        endpoint: `tcp://host:port` for the nodes' beacons; it publishes on the next port. Without
            it, the first of the cluster's towers.

    Raises:
        MisuseError: It is not an endpoint, or it is taken, or strangers could come in.
    """

    def __init__(
        self,
        cluster: Cluster | str,
        endpoint: str | None = None,
    ) -> None:
        cluster = cluster_of(cluster)
        self.endpoint = endpoint or cluster.towers[0]
        checked_infrastructure(self.endpoint, cluster.credentials, insecure=cluster.insecure)
        self._sockets = TowerSockets(TowerEndpoints.parse(self.endpoint), cluster.credentials)
        self._seen_ms: dict[str, int] = {}
        self._flooded = False
        """Whether more may have come than it takes in a turn."""
        self._stopping = threading.Event()
        self._turned_ms = now_ms()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="dafka-tower", daemon=True)
        self._thread.start()

    @property
    def nodes(self) -> int:
        """How many nodes have sent a beacon lately."""
        return len(self._seen_ms)

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        self._thread.join(timeout)
        if self._failure is not None:
            raise NodeFailedError(f"tower has failed: {self._failure}") from self._failure
        return not self._thread.is_alive()

    def unwell(self) -> str:
        """See `LongRunning`."""
        if self._failure is not None:
            return f"tower has failed: {self._failure}"
        silent_ms = now_ms() - self._turned_ms
        return f"tower has not turned for {silent_ms // 1_000} s" if silent_ms > STUCK_MS else ""

    def unready(self) -> str:
        """Always empty: it serves from the moment it is open."""
        return ""

    def close(self) -> None:
        """Release the endpoints."""
        self._stopping.set()
        wait_for_end(self._thread, "beacons")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        try:
            self._relay_until_told()
        except BaseException as error:
            self._failure = error
            log.critical("tower failed", exc_info=True)
        finally:
            self._sockets.close()
            metrics.PEERS.remove("tower", self.endpoint)

    def _relay_until_told(self) -> None:
        with Poller() as poller:
            for socket in self._sockets.pollable:
                poller.add(socket, self._relay)
            while not self._stopping.is_set():
                came = poller.turn(_TURN_MS)
                self._turned_ms = now_ms()
                self._forget_absent()
                if came and not self._flooded:
                    self._stopping.wait(min(self.nodes * _APART_S, _APART_MAX_S))

    def _relay(self) -> None:
        beacons, dropped = self._sockets.relay()
        self._flooded = len(beacons) + len(dropped) >= BEACONS_PER_TURN_MAX
        now = now_ms()
        for beacon in beacons:
            if beacon.address in self._seen_ms or len(self._seen_ms) < STORE_PEERS_MAX:
                self._seen_ms[beacon.address] = now
        for reason in dropped:
            metrics.count_dropped("tower", reason)

    def _forget_absent(self) -> None:
        oldest = now_ms() - _PRESENT_MS
        self._seen_ms = {node: seen for node, seen in self._seen_ms.items() if seen >= oldest}
        metrics.PEERS.labels("tower", self.endpoint).set(len(self._seen_ms))
