"""What runs a topology elsewhere: each process, where it listens, and what it has to find there.

Which files say so, for Kubernetes, compose or systemd, is those modules' business.
"""

from __future__ import annotations

import hashlib
import posixpath
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from topology.errors import TopologyError
from topology.model import host_and_port
from topology.plan import plan
from topology.processes import Process, ProcessKind, processes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from topology.model import ClusterSpec, Topology
    from topology.processes import MetricsPlace

CONFIG = "/etc/dafka"
"""Where processes find the topology and what it names."""

FILE_NAME = "topology.yaml"

READERS = (
    ProcessKind.DISTRIBUTOR,
    ProcessKind.SCHEMAS,
    ProcessKind.REPLICA,
    ProcessKind.CONTROLLER,
)
"""Those that read the topology themselves."""

_LISTENS = {
    ProcessKind.TOWER: "--endpoint",
    ProcessKind.STORE: "--query",
    ProcessKind.REGISTRY: "--listen",
    ProcessKind.GATEWAY: "--listen",
    ProcessKind.REPLICA: "--listen",
    ProcessKind.CONTROLLER: "--metrics",
}
"""The option that says where others reach it. The rest are reached by nodes' own ports only."""

MEMORY = {
    ProcessKind.TOWER: "256M",
    ProcessKind.STORE: "4G",
    ProcessKind.GATEWAY: "2G",
}
"""Bounds, for what the processes' own do not cover; `docs/capacity.md` says what is used."""

MEMORY_OTHERS = "2G"


Spec = dict[str, Any]
"""A value of YAML."""


class DeploymentError(TopologyError):
    """A topology cannot be run there as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedProcess:
    """One process, somewhere.

    Attributes:
        name: Unique.
        kind: What it is.
        cluster: Where it belongs.
        command: Its words.
        host: The name or address at which it is to run.
        metrics: The port of its metrics.
        data: The directory of its log; empty if it keeps none.
        secrets: Key files and the like that it reads, relative to the topology; where it is a
            directory that ends in a slash, all in it.
        digest: Changes when it has to be started again.
    """

    name: str
    kind: ProcessKind
    cluster: str
    command: tuple[str, ...]
    host: str
    metrics: int
    data: str
    secrets: tuple[str, ...]
    digest: str

    @property
    def memory(self) -> str:
        """Its bound of memory."""
        return MEMORY.get(self.kind, MEMORY_OTHERS)


def placed(topology: Topology, metrics_at: MetricsPlace) -> list[PlacedProcess]:
    """Return every process of a topology that is at `CONFIG` where it runs.

    Raises:
        DeploymentError: What it names would not be found there.
    """
    there = _moved(topology)
    found = processes_of(plan(there), PurePosixPath(CONFIG, FILE_NAME), metrics_at)
    return [_placed(there, process) for process in found]


def by_host(found: Iterable[PlacedProcess]) -> dict[str, list[PlacedProcess]]:
    """Processes by the host that they run on, in the order of starting.

    Raises:
        DeploymentError: Two of a host would serve metrics at one port.
    """
    hosts: dict[str, list[PlacedProcess]] = {}
    for one in found:
        ours = hosts.setdefault(one.host, [])
        for other in ours:
            if other.metrics == one.metrics:
                raise DeploymentError(
                    f"{one.name} and {other.name} are both on {one.host!r} and would serve metrics "
                    f"at port {one.metrics}: put clusters on hosts of their own"
                )
        ours.append(one)
    return hosts


_METRICS_PORTS = {
    ProcessKind.TOWER: 9200,
    ProcessKind.STORE: 9210,
    ProcessKind.REGISTRY: 9220,
    ProcessKind.SCHEMAS: 9221,
    ProcessKind.GATEWAY: 9230,
    ProcessKind.DISTRIBUTOR: 9240,
}
"""Behind each as many as there are of its kind, or its level: what comes later moves none."""

_SHARES_APART = 64
"""More than there are levels: where the same of the next share of links is."""


def placed_on_hosts(topology: Topology) -> dict[str, list[PlacedProcess]]:
    """Return the processes of each host of a topology, where they are on it by their names.

    Raises:
        DeploymentError: They cannot be.
    """
    hosts: dict[str, str] = {one.name: one.host for one in topology.clusters}
    numbers = {
        one.name: one.level + _SHARES_APART * one.share for one in plan(topology).distributors
    }

    def metrics_at(kind: ProcessKind, name: str, cluster: str, _index: int) -> str:
        number = numbers.get(name, int(name.rpartition("-")[2]) if name[-1].isdigit() else 0)
        return f"{hosts[cluster]}:{_METRICS_PORTS[kind] + number}"

    return by_host(placed(topology, metrics_at))


def _placed(topology: Topology, process: Process) -> PlacedProcess:
    cluster = next(one for one in topology.clusters if one.name == process.cluster)
    option = _LISTENS.get(process.kind)
    host = cluster.host if option is None else _host_of(process.command, option)
    assert process.metrics is not None
    facts = repr((process.command, process.reads))
    return PlacedProcess(
        name=process.name,
        kind=process.kind,
        cluster=process.cluster,
        command=process.command,
        host=host,
        metrics=int(process.metrics.rpartition(":")[2]),
        data=_option(process.command, "--data"),
        secrets=tuple(dict.fromkeys(_secrets(topology, cluster, process))),
        digest=hashlib.sha256(facts.encode()).hexdigest()[:16],
    )


def _option(command: tuple[str, ...], option: str) -> str:
    return command[command.index(option) + 1] if option in command else ""


def _host_of(command: tuple[str, ...], option: str) -> str:
    return host_and_port(f"tcp://{_option(command, option).rpartition('://')[2]}")[0]


def _secrets(topology: Topology, cluster: ClusterSpec, process: Process) -> Iterable[str]:
    """What a process reads beside the topology: its own keys, never those of other roles."""
    kind = process.kind
    if kind in (ProcessKind.TOWER, ProcessKind.STORE):
        if cluster.security:
            yield from (cluster.security.access, cluster.security.cluster_key)
    else:
        # Links have both ends, and any cluster may become one.
        for one in topology.clusters if kind in READERS else (cluster,):
            if one.security:
                yield from (one.security.access, one.security.key)
    users = _option(process.command, "--users")
    if users:
        yield posixpath.relpath(users, CONFIG)
    if topology.web:
        # Beside it are the certificates that it names.
        yield posixpath.dirname(topology.web.access) + "/"


def _moved(topology: Topology) -> Topology:
    """The topology as it is where it runs: nothing there depends on where it is now.

    Raises:
        DeploymentError: It names files that cannot be brought there, or a directory that is here.
    """
    for file in _files(topology):
        path = PurePosixPath(file)
        if path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
            raise DeploymentError(
                f"cannot place {file!r}: write key files into a directory beside the topology, as "
                "in keys/access.toml"
            )
    for cluster in topology.clusters:
        for store in cluster.stores:
            if not _has_own_directory(store.data):
                raise DeploymentError(
                    f"data {store.data!r} of {cluster.name}: write a path from the root in a "
                    "directory of its own, as in /var/lib/dafka/store"
                )
    control = topology.control
    if control is not None and not _has_own_directory(control.directory):
        # What an engine mounts belongs to root, and processes want a directory that is theirs.
        raise DeploymentError(
            f"control directory {control.directory!r}: write a path from the root in a directory "
            "of its own, as in /run/dafka/control"
        )
    clusters = tuple(
        replace(one, security=one.security and replace(one.security, directory=CONFIG))
        for one in topology.clusters
    )
    web = topology.web and replace(topology.web, directory=CONFIG)
    base = control and replace(control, base=CONFIG)
    return replace(topology, clusters=clusters, web=web, control=base)


def _has_own_directory(path: str) -> bool:
    """Whether what a path is in can be a mount: the directories of a system cannot."""
    return path.startswith("/") and len(PurePosixPath(path).parts) >= 4


def _files(topology: Topology) -> Iterable[str]:
    for cluster in topology.clusters:
        if cluster.security:
            yield from (cluster.security.access, cluster.security.cluster_key, cluster.security.key)
        yield from (gateway.users for gateway in cluster.gateways if gateway.users)
    if topology.web:
        yield from (topology.web.access, topology.web.token)
