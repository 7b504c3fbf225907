"""The processes of a topology: what each is, how it is started, and what it reads of the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from topology.addresses import normal_host
from topology.model import HEARTBEATS, WHOLE_RING, RetentionSpec, host_and_port
from topology.slots import shown_slots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from topology.model import ClusterSpec, Ports, StoreSpec, Topology, Web
    from topology.plan import Distributor, Plan


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


MetricsPlace = Callable[[ProcessKind, str, str, int], str | None]

_BY_REPLICAS = ProcessKind.DISTRIBUTOR, ProcessKind.SCHEMAS
"""What there is none of in a cluster with replicas: these do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a running topology.

    Attributes:
        name: Unique; also the name of its log file.
        kind: What it is.
        cluster: Where it belongs.
        command: Its words, the program first.
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


def processes_of(
    plan: Plan, file: PurePath, metrics_at: MetricsPlace | None = None
) -> list[Process]:
    """Return every process of `plan`, towers first, in the order of the file.

    Args:
        plan: Of the topology in `file`.
        file: Distributors read it themselves.
        metrics_at: Where each serves metrics, by its kind, name and cluster, and its place in the
            list; what the file says by default. Replicas and controllers do where it says.

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
        distributor.name: _read_by(plan.topology, distributor) for distributor in plan.distributors
    }
    clusters = _for_links(plan.topology.clusters)
    everything = repr((clusters, plan.topology.fields, plan.topology.primary))
    reads |= {draft[0]: everything for draft in drafts if draft[1] is ProcessKind.SCHEMAS}
    controlled = {cluster.name for cluster in plan.topology.clusters if cluster.controlled}
    place = metrics_at or partial(_numbered, plan.topology.metrics)
    numbered = [
        _process(plan.topology, draft, place(draft[1], draft[0], draft[2], index))
        for index, draft in enumerate(drafts)
    ]
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


def _keys(cluster: ClusterSpec, directory: PurePath) -> list[str]:
    """What a tower or store of a cluster is told of keys."""
    return _told(cluster, directory, cluster.security.cluster_key if cluster.security else "")


def _client_keys(cluster: ClusterSpec, directory: PurePath) -> list[str]:
    """What others are told of them."""
    return _told(cluster, directory, cluster.security.key if cluster.security else "")


def _told(cluster: ClusterSpec, directory: PurePath, key: str) -> list[str]:
    if cluster.security is None:
        return ["--insecure"] if cluster.insecure else []
    return ["--access", str(directory / cluster.security.access), "--key", str(directory / key)]


def _place(cluster: ClusterSpec) -> list[str]:
    """What a node of a cluster is told of where it is bound, and reached."""
    told = ["--host", cluster.host]
    return told if cluster.advertise is None else [*told, "--advertise", cluster.advertise]


def _store_place(cluster: ClusterSpec, store: StoreSpec) -> list[str]:
    """The same of a store: on another host than its cluster's it has an interface of that one."""
    host = host_and_port(store.query)[0]
    own = normal_host(host) == normal_host(cluster.host)
    return _place(cluster) if own else ["--host", host]


def _towers(topology: Topology, directory: PurePath) -> list[_Draft]:
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


def _stores(topology: Topology, directory: PurePath) -> list[_Draft]:
    drafts: list[_Draft] = []
    for cluster in topology.clusters:
        for number, store in enumerate(cluster.stores, 1):
            command = ["dafka", "store", "--data", store.data, "--query", store.query]
            command += [*_store_place(cluster, store), "--durability", store.durability]
            if store.slots != WHOLE_RING:
                command += ["--slots", shown_slots(store.slots)]
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


def _distributors(plan: Plan, file: PurePath) -> list[_Draft]:
    return [
        (
            distributor.name,
            ProcessKind.DISTRIBUTOR,
            distributor.cluster,
            [
                *("distributor", "run", "--topology", str(file)),
                *("--cluster", distributor.cluster, "--level", str(distributor.level)),
                *_share(distributor),
            ],
        )
        for distributor in plan.distributors
    ]


def _registries(topology: Topology, directory: PurePath) -> list[_Draft]:
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


def _gateways(topology: Topology, directory: PurePath) -> list[_Draft]:
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


def _schema_distributors(topology: Topology, file: PurePath) -> list[_Draft]:
    words = ["distributor", "schemas", "--topology", str(file), "--cluster"]
    return [
        (f"{cluster.name}-schemas", ProcessKind.SCHEMAS, cluster.name, [*words, cluster.name])
        for cluster in topology.clusters
        if cluster.registry
    ]


def _share(distributor: Distributor) -> list[str]:
    """What it is told of which share it has."""
    whole = distributor.shares == 1
    return [] if whole else ["--share", f"{distributor.share}/{distributor.shares}"]


def _read_by(topology: Topology, distributor: Distributor) -> str:
    """Its links, both ends of each, and what holds for all; not what others do."""
    ends = {name for link in distributor.links for name in (link.source, *link.targets)}
    clusters = _for_links(cluster for cluster in topology.clusters if cluster.name in ends)
    links = replace(
        topology.links,
        shares=1,
        level_shares={},
        compression=topology.links.compression_at(distributor.level),
        level_compression={},
    )
    rest = replace(
        topology,
        name="",
        clusters=clusters,
        tree=distributor.cluster,
        levels=replace(topology.levels, retired=()),
        links=links,
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


def _controlled(topology: Topology, file: PurePath) -> list[Process]:
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


def _numbered(
    ports: Ports | None, _kind: ProcessKind, _name: str, _cluster: str, index: int
) -> str | None:
    """A port of the topology's, if it has any."""
    return None if ports is None else f"{ports.host}:{ports.first_port + index}"


def _process(topology: Topology, draft: _Draft, metrics: str | None) -> Process:
    name, kind, cluster, command = draft
    if metrics is not None:
        command = [*command, "--metrics", metrics]
    if topology.web is not None and (metrics or kind is ProcessKind.REGISTRY):
        command = [*command, "--web", str(PurePath(topology.web.directory) / topology.web.access)]
    return Process(
        name=name,
        kind=kind,
        cluster=cluster,
        command=tuple(command),
        metrics=metrics,
        web=topology.web,
    )
