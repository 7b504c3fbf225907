"""Says at targets what this process writes, and hears there who writes it under later epochs."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from dafka.cluster import Cluster
from dafka.process.clock import now_ms
from dafka.query.client import SIGN_TIMEOUT_MS
from dafka.query.cluster_client import ClusterClient
from dafka.transport.request import QueryClient
from distributor.control.later_writers import SAY_MS, LaterWriters, writing_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dafka.errors import QueryError
    from dafka.query.client import StoreClient
    from dafka.transport.request import ConnectClient
    from distributor.control.later_writers import Writing
    from distributor.control.messages import Flow
    from topology.model import Topology

log = logging.getLogger(__name__)


class WatchedWriter:
    """That one run of a flow may write, as it is said at its targets until `end`.

    Args:
        watch: Says it.
        flow: What may write.
        epoch: Under which.
        changed: Called when `later` is another, in a thread of the watch.
    """

    def __init__(
        self, watch: WriterWatch, flow: Flow, epoch: int, changed: Callable[[], None]
    ) -> None:
        self._watch = watch
        self.epoch = epoch
        self.later = 0
        """The epoch under which somebody else writes, if that is later; else 0."""
        self.writing = writing_of(flow, epoch)
        self.targets = flow.link.targets
        self.changed = changed

    def end(self) -> None:
        """Say it no more."""
        self._watch.end(self)


class _Cluster:
    """The stores of one target, asked by a thread of their own: others do not wait for them."""

    def __init__(self, stores: ClusterClient, name: str) -> None:
        self.stores, self.name = stores, name
        self.due = threading.Event()
        """There is something new to say."""
        self.silent: set[str] = set()
        """Stores that did not answer last time."""


class WriterWatch:
    """That of one process.

    Args:
        topology: Where the targets are declared.
        connect: Makes the connections to their stores.
        interval_ms: How often they are asked.
    """

    def __init__(
        self,
        topology: Topology,
        connect: ConnectClient = QueryClient,
        interval_ms: int = SAY_MS,
    ) -> None:
        self._topology, self._connect = topology, connect
        self._interval_s = interval_ms / 1_000
        self._lock = threading.Lock()
        self._later = LaterWriters()
        self._standings: list[WatchedWriter] = []
        self._clusters: dict[str, _Cluster] = {}
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def begin(self, flow: Flow, epoch: int, changed: Callable[[], None]) -> WatchedWriter:
        """Say from now on that a flow may write; see `WatchedWriter`."""
        standing = WatchedWriter(self, flow, epoch, changed)
        with self._lock:
            self._standings.append(standing)
            clusters = [self._cluster(name) for name in standing.targets]
        for cluster in clusters:
            cluster.due.set()
        return standing

    def end(self, standing: WatchedWriter) -> None:
        """Say it no more."""
        with self._lock:
            self._standings.remove(standing)
            if all(one.writing != standing.writing for one in self._standings):
                self._later.forget(standing.writing)

    def close(self) -> None:
        """Say nothing more."""
        self._stopping = True
        with self._lock:
            clusters = [*self._clusters.values()]
        for cluster in clusters:
            cluster.due.set()
        for thread in self._threads:
            thread.join(SIGN_TIMEOUT_MS / 1_000)

    def _cluster(self, name: str) -> _Cluster:
        known = self._clusters.get(name)
        if known is None:
            declared = Cluster.declared(self._topology.cluster(name))
            stores = ClusterClient(declared, SIGN_TIMEOUT_MS, self._connect)
            known = self._clusters[name] = _Cluster(stores, name)
            thread = threading.Thread(
                target=self._main, args=(known,), name="dafka-writers", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        return known

    def _main(self, cluster: _Cluster) -> None:
        with cluster.stores as stores:
            while not self._stopping:
                cluster.due.wait(self._interval_s)
                cluster.due.clear()
                with self._lock:
                    here = (one for one in self._standings if cluster.name in one.targets)
                    rows = [*dict.fromkeys(one.writing for one in here)]
                if rows:
                    self._ask(cluster, stores, rows)
                self._notice()

    def _ask(self, cluster: _Cluster, stores: ClusterClient, rows: Sequence[Writing]) -> None:
        def ask(store: StoreClient) -> None:
            epochs = dict(zip(rows, store.writers(rows), strict=True))
            with self._lock:
                self._later.told(store.endpoint, epochs, now_ms())
            self._notice()  # another one may be silent, and takes its time

        self._tell(cluster, stores.all(ask).failures)

    def _notice(self) -> None:
        """Tell flows of which somebody else writes, or does no more."""
        changed = []
        with self._lock:
            for standing in self._standings:
                later = self._later.later(standing.writing, now_ms())
                if later != standing.later:
                    standing.later = later
                    changed.append(standing.changed)
        for tell in changed:
            tell()

    def _tell(self, cluster: _Cluster, failures: Mapping[str, QueryError]) -> None:
        """Say in the log which stores do not answer, once."""
        for store in failures.keys() - cluster.silent:
            facts = {"cluster": cluster.name, "store": store, "error": str(failures[store])}
            log.warning("a store does not say who writes", extra=facts)
        cluster.silent = {*failures}
