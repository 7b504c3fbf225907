"""Heartbeats: small records that travel as all others do, and show how late those are.

On every cluster one distributor, that of the lowest level, publishes the cluster's name in the
topic `__heartbeat` at an interval, and reads that topic there. So each cluster hears every other
through all the levels between them. From a heartbeat's timestamp it knows how long a record took
(end to end), and from the newest one of a cluster how much would be missing if that cluster were
lost now (the recovery point). Both compare the clocks of two machines: they are as exact as these.

Applications do not see the topic unless they ask for it by name; stores keep an hour of it.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from dafka import Consumer, Producer
from dafka.cluster import Cluster
from dafka.errors import BufferFullError, DafkaError, NotStoredError, RecordError
from dafka.process.clock import now_ms, wall_ms
from dafka.process.threads import wait_for_end
from distributor.control.aims import place_of
from distributor.operations.meter import HeartbeatMeter
from distributor.operations.recovery import Recovery
from topology import plan
from topology.model import HEARTBEATS

if TYPE_CHECKING:
    from collections.abc import Callable

    from topology.model import Topology
    from topology.plan import Link

log = logging.getLogger(__name__)

_BUFFER_BYTES_MAX = 16 * 1024
"""Heartbeats that no store takes are of no use: a few are kept, the next are left out."""

_END_S = 1.0
"""How long the last heartbeat may take to be stored when the process ends."""


class Heartbeat:
    """The heartbeats of one cluster: a thread that publishes and reads them.

    Args:
        topology: Where it is declared.
        cluster: Its name.
        interval_ms: Between two heartbeats.
    """

    def __init__(self, topology: Topology, cluster: str, interval_ms: int) -> None:
        place = Cluster.declared(topology.cluster(cluster))
        names = [other.name for other in topology.clusters]
        self._cluster = cluster
        self._interval_ms = interval_ms
        self._recovery = Recovery(names)
        self._meter = HeartbeatMeter(cluster, names, self._recovery.point_ms)
        with ExitStack() as opened:
            opened.callback(self._meter.close)
            self._producer = Producer(
                place,
                linger_ms=0,
                buffer_bytes_max=_BUFFER_BYTES_MAX,
                max_block_ms=0,
            )
            opened.callback(self._leave)
            self._consumer = Consumer(place, HEARTBEATS, start="latest")
            opened.pop_all()
        self._failure: DafkaError | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="heartbeat", daemon=True)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """See `LongRunning`."""
        self._thread.join(timeout)
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def unwell(self) -> str:
        """See `LongRunning`."""
        return "" if self._thread.is_alive() else f"heartbeats have ended: {self._failure}"

    def unready(self) -> str:
        """Never: links do their work without it."""
        return ""

    def close(self) -> None:
        """Stop."""
        self._stopping.set()
        wait_for_end(self._thread, "heartbeats that stores do not acknowledge")
        self._consumer.close()
        self._leave()
        self._meter.close()

    def _leave(self) -> None:
        try:
            self._producer.close(_END_S)
        except NotStoredError:
            log.info("the last heartbeats are not stored", extra={"cluster": self._cluster})

    def _main(self) -> None:
        try:
            self._run()
        except DafkaError as error:
            self._failure = error
            log.critical("heartbeats have ended: %s", error, extra={"cluster": self._cluster})

    def _run(self) -> None:
        due_ms = now_ms()
        missed = False
        while not self._stopping.is_set():
            if now_ms() >= due_ms:
                due_ms = now_ms() + self._interval_ms
                missed = self._beat(missed=missed)
            self._hear(min(self._interval_ms, max(1, due_ms - now_ms())))

    def _beat(self, *, missed: bool) -> bool:
        """Publish one; returns whether it could not be."""
        try:
            self._producer.send(HEARTBEATS, self._cluster.encode())
        except BufferFullError:
            if not missed:
                log.warning("no store takes heartbeats", extra={"cluster": self._cluster})
            return True
        return False

    def _hear(self, wait_ms: int) -> None:
        try:
            record = self._consumer.poll(wait_ms / 1_000)
        except RecordError as error:
            log.warning("a heartbeat is damaged: %s", error, extra={"cluster": self._cluster})
            return
        if record is not None:
            heard = self._recovery.heard(record, wall_ms())
            if heard is not None:
                self._meter.heard(*heard)


def beats_beside(topology: Topology, link: Link) -> Callable[[], Heartbeat] | None:
    """Return what begins the heartbeats of a link's source, if they go on beside this link."""
    links = [one for one in plan(topology).links if one.source == link.source]
    interval_ms = topology.heartbeat_ms
    first = min(links, key=lambda one: one.level, default=None)
    # Where it aims may be what an operator wants.
    if interval_ms is None or first is None or place_of(link) != place_of(first):
        return None
    return partial(Heartbeat, topology, link.source, interval_ms)


def heartbeat_of(topology: Topology, cluster: str, level: int) -> Heartbeat | None:
    """Return the running heartbeats of a cluster, if its distributor of this level has them."""
    interval_ms = topology.heartbeat_ms
    levels = [link.level for link in plan(topology).links if link.source == cluster]
    if interval_ms is None or level != min(levels):
        return None
    return Heartbeat(topology, cluster, interval_ms)
