"""A whole topology in its real processes, as `distributor up` runs it, and what they use."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import free_ports, own_bytes, scratch
from dafka.cluster import Cluster
from dafka.query.cluster_client import ClusterClient
from distributor.local.processes import processes_of
from distributor.local.supervisor import Supervisor
from distributor.survey import survey
from topology import load, plan
from topology.processes import ProcessKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dafka.query.client import StoreClient

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PORTS_A_CLUSTER = 3
READY_S = 20.0
POLL_S = 0.05
SETTLE_S = 2.0
"""Beacons go out every second: then everybody has found everybody."""

PAIR = "tree: {level: 1, children: [c1, c2]}"
FOUR = (
    "tree: {level: 3, children: [{level: 1, children: [c1, c2]}, {level: 1, children: [c3, c4]}]}"
)


class System:
    """A running topology.

    Args:
        supervisor: Its processes.
        file: Its topology.
    """

    def __init__(self, supervisor: Supervisor, file: Path) -> None:
        self._supervisor = supervisor
        self.file = file
        self.topology = load(file)
        self._clients = [self.client(cluster.name) for cluster in self.topology.clusters]

    def close(self) -> None:
        """Let go of the stores."""
        for client in self._clients:
            client.close()

    def tower(self, cluster: str) -> str:
        """A cluster's tower."""
        return self.topology.cluster(cluster).towers[0]

    def client(self, cluster: str) -> StoreClient:
        """A connection to a cluster's store."""
        return ClusterClient(Cluster.declared(self.topology.cluster(cluster))).store()

    def records(self) -> list[int]:
        """How many records each cluster's store has."""
        return [client.health().records for client in self._clients]

    def wait_for(self, records: int, seconds: float) -> None:
        """Wait until every cluster has so many records.

        Raises:
            TimeoutError: They do not in time.
        """
        deadline = time.monotonic() + seconds
        while min(self.records()) < records:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.records()} of {records} records after {seconds:.0f} s")
            time.sleep(POLL_S)

    def cpu_seconds(self, name: str) -> float:
        """CPU time of a process so far, user and system."""
        fields = self._stat(name).rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND

    def own_bytes(self) -> dict[str, int]:
        """Resident memory of every process, without mapped files."""
        names = [child.process.name for child in self._supervisor.children]
        return {name: own_bytes(self._pid(name)) for name in names}

    def _stat(self, name: str) -> str:
        return Path(f"/proc/{self._pid(name)}/stat").read_text()

    def _pid(self, name: str) -> int:
        for child in self._supervisor.children:
            if child.process.name == name and child.running is not None:
                return child.running.pid
        raise KeyError(name)


@contextmanager
def system(tree: str, further: str = "", *, links: bool = True) -> Iterator[System]:
    """Run the topology with this tree over clusters `c1`, `c2`, ... until the block ends.

    Args:
        tree: The line of the file that declares it.
        further: Other lines of the file.
        links: Whether its distributors run.
    """
    with scratch() as home:
        file = home / "topology.yaml"
        clusters = [word for word in ("c1", "c2", "c3", "c4") if word in tree]
        first = free_ports(len(clusters) * PORTS_A_CLUSTER)
        lines = ["version: 1", "name: bench", "clusters:"]
        for number, name in enumerate(clusters, 1):
            port = first + (number - 1) * PORTS_A_CLUSTER
            query, data = f"tcp://127.0.0.1:{port + 2}", home / name
            lines.append(
                f"  - {{name: {name}, id: {number}, towers: ['tcp://127.0.0.1:{port}'],"
                f" stores: [{{query: '{query}', data: '{data}'}}]}}"
            )
        file.write_text("\n".join([*lines, tree, further]))
        declared = processes_of(plan(load(file)), file)
        wanted = [one for one in declared if links or one.kind is not ProcessKind.DISTRIBUTOR]
        supervisor = Supervisor(wanted, home / "logs")
        supervisor.start()
        stack = ExitStack()
        try:
            running = stack.enter_context(closing(System(supervisor, file)))
            deadline = time.monotonic() + READY_S
            while any(holding.error for holding in survey(running.topology)):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the stores do not answer within {READY_S:.0f} s")
                time.sleep(0.1)
            time.sleep(SETTLE_S)
            yield running
        finally:
            stack.close()
            supervisor.stop()
