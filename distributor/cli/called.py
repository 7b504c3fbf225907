"""Which controller or replica of the file a process is: what the file says, and what it is told.

What the file has holds: others who read it ask and command what stands there. So options that say
something else are refused; where it says nothing, options are all there is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dafka.errors import MisuseError
from dafka.model import is_loopback
from dafka.plural import counted
from dafka.transport.binding import EVERY_HOST
from distributor.errors import PlanError
from topology import plan
from topology.model import ControllerSpec, ReplicaSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from topology.model import ClusterSpec, Topology
    from topology.plan import Distributor


def cluster_of(declared: Topology, name: str, file: Path) -> ClusterSpec:
    """Return a cluster of a file.

    Raises:
        PlanError: There is none of this name.
    """
    for cluster in declared.clusters:
        if cluster.name == name:
            return cluster
    known = ", ".join(one.name for one in declared.clusters)
    raise PlanError(f"no cluster {name!r} in {file}: there are {known}")


def called_distributors(
    declared: Topology, cluster: str, level: int, file: Path
) -> list[Distributor]:
    """Return the distributors of one cluster and level: as many as their links have shares.

    Raises:
        PlanError: There is none.
    """
    every = plan(declared).distributors
    found = [one for one in every if (one.cluster, one.level) == (cluster, level)]
    if not found:
        known = sorted({f"{one.cluster}/{one.level}" for one in every})
        raise PlanError(
            f"no distributor for cluster {cluster!r} and level {level} in {file}: "
            f"there are {', '.join(known)}"
        )
    return found


def called_share(distributors: Sequence[Distributor], share: str | None, file: Path) -> Distributor:
    """Return the one of these that has a share, `I/N`.

    Raises:
        MisuseError: None of them has, or it is not said which of several is meant.
    """
    first, of = distributors[0], len(distributors)
    if share is None and of == 1:
        return first
    for one in distributors:
        if share == f"{one.share}/{of}":
            return one
    by_file = f"by {file} links of level {first.level} are in {counted(of, 'share')}"
    if share is None:
        raise MisuseError(f"{by_file}: give each process its --share, from 0/{of} to {of - 1}/{of}")
    cure = f"give one from 0/{of} to {of - 1}/{of}, or write another number"
    raise MisuseError(
        f"--share {share} is none of the file's: {by_file}; {cure} under links: {{shares: …}} "
        "into it, where all commands look"
    )


def refuse_beside_replicas(cluster: ClusterSpec, command: str, file: Path) -> None:
    """Make sure that nothing is begun that replicas of a cluster do.

    Args:
        cluster: Which.
        command: What would be begun, for people.
        file: Where it is declared.

    Raises:
        PlanError: It has replicas.
    """
    if cluster.controlled:
        raise PlanError(
            f"{command} has nothing to do for {cluster.name}: by {file} its replicas copy its "
            "records, positions of groups and schemas, and send its heartbeats. Run distributor "
            "replica and distributor controller run, or take controllers and replicas of the "
            "cluster out of the file"
        )


def on_own_host(declared: Topology, cluster: ClusterSpec, place: str | None) -> Topology:
    """Return a topology as a process knows it that may be on another host than its cluster.

    Nodes of both meshes are bound at the host of the cluster whose records are copied: where the
    process listens elsewhere it is on another machine, and that is where others reach it.

    Args:
        declared: What the file says.
        cluster: Whose process it is.
        place: Where that listens, `HOST:PORT`; None for nowhere.
    """
    host = "" if place is None else place.rpartition(":")[0]
    if host in ("", cluster.host, *EVERY_HOST) or is_loopback(host):
        return declared
    own = replace(cluster, host=host, advertise=None)
    clusters = (own if one.name == cluster.name else one for one in declared.clusters)
    return replace(declared, clusters=tuple(clusters))


def called_replica(
    cluster: ClusterSpec, listen: str | None, name: str | None, metrics: str | None
) -> ReplicaSpec:
    """Return where a replica listens, and serves metrics: empty for nowhere.

    Args:
        cluster: Whose it is.
        listen: What it is told, as the next ones; None for nothing.
        name: See there.
        metrics: See there.

    Raises:
        MisuseError: It is none of the file's, or something else than the file says is told.
    """
    if not cluster.replicas:
        if listen is None:
            raise MisuseError(
                f"a replica of {cluster.name} does not know where to listen: give --listen "
                "HOST:PORT, or declare replicas of the cluster in the file"
            )
        return ReplicaSpec(listen=listen, metrics=metrics or "")
    places = [one.listen for one in cluster.replicas]
    place = _chosen(places, listen, f"replica of {cluster.name}", "--listen")
    found = cluster.replicas[places.index(place)]
    if name not in (None, found.listen):
        raise MisuseError(f"a replica that the file declares has no --name: it is {found.listen}")
    if metrics not in (None, found.metrics):
        raise MisuseError(
            f"--metrics {metrics} is not what the file says of the replica at {found.listen}: "
            f"leave it out, it is {found.metrics}"
        )
    return found


def called_controller(
    cluster: ClusterSpec, metrics: str | None, listen: str | None
) -> ControllerSpec:
    """Return where a controller serves metrics, and operators: empty for nowhere.

    Args:
        cluster: Whose it is.
        metrics: What it is told, as the next one; None for nothing.
        listen: See there.

    Raises:
        MisuseError: It is none of the file's, or something else than the file says is told.
    """
    places = [one.metrics for one in cluster.controllers]
    if not places:
        return ControllerSpec(metrics=metrics or "", listen=listen or "")
    place = _chosen(places, metrics, f"controller of {cluster.name}", "--metrics")
    found = cluster.controllers[places.index(place)]
    if listen not in (None, found.listen):
        raise MisuseError(
            f"--listen {listen} is not what the file says of the controller at {place}: leave it "
            f"out, it is {found.listen or 'nowhere'}"
        )
    return found


def called_replicas(cluster: ClusterSpec, told: Mapping[str, str]) -> dict[str, str]:
    """Return the replicas that a controller drives, by name.

    Args:
        cluster: Whose they are.
        told: Those that it is told.

    Raises:
        MisuseError: There are none, or the file has them and others are told.
    """
    declared = {one.listen: one.listen for one in cluster.replicas}
    if declared and told:
        raise MisuseError(
            f"--replica {next(iter(told))} goes with no file that declares replicas: those of "
            f"{cluster.name} are {', '.join(declared)}; leave it out"
        )
    if not declared and not told:
        raise MisuseError(
            f"a controller of {cluster.name} has no replicas: give --replica HOST:PORT for each, "
            "or declare replicas of the cluster in the file"
        )
    return declared or dict(told)


def _chosen(places: Iterable[str], told: str | None, what: str, option: str) -> str:
    """The place that is told, or the only one."""
    known = list(places)
    if told is None and len(known) == 1:
        return known[0]
    if told not in known:
        wrong = "not said which it is" if told is None else f"{told} is not in the file"
        raise MisuseError(f"{what}: {wrong}; give {option}, one of {', '.join(known)}")
    assert told is not None
    return told
