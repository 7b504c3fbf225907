"""The processes of a topology on this machine: how they run here, and whether they can."""

from __future__ import annotations

import errno
import socket
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from distributor.errors import PlanError
from topology import processes
from topology.extras import require
from topology.model import host_and_port
from topology.processes import ProcessKind
from topology.replica_rules import replica_places

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from topology.model import Topology
    from topology.plan import Distributor, Plan
    from topology.processes import Process


GIVEN_UP_S = 2.0
"""How long a process that has just ended may keep its ports."""

_EXTRAS = {
    ProcessKind.REGISTRY: "schemas",
    ProcessKind.GATEWAY: "gateway",
    ProcessKind.REPLICA: "distributor",
    ProcessKind.CONTROLLER: "distributor",
}
"""What must be installed for it, where that is not for all."""


def processes_of(plan: Plan, file: Path) -> list[Process]:
    """Return every process of `plan`, as `topology.processes` has them, run by this Python."""
    return [
        replace(process, command=(sys.executable, "-m", *process.command))
        for process in processes.processes_of(plan, file)
    ]


def hosts_of(topology: Topology) -> dict[str, str]:
    """Every host that processes of clusters listen on, and the first cluster that does."""
    hosts: dict[str, str] = {}
    for cluster in topology.clusters:
        endpoints = [*cluster.towers, *(store.query for store in cluster.stores)]
        if cluster.registry:
            endpoints.append(cluster.registry)
        endpoints += [gateway.endpoint for gateway in cluster.gateways]
        endpoints += [f"tcp://{place}" for _, place in replica_places(cluster)]
        for host in (cluster.host, *(host_and_port(endpoint)[0] for endpoint in endpoints)):
            hosts.setdefault(host, cluster.name)
    return hosts


def endpoints_of(plan: Plan) -> list[str]:
    """Every endpoint of TCP that processes of a plan listen at and the file names."""
    topology = plan.topology
    named = [
        endpoint
        for cluster in topology.clusters
        for endpoint in (*cluster.towers, *(store.query for store in cluster.stores))
    ]
    named += [cluster.registry for cluster in topology.clusters if cluster.registry]
    named += [gateway.endpoint for cluster in topology.clusters for gateway in cluster.gateways]
    named += [
        f"tcp://{place}" for cluster in topology.clusters for _, place in replica_places(cluster)
    ]
    return named


def refuse_taken(plan: Plan) -> None:
    """Make sure that nobody listens yet where a plan's processes are to.

    Raises:
        PlanError: Somebody does; what is started now would die and be started again without end.
    """
    for endpoint in endpoints_of(plan):
        host, port = host_and_port(endpoint)
        deadline = time.monotonic() + GIVEN_UP_S
        while is_taken(host, port):
            if time.monotonic() >= deadline:
                raise PlanError(
                    f"{endpoint} is taken: is {plan.topology.name!r} up already? Stop what listens "
                    "there, or write other ports into the file"
                )
            time.sleep(GIVEN_UP_S / 20)


def is_taken(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As our processes bind: what has just been given up by one that ended is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]*"), port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def control_endpoints(plan: Plan) -> list[tuple[Distributor, str]]:
    """Every distributor and where it takes commands; empty if it takes none.

    Where replicas copy there is none.
    """
    topology = plan.topology
    return [
        (distributor, control_endpoint(topology, distributor))
        for distributor in plan.distributors
        if not topology.cluster(distributor.cluster).controlled
    ]


def control_endpoint(topology: Topology, distributor: Distributor) -> str:
    """Where one distributor takes commands; empty if it takes none."""
    if topology.control is None:
        return ""
    return f"ipc://{topology.control.socket_path(distributor.name)}"


def is_own(host: str) -> bool:
    """Whether a process here can listen on a host: its address can be bound, or an interface."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]  # the one that a socket of ours is bound to
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except (OSError, UnicodeError):
        return host in {name for _, name in socket.if_nameindex()}
    return True


def refuse_elsewhere(topology: Topology) -> None:
    """Make sure that all of a topology can run here.

    Raises:
        PlanError: A host is another machine's.
    """
    for host, cluster in hosts_of(topology).items():
        if not is_own(host):
            raise PlanError(
                f"host {host!r} of {cluster} is not this machine's, so not all of {topology.name} "
                "can run here: start its processes on their own hosts (deploy/README.md)"
            )


def refuse_lacking(processes: Iterable[Process]) -> None:
    """Make sure that what processes need is installed here.

    Raises:
        MissingExtraError: An extra is not.
    """
    for extra in sorted({_EXTRAS[one.kind] for one in processes if one.kind in _EXTRAS}):
        require(extra)
