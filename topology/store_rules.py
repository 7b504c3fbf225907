"""The rules about stores that keep some slots of the ring only."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from topology.addresses import normal_host
from topology.errors import Problem
from topology.model import host_and_port
from topology.slots import kept_too_seldom, shown_slots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from topology.model import ClusterSpec, StoreSpec, Topology


def disk_of(store: StoreSpec) -> tuple[str, str]:
    """Return what makes a store the same in two files: the host of its query port, and its path.

    The same path on another host is another disk.
    """
    return normal_host(host_and_port(store.query)[0]), posixpath.normpath(store.data)


def store_problems(topology: Topology) -> Iterator[Problem]:
    """Yield what keeps stores from keeping together all that they are to keep."""
    for index, cluster in enumerate(topology.clusters):
        path = f"$.clusters[{index}]"
        yield from _copies(cluster, path)
        if cluster.shared_out:
            yield from unserved(cluster, path)


def _copies(cluster: ClusterSpec, path: str) -> Iterator[Problem]:
    slots = [store.slots for store in cluster.stores]
    if not slots or not all(slots) or not cluster.copies:
        return
    few = kept_too_seldom(slots, cluster.copies)
    named = [
        f"{shown_slots([missing])} ({keepers} of {cluster.copies})" for missing, keepers in few
    ]
    if named:
        yield Problem(
            f"{path}.stores",
            f"too few stores of {cluster.name!r} keep slots {', '.join(named)}",
            "let further stores keep them, or lower copies",
        )


def unserved(cluster: ClusterSpec, path: str) -> Iterator[Problem]:
    """Yield what takes each store for one that has everything."""
    alone = "or let every store keep all: take slots out"
    if cluster.wire != "rfc46" or cluster.classic:
        key = "classic" if cluster.classic else "wire"
        message = f"stores of {cluster.name!r} share slots, and single records go to all of them"
        yield Problem(f"{path}.{key}", message, f"take {key} out, {alone}")
    for key, there in (("gateways", cluster.gateways), ("controllers", cluster.controllers)):
        if there:
            message = f"{key} of {cluster.name!r} do not serve stores that share slots yet"
            yield Problem(f"{path}.{key}", message, f"take {key} out, {alone}")
