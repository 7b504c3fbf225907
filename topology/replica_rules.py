"""The rules about controllers and replicas of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.model import ClusterSpec, Topology


def replica_problems(topology: Topology) -> Iterator[Problem]:
    """Yield what keeps a cluster's records from being copied by replicas."""
    for index, cluster in enumerate(topology.clusters):
        path = f"$.clusters[{index}]"
        if cluster.replicas and not cluster.controllers:
            yield Problem(
                f"{path}.replicas",
                f"nobody would tell replicas of {cluster.name!r} what to copy",
                "add controllers: [{metrics: HOST:PORT}]",
            )
        if cluster.controllers and not cluster.replicas:
            yield Problem(
                f"{path}.controllers",
                f"nobody would copy what controllers of {cluster.name!r} want",
                "add replicas: [{listen: HOST:PORT, metrics: HOST:PORT}], two or more",
            )
        if cluster.receive_only and (cluster.controllers or cluster.replicas):
            yield Problem(
                f"{path}.receive_only",
                f"cluster {cluster.name!r} only receives: its controllers and replicas had nothing "
                "to do",
                "take controllers and replicas out",
            )


def replica_places(cluster: ClusterSpec) -> Iterator[tuple[str, str]]:
    """Yield every place of a cluster's controllers and replicas, with its path in the cluster."""
    for number, controller in enumerate(cluster.controllers):
        for key, place in (("metrics", controller.metrics), ("listen", controller.listen)):
            if place:
                yield f"controllers[{number}].{key}", place
    for number, replica in enumerate(cluster.replicas):
        for key, place in (("listen", replica.listen), ("metrics", replica.metrics)):
            if place:
                yield f"replicas[{number}].{key}", place
