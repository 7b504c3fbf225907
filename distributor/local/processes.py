"""The processes of a topology, the command line of each, and which hosts are this machine's."""

from __future__ import annotations

import errno
import socket
import sys
import time
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from distributor.errors import PlanError
from topology.extras import require
from topology.model import HEARTBEATS, RetentionSpec, host_and_port
from topology.replica_rules import replica_places

if TYPE_CHECKING:
    from collections.abc import Iterable

    from topology.model import ClusterSpec, Topology, Web
    from topology.plan import Distributor, Plan


GIVEN_UP_S = 2.0
"""How long a process that has just ended may keep its ports."""

_HEARTBEATS_KEPT = RetentionSpec(topics=HEARTBEATS, age_s=3_600)
"""They are of interest while they are young."""


class ProcessKind(Enum):
    """What a process is, in the order of starting; stopping goes the other way."""

    TOWER = "tower"
    STORE = "store"
    DISTRIBUTOR = "distributor"
    REGISTRY = "registry"
    SCHEMAS = "schemas"
    GATEWAY = "gateway"
    REPLICA = "replica"
    CONTROLLER = "controller"


_BY_REPLICAS = ProcessKind.DISTRIBUTOR, ProcessKind.SCHEMAS
"""What there is none of in a cluster with replicas: these do it."""


_EXTRAS = {
    ProcessKind.REGISTRY: "schemas",
    ProcessKind.GATEWAY: "gateway",
    ProcessKind.REPLICA: "distributor",
    ProcessKind.CONTROLLER: "distributor",
}
"""What must be installed for it, where that is not for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a running topology.

    Attributes:
        name: Unique; also the name of its log file.
        kind: What it is.
        cluster: Where it belongs.
        command: How to start it.
        metrics: `host:port` of its metrics, if the topology has any.
        web: The files for that, if not everybody may read it.
        reads: What it reads of the file itself: when that changes, it has to be started again.
    """

    name: str
    kind: ProcessKind
    cluster: str
    command: tuple[str, ...]
    metrics: str | None
    web: Web | None = None
    reads: str = ""


def processes_of(plan: Plan, file: Path) -> list[Process]:
    """Return every process of `plan`, towers first, in the order of the file.

    Args:
        plan: Of the topology in `file`.
        file: Distributors read it themselves.

    Where replicas run what distributors would there are none; those of other clusters, and what
    comes behind them, serve metrics where they would with them.
    """
    directory = file.parent
    drafts = [
        *_towers(plan.topology, directory),
        *_stores(plan.topology, directory),
        *_distributors(plan, file),
        *_registries(plan.topology, directory),
        *_schema_distributors(plan.topology, file),
        *_gateways(plan.topology, directory),
    ]
    reads = {
        _name(distributor): _read_by(plan.topology, distributor)
        for distributor in plan.distributors
    }
    clusters = _for_links(plan.topology.clusters)
    everything = repr((clusters, plan.topology.fields, plan.topology.primary))
    reads |= {draft[0]: everything for draft in drafts if draft[1] is ProcessKind.SCHEMAS}
    controlled = {cluster.name for cluster in plan.topology.clusters if cluster.controlled}
    numbered = [_with_metrics(plan.topology, index, draft) for index, draft in enumerate(drafts)]
    processes = [
        one for one in numbered if one.kind not in _BY_REPLICAS or one.cluster not in controlled
    ]
    processes += _controlled(plan.topology, file)
    reads |= {
        one.name: _read_by_controlled(plan.topology, one.cluster)
        for one in processes
        if one.kind in (ProcessKind.REPLICA, ProcessKind.CONTROLLER)
    }
    return [replace(process, reads=reads.get(process.name, "")) for process in processes]


_Draft = tuple[str, ProcessKind, str, list[str]]


def _keys(cluster: ClusterSpec, directory: Path) -> list[str]:
    """What a tower or store of a cluster is told of keys."""
    return _told(cluster, directory, cluster.security.cluster_key if cluster.security else "")


def _client_keys(cluster: ClusterSpec, directory: Path) -> list[str]:
    """What others are told of them."""
    return _told(cluster, directory, cluster.security.key if cluster.security else "")


def _told(cluster: ClusterSpec, directory: Path, key: str) -> list[str]:
    if cluster.security is None:
        return ["--insecure"] if cluster.insecure else []
    return ["--access", str(directory / cluster.security.access), "--key", str(directory / key)]


def _place(cluster: ClusterSpec) -> list[str]:
    """What a node of a cluster is told of where it is bound, and reached."""
    told = ["--host", cluster.host]
    return told if cluster.advertise is None else [*told, "--advertise", cluster.advertise]


def _towers(topology: Topology, directory: Path) -> list[_Draft]:
    return [
        (
            f"{cluster.name}-tower-{number}",
            ProcessKind.TOWER,
            cluster.name,
            ["dafka", "tower", "--endpoint", endpoint, *_keys(cluster, directory)],
        )
        for cluster in topology.clusters
        for number, endpoint in enumerate(cluster.towers, 1)
    ]


def _stores(topology: Topology, directory: Path) -> list[_Draft]:
    drafts: list[_Draft] = []
    for cluster in topology.clusters:
        for number, store in enumerate(cluster.stores, 1):
            command = ["dafka", "store", "--data", store.data, "--query", store.query]
            command += [*_place(cluster), "--durability", store.durability]
            if len(topology.clusters) > 1:
                command += ["--number", str(cluster.id)]
            for rule in topology.retention:
                command += ["--retain", _retained(rule)]
            if topology.heartbeat_ms is not None:
                command += ["--retain", _retained(_HEARTBEATS_KEPT)]
            command += ["--wire", cluster.wire, *_keys(cluster, directory)]
            for tower in cluster.towers:
                command += ["--tower", tower]
            drafts.append(
                (f"{cluster.name}-store-{number}", ProcessKind.STORE, cluster.name, command)
            )
    return drafts


def _retained(rule: RetentionSpec) -> str:
    """A rule as `dafka store --retain` reads it."""
    numbers = {
        "age_s": rule.age_s,
        "bytes": rule.bytes_max,
        "hold_age_s": rule.hold_age_s,
        "hold_bytes": rule.hold_bytes,
    }
    given = (f",{name}={number}" for name, number in numbers.items() if number is not None)
    return rule.topics + "".join(given)


def _distributors(plan: Plan, file: Path) -> list[_Draft]:
    return [
        (
            _name(distributor),
            ProcessKind.DISTRIBUTOR,
            distributor.cluster,
            [
                *("distributor", "run", "--topology", str(file)),
                *("--cluster", distributor.cluster, "--level", str(distributor.level)),
            ],
        )
        for distributor in plan.distributors
    ]


def _registries(topology: Topology, directory: Path) -> list[_Draft]:
    drafts: list[_Draft] = []
    for cluster in topology.clusters:
        if cluster.registry:
            command = ["dafka", "schemas", "--cluster", cluster.name, "--number", str(cluster.id)]
            command += ["--listen", cluster.registry.rpartition("://")[2], *_place(cluster)]
            command += ["--wire", cluster.wire, *_client_keys(cluster, directory)]
            for tower in cluster.towers:
                command += ["--tower", tower]
            for store in cluster.stores:
                command += ["--store", store.query]
            drafts.append((f"{cluster.name}-registry", ProcessKind.REGISTRY, cluster.name, command))
    return drafts


def _gateways(topology: Topology, directory: Path) -> list[_Draft]:
    drafts: list[_Draft] = []
    for cluster in topology.clusters:
        for number, gateway in enumerate(cluster.gateways, 1):
            command = ["dafka", "gateway", "--cluster", cluster.name, "--listen", gateway.listen]
            if gateway.advertised_listener:
                command += ["--advertised-listener", gateway.advertised_listener]
            if gateway.users:
                command += ["--users", str(directory / gateway.users)]
            command += [*_place(cluster), "--wire", cluster.wire]
            command += _client_keys(cluster, directory)
            for tower in cluster.towers:
                command += ["--tower", tower]
            for store in cluster.stores:
                command += ["--store", store.query]
            name = f"{cluster.name}-gateway-{number}"
            drafts.append((name, ProcessKind.GATEWAY, cluster.name, command))
    return drafts


def _schema_distributors(topology: Topology, file: Path) -> list[_Draft]:
    words = ["distributor", "schemas", "--topology", str(file), "--cluster"]
    return [
        (f"{cluster.name}-schemas", ProcessKind.SCHEMAS, cluster.name, [*words, cluster.name])
        for cluster in topology.clusters
        if cluster.registry
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
        (distributor, control_endpoint(topology, distributor.cluster, distributor.level))
        for distributor in plan.distributors
        if not topology.cluster(distributor.cluster).controlled
    ]


def control_endpoint(topology: Topology, cluster: str, level: int) -> str:
    """Where one distributor takes commands; empty if it takes none."""
    if topology.control is None:
        return ""
    return f"ipc://{topology.control.socket_path(cluster, level)}"


def _name(distributor: Distributor) -> str:
    return f"{distributor.cluster}-level-{distributor.level}"


def _read_by(topology: Topology, distributor: Distributor) -> str:
    """Its links, both ends of each, and what holds for all; not what others do."""
    ends = {name for link in distributor.links for name in (link.source, *link.targets)}
    clusters = _for_links(cluster for cluster in topology.clusters if cluster.name in ends)
    rest = replace(
        topology,
        name="",
        clusters=clusters,
        tree=distributor.cluster,
        levels=replace(topology.levels, retired=()),
        metrics=None,
        web=None,
    )
    return repr((distributor, rest))


def _read_by_controlled(topology: Topology, name: str) -> str:
    """What a controller or replica of a cluster reads: all links, and where its replicas are."""
    clusters = _for_links(topology.clusters)
    rest = replace(topology, name="", clusters=clusters, metrics=None, web=None, control=None)
    return repr((rest, topology.cluster(name).replicas))


def _for_links(clusters: Iterable[ClusterSpec]) -> tuple[ClusterSpec, ...]:
    """Clusters as links know them: none has to do with Kafka clients, or with who runs others."""
    return tuple(replace(one, gateways=(), controllers=(), replicas=()) for one in clusters)


def _controlled(topology: Topology, file: Path) -> list[Process]:
    """Replicas and controllers, whose metrics have places of their own."""
    found: list[Process] = []
    for cluster in topology.clusters:
        told = ["--topology", str(file), "--cluster", cluster.name]
        for number, replica in enumerate(cluster.replicas, 1):
            name, words = f"{cluster.name}-replica-{number}", ["distributor", "replica", *told]
            draft = (name, ProcessKind.REPLICA, cluster.name, [*words, "--listen", replica.listen])
            found.append(_process(topology, draft, replica.metrics))
    for cluster in topology.clusters:
        told = ["--topology", str(file), "--cluster", cluster.name]
        for number, controller in enumerate(cluster.controllers, 1):
            name = f"{cluster.name}-controller-{number}"
            words = ["distributor", "controller", "run", *told]
            draft = (name, ProcessKind.CONTROLLER, cluster.name, words)
            found.append(_process(topology, draft, controller.metrics))
    return found


def _with_metrics(topology: Topology, index: int, draft: _Draft) -> Process:
    """A process that serves metrics on a port of the topology's, if that has any."""
    ports = topology.metrics
    return _process(
        topology, draft, None if ports is None else f"{ports.host}:{ports.first_port + index}"
    )


def _process(topology: Topology, draft: _Draft, metrics: str | None) -> Process:
    name, kind, cluster, command = draft
    if metrics is not None:
        command = [*command, "--metrics", metrics]
    if topology.web is not None and (metrics or kind is ProcessKind.REGISTRY):
        command = [*command, "--web", str(Path(topology.web.directory) / topology.web.access)]
    return Process(
        name=name,
        kind=kind,
        cluster=cluster,
        command=(sys.executable, "-m", *command),
        metrics=metrics,
        web=topology.web,
    )


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
